"""Strings and bodies as no client writes them: nothing raises, and nothing is sent unsearched."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.apis import APIS, Api
from support.engines import Callers
from support.examples import examples
from support.planted import GITHUB
from support.properties import TARGETS

_PATH = "src/app.py"
_TURNS = (
    ("user", "go"),
    ("call", "toolu_1", f"cat {_PATH}"),
    ("result", "toolu_1", f"def f():\n    return 1\n# the token {GITHUB} is in use\n"),
    ("said", "well"),
    ("user", "go on"),
)
_ODD = {
    "unpaired": "a\udce9",
    "low-first": "\udc00\ud800",
    "nul": "a\0b",
    "line-separator": "a\u2028b\u0085c",
    "astral": "\U0001f600\U00010fff",
    "long": "word " * 14_000,
}
_FILE_CALLS = (
    f"cat {_PATH}",
    f"head -5 '{_PATH}'",
    _PATH,
    f"git show HEAD:{_PATH}",
    f"sed -n 1,9p {_PATH} | cat",
)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) for every string below a value."""
    for key, inner in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        if isinstance(inner, str):
            yield value, key
        elif isinstance(inner, dict | list):
            yield from _places(inner)


def _each_spoilt(api: Api, odd: str) -> Iterator[tuple[str, bytes]]:
    """Yield (member, request) for each string of the request: with `odd` at its end, `odd` alone, and `odd`
    after the path in it; for the arguments of a call also within their JSON."""
    parsed = json.loads(api.body(_TURNS))
    for container, key in list(_places(parsed)):
        plain = container[key]
        for made in {plain + odd, odd, plain.replace(_PATH, _PATH + odd)} - {plain}:
            if GITHUB not in plain or GITHUB in made:
                container[key] = made
                yield str(key), json.dumps(parsed).encode()
        if key == "arguments":
            container[key] = json.dumps({"command": f"cat {_PATH}{odd}", "path": odd})
            yield key, json.dumps(parsed).encode()
        container[key] = plain


@pytest.mark.parametrize("odd", _ODD.values(), ids=_ODD)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_no_string_of_a_request_ends_its_conversation(api: Api, odd: str, callers: Callers) -> None:
    for member, body in _each_spoilt(api, odd):
        first = callers.send(api, body, api.credential("sk-a")).rewritten.body
        assert callers.send(api, body, api.credential("sk-a")).rewritten.body == first, member
        # No provider takes messages or blocks of other kinds.
        assert member in ("type", "role") or GITHUB.encode() not in first, member


@pytest.mark.parametrize("call", _FILE_CALLS)
@pytest.mark.parametrize("odd", _ODD.values(), ids=_ODD)
def test_a_secret_in_a_file_of_an_odd_name_is_found(call: str, odd: str, callers: Callers) -> None:
    for api in APIS:
        named = ("call", "toolu_1", call.replace(_PATH, _PATH + odd))
        body = api.body([_TURNS[0], named, *_TURNS[2:]])
        assert GITHUB.encode() not in callers.send(api, body, api.credential("sk-a")).rewritten.body


@pytest.mark.parametrize("odd", _ODD.values(), ids=_ODD)
def test_odd_strings_beside_a_request_do_not_end_it(odd: str, callers: Callers) -> None:
    for api in APIS:
        body = api.body(_TURNS)
        key = api.credential("sk-a")
        for headers, more in (
            ({**key, odd: "x"}, {}),
            ({**key, "user-agent": odd, "cookie": odd, "session-id": odd}, {}),
            (api.credential(f"sk-a{odd}"), {}),
            (key, {"query": {odd: odd, "key": odd}}),
            (key, {"path": api.path + odd}),
            ({}, {"peer": odd}),
        ):
            found = callers.send(api, body, headers, **more)
            assert GITHUB.encode() not in found.rewritten.body


_EXAMPLES = {"redaction": 15, "bodies": 25, "answers": 40, "codings": 60, "rules": 200}


@pytest.mark.parametrize("name", TARGETS)
def test_laws_hold_for_every_input(name):
    @settings(
        max_examples=examples(_EXAMPLES.get(name, 100)),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(max_size=300))
    def holds(data: bytes) -> None:
        TARGETS[name](data)

    holds()
