"""Work and memory for any request grow no faster than its size."""

import gc
import json
import pkgutil
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from inspect import signature
from typing import Any

import pytest

import penumbra
from penumbra.apis import identity, recognise, session
from penumbra.apis.formats import FORMATS
from penumbra.apis.parts import string_values
from penumbra.compress import time_budget
from penumbra.compress.result import Redacted
from penumbra.config.settings import load
from penumbra.conversation import read, rewrite
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.model import Request, Rewritten
from penumbra.expand import query as expand
from penumbra.redaction import names, redactor
from penumbra.redaction.names import Strength
from penumbra.redaction.redactor import Redactor
from penumbra.redaction.values import Style
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document
from penumbra.wire.prefix_memory import PrefixMemory
from support.large_requests import MAKERS
from support.work_counts import calls

SETTINGS = load({}, {}, "")
ORDERS = {
    "in order": lambda n: range(n),
    "reversed": lambda n: range(n - 1, -1, -1),
    "first last": lambda n: [*range(1, n), 0],
}


def _read(name: str, body: dict[str, Any]) -> Request:
    api = recognise.by_request_line("POST", MAKERS[name][1])
    assert api is not None
    document = Document(json.dumps(body).encode())
    request = read.read(document, api, SETTINGS, b"k" * 32)
    assert request is not None
    FORMATS[api.format].visible(document)
    return request


def _all_of(name: str, body: dict[str, Any]) -> Rewritten:
    """Do everything that is done to a request, without I/O."""
    request = _read(name, body)
    return rewrite.rewrite(Inputs(request, {}, lambda text, hint: Redacted(text), None), LineIndexes())


@pytest.mark.parametrize("role", ["user", "assistant", "result"])
@pytest.mark.parametrize("memory", [None, PrefixMemory()], ids=["first reading", "with a memory"])
def test_empty_values_cost_little(role, memory):
    """An empty value of two bytes is an object, and a body has millions of bytes."""
    api = recognise.by_request_line("POST", "/v1/messages")
    many = 2_000

    def read_it(empty):
        content = [empty] * many
        if role == "result":
            content = [{"type": "tool_result", "tool_use_id": "t", "content": content}]
        messages = [{"role": "assistant" if role == "assistant" else "user", "content": content}]
        body = json.dumps({"model": "m", "messages": messages}, separators=(",", ":")).encode()
        return calls(lambda: read.read(Document(body), api, SETTINGS, b"k" * 32, memory=memory))

    for empty in ({}, []):
        assert read_it(empty) < 35 * many


SHAPES: dict[str, dict[str, Any]] = {"one turn": {}, "turns": {"apart": True}, "without ids": {"ids": False}}


def _growth(work: Callable[[str, dict[str, Any]], Any], name: str, bodies: list[dict[str, Any]]) -> float:
    """Return how many times more work the second half of the results takes than the second quarter: 2 where
    the work is linear."""
    work(name, bodies[0])
    small, medium, large = (calls(work, name, body) for body in bodies)
    return (large - medium) / (medium - small)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MAKERS)
def test_twice_as_many_results_are_twice_the_work_to_read(name, order, shape):
    bodies = [MAKERS[name][0](ORDERS[order](size), **SHAPES[shape]) for size in (16, 32, 64)]
    assert _growth(_read, name, bodies) < 2.3


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MAKERS)
def test_twice_as_many_results_are_twice_the_work(name, shape):
    """The order has no influence after the results are read, so each shape is tried with one order."""
    order = list(ORDERS.values())[list(SHAPES).index(shape)]
    bodies = [MAKERS[name][0](order(size), **SHAPES[shape]) for size in (25, 50, 100)]
    assert _growth(_all_of, name, bodies) < 2.4


@pytest.mark.parametrize("name", MAKERS)
def test_twice_as_many_long_results_are_twice_the_work(name):
    """The results are so long that they are compared with later calls, and that parts of them become
    references."""
    padding = "".join(f"line {n} of what all of them say\n" for n in range(60))
    bodies = [MAKERS[name][0](range(size), padding=padding) for size in (8, 16, 32)]
    assert _growth(_all_of, name, bodies) < 2.6


@pytest.mark.parametrize("name", MAKERS)
def test_results_find_their_calls_in_any_order(name):
    api = recognise.by_request_line("POST", MAKERS[name][1])
    assert api is not None
    for order in ORDERS.values():
        document = Document(json.dumps(MAKERS[name][0](order(30))).encode())
        for result in api.wire.read(document).results:
            assert result.call is not None
            number = int((document.string(result.value) or "").split()[1])
            assert result.call.name == f"t{number % 7}"
            if name not in ("ollama",):
                assert json.loads(_arguments(document, result.call.arguments)) == {"n": number}


