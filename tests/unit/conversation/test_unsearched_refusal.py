"""Requests that can't be searched for secrets, and their refusals in the shape of every API."""

import json
from typing import Any

import pytest

from penumbra.apis import recognise
from penumbra.config.settings import Settings
from penumbra.conversation import read
from penumbra.conversation.incoming import unsearched
from penumbra.redaction import RedactionError, TooLarge, Unreadable
from penumbra.wire.document import Document
from support import apis
from support.error_shapes import PATHS, said


def test_every_api_is_named() -> None:
    assert {api.id for api in recognise.apis()} == set(PATHS)
    for name, path in PATHS.items():
        found = recognise.by_request_line("POST", path)
        assert found is not None
        assert found.id == name


@pytest.mark.parametrize("error", [RedactionError("why"), TooLarge("why"), Unreadable("why")])
def test_refusals_have_the_shape_of_their_api(error: RedactionError) -> None:
    for api in recognise.apis():
        refused = unsearched(api, error)
        assert refused.status == error.status
        assert said(api.id, refused.status, json.loads(refused.body)).endswith(": why")


def is_ambiguous(result: str, times: int = 1) -> bool:
    """Return whether a request of Gemini's with this JSON as the data of its results is ambiguous."""
    api = next(one for one in recognise.apis() if one.id == "gemini")
    turns = apis.printed(*["RESULT"] * times)
    body = apis.BY_ID["gemini"].body(turns).replace(b'"RESULT"', result.encode())
    request = read.read(Document(body), api, Settings(), b"scope")
    assert request is not None
    return request.is_ambiguous


@pytest.mark.parametrize("around", ["%s", '{"args":%s}', '[[{"input":[%s]}]]', '{"cache_control":{"x":%s}}'])
def test_a_name_that_occurs_twice_in_the_data_of_a_result_is_ambiguous(around: str) -> None:
    assert is_ambiguous(around % '{"a":1,"\\u0061":2}')
    # Names in data are case-sensitive, and a NUL separates no names.
    assert not is_ambiguous(
        around % '{"text":1,"Text":2,"role":3,"\\u0000role":4,"n":1e999,"m":%s}' % ("9" * 5_000)
    )


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " : ")], ids=repr)
def test_a_name_in_two_spellings_is_ambiguous_beside_a_result(separators: tuple[str, str]) -> None:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t", "content": "out"}
    data = {"type": "tool_use", "id": "t", "name": "f", "input": {"text": 1, "Text": 2}}
    api = next(one for one in recognise.apis() if one.id == "anthropic-messages")

    def ask(block: dict[str, Any]) -> bool:
        body = {"model": "m", "messages": [{"role": "user", "content": [data, block]}]}
        document = Document(json.dumps(body, separators=separators).encode())
        request = read.read(document, api, Settings(), b"scope")
        assert request is not None
        return request.is_ambiguous

    assert not ask(result)
    assert ask({**result, "toolUseId": "u"})


def test_results_that_are_deeply_nested_are_read_in_any_number() -> None:
    """After a restart, all results of a long conversation are read at once."""
    deep: Any = "z" * 3_000
    for level in range(300):
        deep = [deep] if level % 2 else {"a": deep}
    assert not is_ambiguous(json.dumps(deep), times=40)
