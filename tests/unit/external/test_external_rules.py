"""Rule files of external compressors by their examples, and functions without a service: question, prices,
markers."""

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import rules
from penumbra.apis.formats import REQUESTS
from penumbra.conversation.external_forms import LIMIT, question, without_injected
from penumbra.external import dispatch
from penumbra.external.strategies import CONTRACTS, NoResponse, leads_here
from penumbra.metrics import amounts
from penumbra.wire.document import Document
from support.examples import examples

RULES = rules.load("strategies.yaml")
WHOLE, START = (
    re2.compile("|".join(f"(?:{entry[part]})" for entry in RULES["markers"])) for part in ("whole", "start")
)
PRICES = rules.load("dollars.yaml")


@pytest.mark.parametrize(("text", "left"), RULES["examples"]["injected"])
def test_injected_text_is_no_question(text: str, left: str) -> None:
    assert without_injected(text) == left


def taken(made: str, text: str) -> bool:
    try:
        dispatch.check_response(made, text)
    except NoResponse:
        return False
    return True


@pytest.mark.parametrize(("text", "given_answer", "is_taken"), RULES["examples"]["markers"])
def test_an_answer_with_forged_markers_is_refused(text: str, given_answer: str, is_taken: bool) -> None:
    assert taken(given_answer, text) == is_taken


def test_an_answer_that_leads_a_terminal_or_a_reader_astray_is_refused() -> None:
    for char in "\0\b\x0b\x1b\x7f\x9b\u202e\u2066":
        assert not taken(f"all{char}well", "some text")
        assert taken(f"all{char}well", f"some{char}text")
    assert taken("all\r\n\tis well – é\u200b", "some text")


@pytest.mark.parametrize(("model", "dollars"), PRICES["examples"].items())
def test_prices_are_found(model: str, dollars: float | None) -> None:
    found = amounts.price(model)
    assert (round(found.input * 1e6, 6) if found else None) == dollars


@pytest.mark.parametrize("entry", PRICES["models"], ids=lambda entry: entry["glob"])
def test_each_price_has_a_source_with_a_date(entry: dict[str, Any]) -> None:
    assert entry["source"] in PRICES["sources"]


@pytest.mark.parametrize("entry", rules.load("windows.yaml")["models"], ids=lambda entry: entry["glob"])
def test_model_whose_window_is_known_has_a_price(entry: dict[str, Any]) -> None:
    of_it = [price for name, price in PRICES["examples"].items() if fnmatchcase(name, entry["glob"])]
    assert any(of_it), f"no example of rules/dollars.yaml is a model of {entry['glob']}"


@pytest.mark.parametrize("example", rules.load("windows.yaml")["examples"], ids=str)
def test_example_of_a_known_window_has_a_price(example: dict[str, Any]) -> None:
    if model := example.get("model", ""):
        assert (amounts.price(model) is not None) == bool(example["window"] or example["believed"])


def test_dates_of_all_price_lists_are_named() -> None:
    assert amounts.as_of() == "list prices of 2025-12-31 to 2026-11-18"


def test_long_prompt_has_a_price_of_its_own() -> None:
    found = amounts.price("claude-haiku-5-5")
    assert found is not None
    assert [round(found.at(size).input * 1e6, 6) for size in (0, 100_000, 100_001)] == [0.1, 0.1, 0.5]
    assert [round(found.at(size).output * 1e6, 6) for size in (100_000, 100_001)] == [0.5, 2.5]


def test_every_provider_has_a_contract() -> None:
    named = {entry["contract"] for entry in RULES["providers"].values()}
    assert {*named, RULES["other"]} <= CONTRACTS.keys() == RULES["reserve"].keys()


_PIECES = st.sampled_from(
    [
        *("<<<SHADOW:", "shadow_ab", ">>>", "[REDACTED:", "x]", "[Duplicate of ", "a", "\n"),
        *("<<FORGE_", "LZW_1_2>>"),
    ]
)


@settings(max_examples=examples(200))
@given(st.lists(_PIECES, max_size=12).map("".join), st.lists(_PIECES, max_size=6).map("".join))
def test_no_marker_survives_that_the_text_does_not_have(made: str, text: str) -> None:
    own = {found.group() for found in WHOLE.finditer(text)}
    is_own = {found.group() for found in WHOLE.finditer(made)} <= own
    assert taken(made, text) == (is_own and not any(START.search(piece) for piece in WHOLE.split(made)))


