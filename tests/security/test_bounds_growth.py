"""Whatever sees a text takes time that grows with it, and no faster: each pattern is asked about repetitions of
what it is made of."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penumbra
from penumbra.redaction.shared_patterns import _Late
from support import examples
from support.alphabets import of_pattern

PACKAGES = ("apis", "compress", "conversation", "expand", "redaction", "wire")
TRUSTED = ("rule",)
"""Modules that read rules."""
TOKENS = 4
SMALL, LARGE = 512, 2_048
LEAST = 0.003
"""Seconds of work below which nothing is concluded."""
GROWTH = 9
"""Four times the text takes four times the work, sixteen times where a place is looked at from each other."""
BOUNDED = {  # Why each one can't take long where it is asked.
    "penumbra.conversation.said_lines:_HEADINGS": "lines of bounded length",
    "penumbra.compress.stages.headings:_COLUMN": "asked by `match` under another name",
}
WAYS = "search|finditer|findall|subn?|split|match|fullmatch"
Texts = str | bytes


def _members(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, _Late):
        yield re.compile(value.pattern, value._flags)
    elif depth < 3 and isinstance(value, dict):
        yield from _members([*value.values()], depth + 1)
    elif depth < 3 and isinstance(value, list | tuple | set | frozenset):
        for member in value:
            yield from _members(member, depth + 1)
    elif depth < 3 and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        yield from _members([getattr(value, name, None) for name in value.__dataclass_fields__], depth + 1)


def _patterns() -> Iterator[tuple[str, str, re.Pattern[Any]]]:
    """Where each one stands, and the way in which its module asks it."""
    seen: set[tuple[Texts, int]] = set()
    for found in pkgutil.walk_packages(penumbra.__path__, "penumbra."):
        parts = found.name.split(".")
        if parts[1] not in PACKAGES or parts[-1] in TRUSTED:
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:
            continue
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            ways = set(re.findall(rf"\b{re.escape(name)}\.({WAYS})\b", source))
            whole = ways - {"match", "fullmatch"} or (not ways)
            way = "finditer" if whole else "match" if "match" in ways else "fullmatch"
            for pattern in _members(value):
                if (pattern.pattern, pattern.flags) not in seen:
                    seen.add((pattern.pattern, pattern.flags))
                    yield f"{found.name}:{name}", way, pattern


def _units(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str]]:
    """What is repeated, and what stands in front of it once."""
    tokens = of_pattern(pattern.pattern, pattern.flags)[:TOKENS]
    for count in (1, 2):
        for unit in itertools.permutations(tokens, count):
            yield "", "".join(unit)
            yield tokens[0], "".join(unit)


def _seconds(pattern: re.Pattern[Any], way: str, start: str, unit: str, size: int) -> float:
    """Of processor time that a pattern takes."""
    text: Texts = start + unit * (size // len(unit))
    if isinstance(pattern.pattern, bytes):
        text = str(text).encode("latin-1", "replace")
    ask: Callable[[Any], object] = getattr(pattern, way)
    begun = time.process_time()
    found = ask(text)
    if way == "finditer":
        for _ in found:  # type: ignore[attr-defined]
            pass
    return time.process_time() - begun


def _grows(pattern: re.Pattern[Any], way: str) -> str:
    """A repetition for which the work grows faster than the text; empty if none was found."""
    for start, unit in _units(pattern):
        if _seconds(pattern, way, start, unit, LARGE) < LEAST:
            continue
        # What is bounded grows up to its bound, so that larger texts decide. The least of some is what the
        # machine did not disturb.
        for size in (SMALL, LARGE * 4):
            least, most = (
                min(_seconds(pattern, way, start, unit, each) for _ in range(3)) for each in (size, 4 * size)
            )
            if most < GROWTH * least:
                break
        else:
            return repr(start + unit * 3)
    return ""


PATTERNS = list(_patterns())


def test_there_are_patterns_in_each_package() -> None:
    assert {place.split(".")[1] for place, _, _ in PATTERNS} == set(PACKAGES)
    assert len(PATTERNS) > 300


@pytest.mark.parametrize("package", PACKAGES)
def test_no_pattern_is_quadratic(package: str) -> None:
    """Every twentieth pattern, or each one where nothing is left out."""
    asked = PATTERNS if examples.part.of == 1 else PATTERNS[examples.part.number :: 20]
    found = {
        f"{place} {pattern.pattern!r}": unit
        for place, way, pattern in asked
        if place.split(".")[1] == package and place not in BOUNDED and (unit := _grows(pattern, way))
    }
    assert not found


@pytest.mark.parametrize(
    ("pattern", "way"),
    [
        (r'"(?:[^"\\]|\\.){200,}"', "finditer"),
        (r"\w*[0-9]\w*", "finditer"),
    ],
    ids=["unclosed strings", "words without a number"],
)
def test_a_quadratic_pattern_is_seen(pattern: str, way: str) -> None:
    assert _grows(re.compile(pattern), way)
