"""Results that programs read lose only their secrets, and no reference names them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from penumbra.apis.base import MadeCall
from penumbra.apis.formats import FORMATS
from penumbra.conversation.summary_requests import bound
from support.apis import BY_ID, Api
from support.engines import Callers

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
ROWS = [{"id": number, "name": f"row {number}", "city": "Wien", "note": "x" * 40} for number in range(400)]
RAW = json.dumps(ROWS, indent=1) + "\r\n"
LISTING = json.dumps({"rows": ROWS[:20], "token": TOKEN, "pin": 12345678901234567890123})
ANTHROPIC, RESPONSES = (BY_ID[name] for name in ("anthropic-messages", "openai-responses"))
BY_CODE = {"type": "code_execution_20260120", "tool_id": "srvtoolu_01AbCdEfGhIjKlMnOpQrStUv"}
BY_PROGRAM = {"type": "program", "caller_id": "prog_0123456789abcdef0123456789abcdef"}
DIRECT = {"type": "direct"}


def _id(number: int) -> str:
    return f"toolu_01AbCdEfGhIjKlMnOpQrS{number:03}"


def _called(api: Api, number: int, caller: dict[str, Any] | None) -> dict[str, Any]:
    message: dict[str, Any] = api.write(("call", _id(number), f"rows {number}"))
    if caller:
        (message["content"][0] if api is ANTHROPIC else message)["caller"] = caller
    return message


def _result(api: Api, number: int, text: str, caller: dict[str, Any] | None) -> dict[str, Any]:
    message: dict[str, Any] = api.write(("result", _id(number), text))
    if caller and api is RESPONSES:
        message["caller"] = caller
    return message


def _body(api: Api, *results: tuple[str, dict[str, Any] | None], **more: Any) -> bytes:
    turns = [api.write(("user", "How many rows are there?"))]
    for number, (text, caller) in enumerate(results):
        turns += [_called(api, number, caller), _result(api, number, text, caller)]
    return json.dumps({**api.rest, api.member: turns, **more}).encode()


def _texts(api: Api, body: bytes) -> list[str]:
    texts = []
    for message in json.loads(body)[api.member]:
        if api is RESPONSES and message.get("type") == "function_call_output":
            texts.append(message["output"])
        if api is ANTHROPIC and isinstance(message["content"], list):
            texts += [block["content"] for block in message["content"] if block["type"] == "tool_result"]
    return texts


BOTH = pytest.mark.parametrize(
    ("api", "caller"),
    [(ANTHROPIC, BY_CODE), (RESPONSES, BY_PROGRAM), (RESPONSES, {"type": "something_new"})],
    ids=["anthropic", "responses", "unknown caller"],
)


@pytest.mark.parametrize("api", [ANTHROPIC, RESPONSES], ids=lambda api: api.id)
def test_result_of_a_direct_call_is_shortened(callers: Callers, api: Api) -> None:
    body = _body(api, (RAW, DIRECT))
    assert len(_texts(api, callers.send(api, body, api.credential("k")).rewritten.body)[0]) < len(RAW) / 2


@BOTH
def test_only_the_secret_goes_and_the_json_stays_valid(
    callers: Callers, api: Api, caller: dict[str, Any]
) -> None:
    sent = callers.send(api, _body(api, (LISTING, caller)), api.credential("k"))
    (text,) = _texts(api, sent.rewritten.body)
    value = json.loads(text)
    assert value.pop("token").startswith("[REDACTED:")
    expected = json.loads(LISTING)
    assert expected.pop("token") == TOKEN
    assert value == expected
    assert sum(sum(entry.facts.redactions.values()) for entry in sent.rewritten.shown) == 1


@BOTH
def test_no_reference_names_a_result_that_the_model_never_saw(
    callers: Callers, api: Api, caller: dict[str, Any]
) -> None:
    plain = "\n".join(f"line {number} of a listing that says something" for number in range(60))
    sent = callers.send(api, _body(api, (plain, caller), (plain, None), (plain, caller)), api.credential("k"))
    texts = _texts(api, sent.rewritten.body)
    assert [texts[0], texts[2]] == [plain, plain]
    assert "earlier" not in texts[1]
    assert [entry.facts.referents for entry in sent.rewritten.shown] == [()]


@BOTH
def test_result_keeps_its_bytes_in_later_turns_and_after_a_restart(
    callers: Callers, api: Api, caller: dict[str, Any]
) -> None:
    first = callers.send(api, _body(api, (LISTING, caller)), api.credential("k"))
    callers.restart()
    second = callers.send(api, _body(api, (LISTING, caller), (RAW, caller)), api.credential("k"))
    texts = _texts(api, second.rewritten.body)
    assert texts == [*_texts(api, first.rewritten.body), RAW]


@BOTH
def test_budget_and_superseded_results_leave_it_alone(
    start: Callable[..., Callers], api: Api, caller: dict[str, Any]
) -> None:
    callers = start(supersede="priced", aggregate_budget_bytes=10_000)
    same = _body(api, (RAW, caller), (RAW, caller), ("ok", None))
    assert _texts(api, callers.send(api, same, api.credential("k")).rewritten.body)[:2] == [RAW, RAW]


@BOTH
def test_a_bounded_summary_request_keeps_or_drops_a_program_s_result_whole(
    api: Api, caller: dict[str, Any]
) -> None:
    body = _body(api, (RAW, caller), (RAW[:30_000], None), ("ok", None))
    name = "anthropic" if api is ANTHROPIC else "openai_responses"
    bounded = bound(body, name, len(json.dumps(RAW)) + 15_000)
    assert bounded is not None
    assert _texts(api, bounded)[0] == RAW


def test_call_that_only_the_provider_has_is_remembered_as_a_program_s(callers: Callers) -> None:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use"}
    block = {"type": "tool_use", "id": _id(1), "name": "Bash", "input": {"command": "x"}, "caller": BY_CODE}
    document = FORMATS["anthropic"].body("expand_context")
    document.feed(json.dumps({**head, "content": [block], "usage": {}}).encode())
    (made,) = document.end_turn().made
    assert made == MadeCall(_id(1), "Bash", '{"command": "x"}', by_program=True)


def test_caller_of_a_result_is_never_searched(callers: Callers) -> None:
    named = {**BY_PROGRAM, "caller_id": TOKEN}
    body = _body(RESPONSES, (LISTING, named))
    sent = json.loads(callers.send(RESPONSES, body, RESPONSES.credential("k")).rewritten.body)
    assert [item.get("caller") for item in sent["input"]] == [None, named, named]