def ask(wire: Any, body: dict[str, Any]) -> str:
    document = Document(json.dumps(body).encode())
    return question(document, wire.read(document).messages)


def test_the_question_is_the_last_message_of_the_user() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "lots"}
    reminder = {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}
    messages = [
        {"role": "user", "content": "First."},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": [{"type": "text", "text": "Why is it slow?"}, reminder]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [result, reminder]},
    ]
    assert ask(REQUESTS["anthropic"], {"model": "m", "messages": messages}) == "Why is it slow?"
    assert ask(REQUESTS["anthropic"], {"model": "m", "messages": messages[1:2]}) == ""


def test_the_question_in_other_formats() -> None:
    chat = [{"role": "user", "content": "Why?"}, {"role": "tool", "tool_call_id": "c", "content": "x"}]
    assert ask(REQUESTS["openai_chat"], {"messages": chat}) == "Why?"
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Why?"}]},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ]
    assert ask(REQUESTS["openai_responses"], {"model": "m", "input": items}) == "Why?"
    contents = [
        {"role": "user", "parts": [{"text": "Why?"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {"output": "y"}}}]},
    ]
    assert ask(REQUESTS["gemini"], {"contents": contents}) == "Why?"


def test_the_end_of_a_long_question_is_sent() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "a" * 5000 + "end"}]}
    assert ask(REQUESTS["anthropic"], body) == "a" * (LIMIT - 3) + "end"


def test_critical_lines_are_put_back() -> None:
    text = (
        "start\n" + "ok\n" * 50 + "E   assert 702 == 700\n  src/a.py:88: AssertionError\n1 failed, 60 passed"
    )
    assert dispatch.with_critical("All fine.", text) == (
        f"All fine.\n{dispatch.PUT_BACK}\nE   assert 702 == 700\n  src/a.py:88: AssertionError\n1 failed, 60 passed"
    )
    kept = "Summary: E   assert 702 == 700\nsrc/a.py:88: AssertionError\n1 failed, 60 passed"
    assert dispatch.with_critical(kept, text) == kept
    assert dispatch.with_critical("x", "error " * 1_000) == "x"


@pytest.mark.parametrize(
    ("compressor", "reader", "ratio", "worth"),
    [
        ("claude-haiku-4-5", "claude-opus-4-5", None, True),
        ("claude-haiku-4-5", "claude-haiku-4-5", None, False),
        ("gpt-5", "gpt-5-nano", 0.1, False),
        ("toc_latte_v1", "gpt-5-nano", 0.1, False),
        ("toc_latte_v1", "claude-sonnet-4-5", 0.5, True),
        ("unheard-of", "claude-haiku-4-5", None, True),
        ("claude-haiku-4-5", "unheard-of", None, True),
        ("", "claude-haiku-4-5", None, True),
    ],
)
def test_calls_that_are_worth_their_price(
    compressor: str, reader: str, ratio: float | None, worth: bool
) -> None:
    assert dispatch.worth_it(compressor, dispatch.Model(reader, 0.1, 1.25), 10_000, ratio) is worth


def test_costs_and_savings_of_a_call() -> None:
    assert dispatch.cost("claude-haiku-4-5", 1_000_000, 100_000) == pytest.approx(1.5)
    assert dispatch.cost("unheard-of", 1_000_000, 100_000) == 0
    # One write at 1.25 and eight reads at 0.1 are 2.05 input prices a token.
    assert dispatch.saving(dispatch.Model("claude-opus-4-5", 0.1, 1.25), 1_000_000) == pytest.approx(10.25)


@pytest.mark.parametrize(
    ("proxies", "here"),
    [
        (["http://127.0.0.1:8080"], True),
        (["http://localhost:8080/"], True),
        (["127.0.0.1:8080"], True),
        (["http://[::1]:8080"], True),
        (["http://user:pass@localhost:8080"], True),
        (["http://127.0.0.1:8081", "http://proxy.example:8080"], False),
        (["http://192.0.2.7:8080"], False),
        (["http://localhost:nonsense"], False),
        ([], False),
    ],
)
def test_the_address_of_this_proxy_is_recognised(proxies: list[str], here: bool) -> None:
    assert leads_here(proxies, {8080, 8443}) is here
