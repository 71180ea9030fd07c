"""Caches of values from outside are bounded in bytes, not only in entries."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from penumbra.apis import identity, parts, result_blocks, session
from penumbra.compress.calls import tools
from penumbra.compress.families import several_outputs
from penumbra.compress.stages import grouping
from penumbra.conversation import ambiguity
from penumbra.redaction import names, other_bodies, redactor
from penumbra.wire import request_path

_JUDGE = names.Names().judge
REMEMBERED: dict[str, Callable[[str], Any]] = {
    "ids of calls": parts.is_telling,
    "openings": session.stable,
    "tools": tools.category,
    "skipped tools": lambda text: tools.skips(text, frozenset(("x",))),
    "hints": redactor.read_hint,
    "announced commands": several_outputs._announced,
    "paths of hits": grouping._is_path,
    "names": _JUDGE,
    "members": other_bodies._kind,
    "types": lambda text: other_bodies._is("call types", text),
    "members of results": lambda text: result_blocks._fits(text, "blocks"),
    "roles": result_blocks._plain,
    "doubled members": ambiguity._plain,
    "paths": request_path.normal,
    "headers": identity._is_header,
    "keys of queries": identity._is_query,
}


class Text(str):
    """A string that can be referred to weakly."""


@pytest.mark.parametrize("kind", REMEMBERED)
def test_long_texts_are_not_kept(kind: str) -> None:
    text = Text("1/" + "a1b." * 40_000)
    REMEMBERED[kind](text)
    there = weakref.ref(text)
    del text
    gc.collect()
    assert there() is None


def test_names_that_nobody_gives_are_credentials_at_once() -> None:
    """Such names keep callers apart, and are not split into words, which took a second for 80 KB."""
    name = "a1-" * 100_000
    assert identity._is_header(name)
    assert identity._is_query(name)


@pytest.mark.parametrize("where", ["_is_header", "_is_query"])
def test_more_names_than_anybody_gives_are_not_looked_at(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the names count: another value is another caller."""
    looked: list[str] = []
    monkeypatch.setattr(identity, where, lambda name: bool(looked.append(name)))
    many = {f"a{number}": "v" for number in range(5_000)}

    def scope(names: dict[str, str]) -> bytes:
        of = (names, {}) if where == "_is_header" else ({}, names)
        return identity.Credentials.of("h:443", "peer", *of).scope(b"k")

    assert scope(many) == scope(dict(reversed(many.items())))
    assert scope(many) != scope(many | {"a7": "w"})
    assert not looked