def test_a_result_without_an_id_takes_the_first_open_call_of_its_tool():
    for name in ("openai_chat", "gemini", "ollama"):
        api = recognise.by_request_line("POST", MAKERS[name][1])
        assert api is not None
        document = Document(json.dumps(MAKERS[name][0](range(30), ids=False)).encode())
        taken: Counter[str] = Counter()
        for result in api.wire.read(document).results:
            assert result.call is not None
            found = json.loads(_arguments(document, result.call.arguments))["n"]
            if name != "ollama":
                assert found % 7 == int((document.string(result.value) or "").split()[1]) % 7
            taken[found] += 1
        assert set(taken.values()) == {1}


def _arguments(document: Document, value: Any) -> str:
    return document.string(value) or document.source(value).decode()


def test_members_are_taken_out_without_a_look_at_all_that_stands_before():
    """The test counts the bytes that are read around each member."""
    looked = 0

    class Bytes(bytes):
        def __getitem__(self, key: Any) -> Any:
            nonlocal looked
            looked += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
            return super().__getitem__(key)

    body = json.dumps([{"_forge": 1, "role": "user", "n": n} for n in range(2_000)]).encode()
    document = Document(Bytes(body))
    for item in document.items(document.root):
        document.remove_member(document.members(item)["_forge"])
    assert looked < 20 * len(body)
    assert json.loads(document.render()) == [{"role": "user", "n": n} for n in range(2_000)]


def test_edited_values_are_found_without_a_scan_of_all_edits():
    document = Document(json.dumps(list(range(5_000))).encode())
    values = document.items(document.root)

    def every() -> None:
        for value in values:
            assert not document.is_edited(*document.place(value))
            document.rewrite(value, b"0")
            assert document.is_edited(*document.place(value))

    assert calls(every) < 50 * len(values)
    document.edits[:] = document.edits[:10]
    assert document.is_edited(*document.place(values[9]))
    assert not document.is_edited(*document.place(values[10]))
    document.append(document.root, b"1")
    start, end = document.place(values[-1])
    assert not document.is_edited(start, end)
    assert document.is_edited(start, end + 1)


SECRET = "ghp_" + "q8Zk2mVt41Lx9RwPz0bT6cA3sD5fG7hJ9kLq"


def test_a_request_that_takes_too_long_goes_on_with_redaction_alone_and_for_good(monkeypatch):
    """Some results are shortened; once the time is over, the others are searched for secrets alone."""
    body = json.dumps(MAKERS["anthropic"][0](range(30), padding=f"  token {SECRET}  \n" * 60)).encode()
    api = recognise.by_request_line("POST", "/v1/messages")
    assert api is not None
    redact = Redactor(b"k" * 32).redact
    counted = iter(range(1_000_000))
    # The check counts how often it is asked, and looks at no clock.
    monkeypatch.setattr(time_budget, "of_request", lambda seconds: lambda: next(counted) >= 10)

    def sent(known: dict[bytes, Decision]) -> Rewritten:
        request = read.read(Document(body), api, SETTINGS, b"k" * 32)
        assert request is not None
        return rewrite.rewrite(Inputs(request, known, redact, None), LineIndexes())

    first = sent({})
    assert SECRET.encode() not in first.body
    skipped = [one.facts.skipped for one in first.shown]
    assert skipped == [()] * 10 + [("request_budget",)] * 20
    assert all(one.facts.redactions for one in first.shown if one.facts.how != "duplicate")
    for one in first.shown[10:]:
        assert first.decisions[one.item.key].text == redact(one.item.text, "").text
    # Every result keeps its form later, with all the time there is.
    monkeypatch.undo()
    again = sent(dict(first.decisions))
    assert again.body == first.body
    assert not again.decisions


@pytest.mark.parametrize(("begin", "end"), [(b'{"a":', b"}"), (b"[", b"]")], ids=["objects", "arrays"])
def test_deep_nesting_is_not_read_again_at_every_level(begin: bytes, end: bytes) -> None:
    """Level by level, 180 MB would be parsed."""
    inner = b"[" + b",".join([b'"x"'] * 50_000) + b"]"
    document = Document(begin * 900 + inner + end * 900)
    flat = Document(inner)
    found = []
    parsed = calls(lambda: found.extend(string_values(document, document.root)))
    assert parsed < 3 * calls(lambda: list(string_values(flat, flat.root)))
    assert [document.data[start - 1 : stop] for start, stop in map(document.place, found[:2])] == [
        b'["x"',
        b',"x"',
    ]
    document.replace(found[-1], "y")
    assert document.render() == document.data.replace(b'"x"]', b'"y"]')


REF = "shadow_" + "0" * 18
TEXT = "".join(f"line {number}\n" for number in range(1, 101))


def _ask(text, pattern, *, seconds_a_line=0.0, **more):
    query = expand.parse(expand.encode({"id": REF, "pattern": pattern, **more}).decode())
    assert isinstance(query, expand.Query)
    ticks = iter(range(1_000_000_000))
    return expand.result(text, query, "expand_context", clock=lambda: next(ticks) * seconds_a_line)


@pytest.mark.parametrize("pattern", [r"(a?b?){700}z", r"a.{900}b.{900}z", r"((\w{1,9} ?){9}){99}"])
def test_a_pattern_of_many_steps_is_refused(pattern):
    assert re.match("The pattern can't be used", _ask(TEXT, pattern))


