"""The time of patterns, stages, redaction and readers of requests grows no faster than the text. Each is
tried with repetitions of the pieces of its patterns and modules."""

import importlib
import inspect
import itertools
import pkgutil
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from penumbra.apis import recognise
from penumbra.compress.result import Mode
from penumbra.config.settings import Settings
from penumbra.conversation import read
from penumbra.redaction.redactor import Redactor
from penumbra.redaction.shared_patterns import late
from penumbra.wire.document import Document
from support import examples, hostile_texts
from support.alphabets import of_module, of_pattern
from support.apis import BY_ID, printed
from support.hostile_texts import DIFF, MCP, PAGE, SHELL

Ask = Callable[[Any], object]


@dataclass(frozen=True)
class Scale:
    """A `Scale` has the sizes of texts that are compared, and the allowed growth of work."""

    size: int
    """Characters of the first text."""
    least: float
    """Seconds of processor time below which nothing is concluded."""
    steps: tuple[tuple[int, int, float], ...]
    """Comparisons, each with the size of the smaller text, the factor to the larger one, and the factor of
    work that is too much. Bounded work grows up to its bound, so the last comparison decides."""


# Four times the text takes four times the work, sixteen times where a place is looked at from each other.
OF_PATTERNS = Scale(2_048, 0.003, ((512, 4, 9), (8_192, 4, 9)))
OF_STAGES = Scale(12_000, 0.06, ((12_000, 4, 9), (48_000, 2, 3)))


