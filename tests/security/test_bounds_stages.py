"""Whoever reads a result takes time that grows with it, and no faster: the stages and excerpts, the search for
secrets and the readers of requests, each on repetitions of what its modules are made of."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest

from penumbra.apis import recognise
from penumbra.compress.result import Mode
from penumbra.config.settings import Settings
from penumbra.conversation import read
from penumbra.redaction.redactor import Redactor
from penumbra.wire.document import Document
from support import examples, hostile_texts
from support.alphabets import of_module
from support.apis import BY_ID, printed
from support.hostile_texts import DIFF, MCP, PAGE, SHELL

TOKENS = 9
"""Of a module, beside the end of a line."""
SAMPLE = 300
"""One text in so many is tried, without `--all`."""
SIZE = 12_000
"""Characters. A text of four times the size decides."""
LEAST = 0.06
"""Seconds of work below which nothing is concluded."""
GROWTH, GROWTH_OF_TWICE = 9, 3
"""Four times the text takes four times the work, sixteen times where a place is looked at from each other. And
of twice the text."""
CALLS = {
    "command": SHELL,
    "diff": DIFF,
    "page": PAGE,
    "tool": MCP,
    "search": ("Grep", {"pattern": "x", "path": "."}),
    "read": ("Read", {"file_path": "/w/x.log"}),
    "tests": ("Bash", {"command": "pytest -q"}),
}
Ask = Callable[[str], object]


@dataclass(frozen=True)
class Reader:
    """What sees a text, and the package whose modules say what is hard for it."""

    package: str
    ask: Ask


def _shortened(call: hostile_texts.Call, mode: Mode) -> Ask:
    return lambda text: hostile_texts.shorten(text, call, mode=mode)


def _searched(hint: str) -> Ask:
    redactor = Redactor(b"k" * 32)
    return lambda text: redactor.redact(text, hint)


def _read(text: str) -> None:
    """A request that has the text as the user's, as a result, and as what a call is called with."""
    turns = printed(text, words=text, arguments=lambda _: {"command": text})
    body = BY_ID["anthropic-messages"].body(turns)
    api = recognise.by_request_line("POST", "/v1/messages")
    assert api is not None
    assert read.read(Document(body), api, Settings(), b"scope") is not None


READERS = {
    **{name: Reader("compress", _shortened(call, Mode.AGGRESSIVE)) for name, call in CALLS.items()},
    "command, standard": Reader("compress", _shortened(SHELL, Mode.STANDARD)),
    "secrets": Reader("redaction", _searched("")),
    "secrets of a file": Reader("redaction", _searched("cat .env")),
    "request": Reader("apis", _read),
    "request and its decisions": Reader("conversation", _read),
}


@cache
def _texts(package: str) -> list[tuple[str, str]]:
    """A unit that is repeated, and what stands in front of it once."""
    texts: dict[tuple[str, str], None] = {}
    place = importlib.import_module(f"penumbra.{package}")
    for found in pkgutil.walk_packages(place.__path__, f"penumbra.{package}."):
        tokens = [*of_module(importlib.import_module(found.name))[:TOKENS], "\n"]
        for unit in itertools.chain(tokens, map("".join, itertools.permutations(tokens, 2))):
            texts |= {("", unit): None, (tokens[0], unit): None}
    return list(texts)


def _seconds(ask: Ask, start: str, unit: str, size: int) -> float:
    """Of processor time."""
    text = start + unit * (size // len(unit))
    begun = time.thread_time()
    ask(text)
    return time.thread_time() - begun


def _grows(ask: Ask, start: str, unit: str, size: int = SIZE, enough: float = LEAST) -> bool:
    """Whether the work grows faster than the text."""
    if _seconds(ask, start, unit, size) < enough:
        return False
    # What is bounded grows up to its bound, so that a larger text decides. The least of some is what the
    # machine did not disturb.
    for begin, times, growth in ((size, 4, GROWTH), (4 * size, 2, GROWTH_OF_TWICE)):
        less, more = (
            min(_seconds(ask, start, unit, each) for _ in range(2)) for each in (begin, times * begin)
        )
        if more < growth * less:
            return False
    return True


def _found(reader: Reader, sample: int) -> list[str]:
    texts = _texts(reader.package)
    chosen = texts if sample == 1 else random.Random(17).sample(texts, len(texts) // sample)
    return [repr(start + unit * 3) for start, unit in chosen if _grows(reader.ask, start, unit)]


@pytest.mark.parametrize("name", READERS)
def test_the_work_grows_with_the_text(name: str) -> None:
    assert not _found(READERS[name], 1 if examples.part.of == 1 else SAMPLE)


def test_there_is_something_to_try_of_each_package() -> None:
    assert all(len(_texts(reader.package)) > 1_000 for reader in READERS.values())


def test_what_looks_at_each_place_from_each_other_is_seen() -> None:
    assert _grows(re.compile(r"(?:a|b|\n)*x").search, "", "ab\n", size=2_000, enough=0.0)
    assert not _grows(re.compile(r"(?:a|b|\n)x").search, "", "ab\n", size=50_000, enough=0.0)
