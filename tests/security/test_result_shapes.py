"""Secrets in every shape that a tool result can have, over all APIs, are not sent."""

import base64
import json
from functools import partial
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis.result_blocks import find, values
from penumbra.redaction.redactor import Redactor
from penumbra.wire.document import Document
from support.engines import rewritten
from support.planted import GITHUB, PASSWORD
from support.result_shapes import (
    HIT,
    PNG,
    SECRET,
    SHAPES,
    TEXT_BLOB,
    chat,
    converse,
    gemini,
    messages,
    response,
    responses,
    text_document,
    tool_result,
)
from support.work_counts import calls

sent = partial(rewritten, redact=Redactor(b"k").redact)


def decoded(body: bytes) -> str:
    """Return the body with the text of its blobs."""
    text = body.decode()
    return text + "".join(
        base64.b64decode(value.strip('"')).decode("latin-1")
        for value in map(bytes.decode, values(body))
        if len(value) % 4 == 2 and value.strip('"').isalnum() and len(value) > 50
    )


@pytest.mark.parametrize("name", SHAPES)
def test_no_shape_hides_a_secret(name: str) -> None:
    api, body = SHAPES[name]
    done = sent(api, body)
    text = decoded(done.body)
    assert GITHUB not in text
    assert PASSWORD not in text
    assert "8812340977" not in text
    assert TEXT_BLOB not in text
    assert "REDACTED" in text
    json.loads(done.body)
    assert any(one.facts.redactions for one in done.shown)
    assert sent(api, done.body).body == done.body
    again = sent(api, body, known=done.decisions)
    assert (again.body, again.decisions) == (done.body, {})


@pytest.mark.parametrize("name", SHAPES)
def test_only_the_secret_changes(name: str) -> None:
    api, body = SHAPES[name]
    spaced = json.dumps(body, indent=1).encode()
    done = sent(api, spaced).body
    [(old, new)] = [each for each in zip(values(spaced), values(done), strict=True) if each[0] != each[1]]
    assert spaced.replace(old, b"") == done.replace(new, b"")


def test_nothing_is_searched_where_nothing_is_redacted() -> None:
    api, body = SHAPES["chat object"]
    assert sent(api, body, redact_secrets=False).body == json.dumps(body).encode()


UNTOUCHED: dict[str, tuple[str, Any]] = {
    "image": (
        "anthropic-messages",
        messages(tool_result({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})),
    ),
    "image by its address": (
        "anthropic-messages",
        messages(tool_result({"type": "image", "source": {"type": "url", "url": f"https://a.example/?token={GITHUB}"}})),
    ),
    "encrypted": (
        "anthropic-messages",
        messages({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{**HIT, "title": "t", "encrypted_content": GITHUB}]}, role="assistant"),
    ),
    "id": ("anthropic-messages", messages({**tool_result(text_document("some text")), "tool_use_id": GITHUB})),
    "call": (
        "openai-responses",
        responses({"type": "mcp_call", "id": "mcp_1", "name": GITHUB, "arguments": SECRET, "output": "some text"}),
    ),
    "reasoning": ("openai-responses", responses({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": GITHUB})),
    "said": ("openai-chat", chat({"role": "user", "content": [{"type": "text", "text": SECRET}]})),
    "inline data": ("gemini", gemini([response({"output": "some text"}, parts=[{"inlineData": {"mimeType": "image/png", "data": PNG}}])])),
    "image of a tool": ("gemini", gemini([response({"mimeType": "image/png", "data": PNG})])),
    "document": ("bedrock-converse", converse({"image": {"format": "png", "source": {"bytes": PNG}}})),
    "signature": ("gemini", gemini([{**response({"output": "some text"}), "thoughtSignature": GITHUB}])),
}  # fmt: skip


@pytest.mark.parametrize("name", UNTOUCHED)
def test_images_ids_and_signatures_stay(name: str) -> None:
    api, body = UNTOUCHED[name]
    data = json.dumps(body, indent=1).encode()
    assert sent(api, data).body == data


def test_a_moved_cache_mark_changes_nothing() -> None:
    body = messages(tool_result(text_document(SECRET)))
    first = sent("anthropic-messages", body)
    body["messages"][2]["content"][0]["cache_control"] = {"type": "ephemeral"}
    second = sent("anthropic-messages", body, known=first.decisions)
    assert second.decisions == {}
    assert GITHUB not in second.body.decode()


def test_reasoning_that_is_bound_to_a_server_tools_result_keeps_it() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "S"}
    searched = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [HIT]}
    body = messages(searched, thought, role="assistant")
    body["model"] = "claude-opus-5-5"
    body["messages"].append({"role": "user", "content": "go on"})
    assert GITHUB in sent("anthropic-messages", body).body.decode()
    # A value that was taken out before the reasoning stays out.
    before = {**body, "messages": [*body["messages"][:2], {"role": "assistant", "content": [searched]}]}
    decided = sent("anthropic-messages", before).decisions
    assert GITHUB not in sent("anthropic-messages", body, known=decided).body.decode()


@pytest.mark.parametrize("example", rules.load("results.yaml")["examples"], ids=lambda one: one["block"][:60])
def test_examples_of_the_rule_file(example: dict[str, Any]) -> None:
    document = Document(f"[{example['block']}]".encode())
    read = [
        json.loads(value)
        for block in find(document, document.root, ())
        for value, place in zip(values(block.text.encode()), block.places, strict=True)
        if place is not None
    ]
    assert read == example["searched"]


ODD = (
    '{"role":"Tool","content":TEXT}',
    '{"role":"to-ol_","content":TEXT}',
    '{"role":"\\u0074ool","content":TEXT}',
    '{"role":"user","content":[{"type":"MY_TOOL_RESULT_OF_SOME_KIND","content":TEXT}]}',
    '{"role":"user","content":[{"type":"x_Output","content":TEXT}]}',
    '{"role":"user","content":[{"type":"x\\u005foutput","content":TEXT}]}',
    '{"role":"user","content":[{"type":"other","-Tool_Responses":TEXT}]}',
    '{"role":"assistant","content":[{"type":"mcp_call","text":TEXT}]}',
    '{"role":"user","content":[{"type":"\\u212a","std_OUT":TEXT}]}',
)
"""Messages with a result, spelled as no client does."""


@pytest.mark.parametrize("number", range(len(ODD)))
def test_a_result_is_seen_however_it_is_spelled(number: int) -> None:
    message = ODD[number].replace("TEXT", json.dumps(f"the token is {GITHUB}")).encode()
    document = Document(b'{"messages":[' + message + b"]}")
    [value] = document.items(document.members(document.root)["messages"])
    assert any(GITHUB in block.text for block in find(document, value, ()))


def test_a_message_without_any_result_is_not_gone_through() -> None:
    words = b'{"type":"text","text":"what does the tool give?"}'
    document = Document(b'{"role":"user","content":[' + b",".join([words] * 10_000) + b"]}")
    found: list[Any] = []
    # The first call reads the rules.
    assert calls(lambda: found.extend(find(document, document.root, ()))) < 20_000
    assert found == []