def seconds(ask: Ask, start: str, unit: str, size: int) -> float:
    """Return the processor time that a text of this size takes."""
    text = start + unit * (size // len(unit))
    begun = time.thread_time()
    ask(text)
    return time.thread_time() - begun


def grows(ask: Ask, start: str, unit: str, scale: Scale) -> bool:
    """Return whether the work for a unit that is repeated grows faster than the text."""
    if seconds(ask, start, unit, scale.size) < scale.least:
        return False
    # The least of several measurements is the one that the machine did not disturb.
    for size, times, growth in scale.steps:
        less, more = (min(seconds(ask, start, unit, each) for _ in range(3)) for each in (size, times * size))
        if more < growth * less:
            return False
    return True


def repetitions(tokens: list[str]) -> Iterator[tuple[str, str]]:
    """Yield a text before the repetition, and the repeated unit."""
    for unit in itertools.chain(tokens, map("".join, itertools.permutations(tokens, 2))):
        yield "", unit
        yield tokens[0], unit


def modules(package: str) -> Iterator[Any]:
    """Yield the modules below a package that can be imported here."""
    place = importlib.import_module(package)
    for found in pkgutil.walk_packages(place.__path__, f"{package}."):
        try:
            yield importlib.import_module(found.name)
        except ImportError:
            continue


PACKAGES = ("apis", "compress", "conversation", "expand", "redaction", "wire")
TRUSTED = ("rule",)
"""Modules that read rules."""
BOUNDED = {  # The reason for which each pattern can't take long.
    "penumbra.conversation.staying_lines:_HEADINGS": "lines of bounded length",
    "penumbra.compress.stages.headings:_COLUMN": "asked by `match` under another name",
}
WAYS = "search|finditer|findall|subn?|split|match|fullmatch"
LATE = type(late(b""))


def patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in a module's value."""
    inner: list[Any] = []
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, LATE):
        yield re.compile(value.pattern, value.flags)
    elif isinstance(value, dict):
        inner = [*value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = [*value]
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        inner = [getattr(value, name, None) for name in value.__dataclass_fields__]
    for member in inner if depth < 3 else ():
        yield from patterns_in(member, depth + 1)


def named_values(module: Any) -> Iterator[tuple[str, object]]:
    """Yield the values of a module, and the members of its dictionaries, as its source names them."""
    for name, value in vars(module).items():
        members = value.items() if isinstance(value, dict) else ()
        yield from ((f'{name}["{key}"]', member) for key, member in members if isinstance(key, str))
        yield name, value


def all_patterns() -> Iterator[tuple[str, str, re.Pattern[Any]]]:
    """Yield place, method and pattern for each pattern of a module."""
    seen: set[tuple[str | bytes, int]] = set()
    for module in modules("penumbra"):
        parts = module.__name__.split(".")
        if parts[1] not in PACKAGES or parts[-1] in TRUSTED:
            continue
        source = inspect.getsource(module)
        for name, value in named_values(module):
            ways = set(re.findall(rf"\b{re.escape(name)}\.({WAYS})\b", source))
            whole = ways - {"match", "fullmatch"} or (not ways)
            way = "finditer" if whole else "match" if "match" in ways else "fullmatch"
            for pattern in patterns_in(value):
                if (pattern.pattern, pattern.flags) not in seen:
                    seen.add((pattern.pattern, pattern.flags))
                    yield f"{module.__name__}:{name}", way, pattern


def quadratic(pattern: re.Pattern[Any], way: str, scale: Scale = OF_PATTERNS) -> str:
    """Return a repetition for which the work grows faster than the text; empty if none was found."""

    def ask(text: str) -> None:
        given: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
        found = getattr(pattern, way)(given)
        for _ in found if way == "finditer" else ():
            pass

    tokens = of_pattern(pattern.pattern, pattern.flags)[:4]
    found = (start + unit * 3 for start, unit in repetitions(tokens) if grows(ask, start, unit, scale))
    return repr(text) if (text := next(found, "")) else ""


PATTERNS = list(all_patterns())


def test_there_are_patterns_in_each_package() -> None:
    assert {place.split(".")[1] for place, _, _ in PATTERNS} == set(PACKAGES)
    assert len(PATTERNS) > 300


@pytest.mark.parametrize("package", PACKAGES)
def test_no_pattern_is_quadratic(package: str) -> None:
    """Every twentieth pattern is asked, or each one where nothing is left out."""
    asked = PATTERNS if examples.part.of == 1 else PATTERNS[examples.part.number :: 20]
    found = {
        f"{place} {pattern.pattern!r}": unit
        for place, way, pattern in asked
        if place.split(".")[1] == package and place not in BOUNDED and (unit := quadratic(pattern, way))
    }
    assert not found


@pytest.mark.parametrize(
    "pattern", [r'"(?:[^"\\]|\\.){200,}"', r"\w*[0-9]\w*"], ids=["unclosed strings", "words without a number"]
)
def test_a_quadratic_pattern_is_seen(pattern: str) -> None:
    assert quadratic(re.compile(pattern), "finditer", Scale(2_048, 0.003, ((512, 4, 9),)))


SAMPLE = 300
"""Every Nth text is tried without `--all`."""
CALLS = {
    "command": SHELL,
    "diff": DIFF,
    "page": PAGE,
    "tool": MCP,
    "search": ("Grep", {"pattern": "x", "path": "."}),
    "read": ("Read", {"file_path": "/w/x.log"}),
    "tests": ("Bash", {"command": "pytest -q"}),
}


@dataclass(frozen=True)
class Reader:
    """A `Reader` sees texts; the modules of its package say which texts are hard for it."""

    package: str
    ask: Ask


def shortened(call: hostile_texts.Call, mode: Mode) -> Ask:
    return lambda text: hostile_texts.shorten(text, call, mode=mode)


def searched(hint: str) -> Ask:
    redactor = Redactor(b"k" * 32)
    return lambda text: redactor.redact(text, hint)


def read_request(text: str) -> None:
    """Read a request that has the text as a prompt, as a result, and as an argument of a call."""
    turns = printed(text, words=text, arguments=lambda _: {"command": text})
    body = BY_ID["anthropic-messages"].body(turns)
    api = recognise.by_request_line("POST", "/v1/messages")
    assert api is not None
    assert read.read(Document(body), api, Settings(), b"scope") is not None


READERS = {
    **{name: Reader("compress", shortened(call, Mode.AGGRESSIVE)) for name, call in CALLS.items()},
    "command, standard": Reader("compress", shortened(SHELL, Mode.STANDARD)),
    "secrets": Reader("redaction", searched("")),
    "secrets of a file": Reader("redaction", searched("cat .env")),
    "request": Reader("apis", read_request),
    "request and its decisions": Reader("conversation", read_request),
}


@cache
def texts(package: str) -> list[tuple[str, str]]:
    """Return repetitions of the pieces of a package's modules."""
    made: dict[tuple[str, str], None] = {}
    for module in modules(f"penumbra.{package}"):
        made |= dict.fromkeys(repetitions([*of_module(module)[:9], "\n"]))
    return list(made)


@pytest.mark.parametrize("name", READERS)
def test_the_work_grows_with_the_text(name: str) -> None:
    reader = READERS[name]
    tried = texts(reader.package)
    if examples.part.of > 1:
        tried = random.Random(17).sample(tried, len(tried) // SAMPLE)
    assert [start + unit * 3 for start, unit in tried if grows(reader.ask, start, unit, OF_STAGES)] == []


def test_there_is_something_to_try_of_each_package() -> None:
    assert all(len(texts(reader.package)) > 1_000 for reader in READERS.values())


def test_quadratic_work_is_detected() -> None:
    scale = Scale(2_000, 0.0, ((2_000, 4, 9), (8_000, 2, 3)))
    assert grows(re.compile(r"(?:a|b|\n)*x").search, "", "ab\n", scale)
    assert not grows(re.compile(r"(?:a|b|\n)x").search, "", "ab\n", scale)