def test_a_slow_search_ends_and_names_its_last_line():
    # The time is over after the tenth line.
    found = _ask(TEXT, "line (3|50)$", seconds_a_line=0.2, context=0)
    assert found == (
        "[1 matching line in 100 lines, of which only 1-10 were searched, since this pattern takes long]\n"
        '3:line 3\n[To go on: the same call with lines="11-100", or a simpler pattern.]'
    )
    found = _ask(TEXT, "nothing", seconds_a_line=0.2, lines="20-40")
    assert found == (
        "[0 matching lines in lines 20-40 of 100 lines, of which only 20-29 were searched, since this pattern "
        'takes long]\n[To go on: the same call with lines="30-40", or a simpler pattern.]'
    )


def test_going_on_reaches_the_end():
    numbers, lines = [], ""
    for _ in range(100):
        found = _ask(TEXT, "line [0-9]*5$", seconds_a_line=0.7, context=0, lines=lines)
        numbers += re.findall(r"^(\d+):", found, re.M)
        more = re.search(r'lines="([0-9-]+)"', found)
        if more is None:
            break
        lines = more[1]
    assert numbers == [str(number) for number in range(5, 101, 10)]


def test_only_the_beginning_of_a_line_of_megabytes_is_searched():
    text = "first\n" + "ab" * 3_000_000 + "z\n"
    found = _ask(text, "z")
    assert found.startswith(
        "[0 matching lines in 2 lines; of 1 very long lines only the beginning was searched]"
    )
    assert "matching line in 2 lines]" in _ask("first\n" + "ab" * 100_000 + "z\n", "z")


LRU = type(lru_cache(len))
KNOWN = {
    "asks": False,
    "format_name": "anthropic",
    "kind": "call types",
    "method": "POST",
    "question": "secret",
    "section": "blocks",
    "skip_tools": frozenset(("x",)),
    "strength": Strength.WEAK,
    "style": Style.CODE,
}
"""The arguments that are no texts from outside, by the names of parameters."""

OTHER_CACHES = (
    *("rules", "rule_schemas", "apis.gemini", "apis.session", "store.records", "compress.families.family"),
    *("apis.base", "conversation.cache_price"),
    *("compress.calls.classify", "compress.calls.shell", "compress.calls.unknown_tools", "expand.reference"),
    *("compress.families.patterns", "compress.stages.line_numbers", "compress.token_estimate"),
    *("conversation.line_index", "expand.expansions", "external.dispatch", "metrics.amounts"),
    *("metrics.tool_use", "redaction.restore.restorer", "retry.refusals"),
)
"""Modules with other caches of texts: names in rules, and texts whose length the callers limit."""


def _remembering() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions that remember their results."""
    yield "openings", session.stable
    yield "hints", redactor.read_hint
    yield "names", names.Names().judge
    for found in pkgutil.walk_packages(penumbra.__path__, "penumbra."):
        module = None if found.name.endswith("__main__") else import_module(found.name)
        for name, value in vars(module).items() if module else ():
            if (
                hasattr(value, "cache_clear")
                and not isinstance(value, LRU)
                and value.__module__ == found.name
            ):
                yield f"{found.name}.{name}", value


REMEMBERED = dict(_remembering())


def test_other_functions_remember_no_texts_from_outside() -> None:
    others = {
        value.__module__.removeprefix("penumbra.")
        for found in pkgutil.walk_packages(penumbra.__path__, "penumbra.")
        if not found.name.endswith("__main__")
        for value in vars(import_module(found.name)).values()
        if isinstance(value, LRU) and "str" in value.__wrapped__.__annotations__.values()
    }
    assert others - set(OTHER_CACHES) == set()
    assert len(REMEMBERED) > 25


class Text(str):
    """A string that can be referred to weakly."""


@pytest.mark.parametrize("kind", REMEMBERED)
def test_long_texts_are_not_kept(kind: str) -> None:
    text = Text("1/" + "a1b." * 40_000)
    parameters = signature(REMEMBERED[kind]).parameters
    REMEMBERED[kind](*(KNOWN.get(name, text) for name in parameters))
    there = weakref.ref(text)
    del text
    gc.collect()
    assert there() is None


@pytest.mark.parametrize("where", ["headers", "query"])
@pytest.mark.parametrize(
    "given", [{"a1-" * 100_000: "v"}, {f"a1-{number}": "v" for number in range(5_000)}], ids=["long", "many"]
)
def test_names_beyond_the_limits_are_credentials_and_are_not_split(where: str, given: dict[str, str]) -> None:
    """Callers with different names are kept apart. Splitting a name of 80 KB into words takes a second."""

    def scope(names: dict[str, str]) -> bytes:
        of = {"headers": {}, "query": {}, where: names}
        return identity.Credentials.of("h:443", "peer", **of).scope(b"k")

    assert scope(given) == scope(dict(reversed(given.items())))
    assert scope(given) != scope(given | {next(iter(given)): "w"})
    assert calls(scope, given) < 100 + 25 * len(given)
