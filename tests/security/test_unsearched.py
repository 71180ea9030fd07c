"""Requests that are no LLM calls, and paths in any spelling: the strings that are searched, and the bytes
that stay."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest

from penumbra import rules
from penumbra.apis import recognise
from penumbra.config.settings import Settings
from penumbra.redaction import RedactionError, TooLarge, Unreadable, default
from penumbra.redaction.other_bodies import Anywhere, Searched
from penumbra.redaction.redact_calls import forgiving
from penumbra.wire.document import Document
from penumbra.wire.framing import is_stream
from penumbra.wire.request_path import normal
from support.planted import GITHUB, PASSWORD
from support.search import search
from support.spellings import SPELLINGS as PATH_SPELLINGS

TEXT = f"see GITHUB_TOKEN={GITHUB}"
IMAGE = base64.b64encode(bytes(range(256)) * 8).decode()


def result(output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "call_1", "output": output}


SEARCHED: dict[str, Any] = {
    "a result's text": {"items": [result(TEXT)]},
    "a word of a result": {"items": [result(GITHUB)]},
    "what a name tells": {"items": [result({"env": {"DB_PASSWORD": PASSWORD}})]},
    "what a pair tells": {"items": [result([{"name": "DB_PASSWORD", "value": PASSWORD}])]},
    "JSON in a string": {"items": [result(json.dumps({"env": {"DB_PASSWORD": PASSWORD}}))]},
    "any member of a result": {"items": [{"type": "x_call_output", "foo": {"bar": [[GITHUB]]}}]},
    "a name in a result": {"items": [result({"name": GITHUB, "id": GITHUB})]},
    "a type that nobody knows": {"x": {"y": {"type": "tool-result", "z": GITHUB}}},
    "a role": {"x": [{"role": "tool", "y": GITHUB}]},
    "output of a call": {"items": [{"type": "mcp_call", "id": "m", "output": TEXT}]},
    "text beside calls": {"messages": [{"role": "assistant", "content": TEXT, "tool_calls": []}]},
    "a prompt of one word": {"prompt": f"GITHUB_TOKEN={GITHUB}"},
    "text under any name": {"foo": {"bar": TEXT}},
    "names below a text": {"content": {"password": PASSWORD, "headers": f"authorization: Bearer {GITHUB}"}},
    "deep": {"a": [{"b": [{"c": [{"d": [result([TEXT])]}]}]}]},
    "an image beside": {
        "items": [result([{"type": "image", "data": IMAGE}, {"type": "text", "text": TEXT}])]
    },
    "a list of strings": [TEXT, TEXT],
    "two spellings of one letter": {"items": [result("GITHUB_TOKEN=" + GITHUB)]},
}
LEFT: dict[str, Any] = {
    "credentials for the provider": {"requests": [{"params": {"mcp_servers": [{"url": "u", "authorization_token": f"Bearer {GITHUB}"}]}}]},
    "headers of tools": {"input": "hi", "tools": [{"type": "mcp", "headers": {"authorization": f"Bearer {GITHUB}"}}]},
    "a key that is set": {"name": "n", "api_key": GITHUB},
    "one word outside of texts": {"value": GITHUB},
    "what a tool was called with": {"items": [{"type": "function_call", "call_id": "c", "arguments": TEXT}]},
    "calls of a message": {"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": TEXT}}]}]},
    "a login": {"grant_type": "x", "assertion": TEXT},
    "signatures": {"items": [{**result("x"), "signature": GITHUB, "encrypted_content": GITHUB}]},
    "images": {"items": [result([{"type": "image", "data": IMAGE + GITHUB.replace("_", "")}])]},
    "ids": {"items": [{**result("x"), "id": "fc_68a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f607"}]},
}  # fmt: skip
SPELLINGS: tuple[dict[str, Any], ...] = ({}, {"indent": 1}, {"ensure_ascii": False, "separators": (",", ":")})


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in strings(one)]


@pytest.mark.parametrize("name", SEARCHED)
def test_strings_that_are_searched(name: str) -> None:
    for spelling in SPELLINGS:
        body = json.dumps(SEARCHED[name], **spelling).encode()
        found = search(body)
        assert GITHUB.encode() not in found.body
        assert PASSWORD.encode() not in found.body
        assert b"[REDACTED:" in found.body
        # Only strings with a secret change.
        before, after = json.loads(body), json.loads(found.body)
        pairs = zip(strings(before), strings(after), strict=True)
        assert all((old == new) is (GITHUB not in old and PASSWORD not in old) for old, new in pairs)
        assert search(found.body).body is found.body


@pytest.mark.parametrize("name", LEFT)
def test_strings_that_are_left(name: str) -> None:
    for spelling in SPELLINGS:
        body = json.dumps(LEFT[name], **spelling).encode()
        assert search(body).body is body


def test_escapes_hide_nothing() -> None:
    escaped = json.dumps({"items": [result(TEXT)]}).replace("ghp_", "\\u0067h\\u0070_").encode()
    assert GITHUB[4:].encode() not in search(escaped).body


def test_arguments_of_calls_are_searched_where_all_is() -> None:
    settings = replace(Settings(), redact_scope="all")
    for name in ("what a tool was called with", "calls of a message"):
        found = search(json.dumps(LEFT[name]).encode(), settings=settings)
        assert GITHUB.encode() not in found.body


@pytest.mark.parametrize(
    "body",
    [
        '{"items":[{"role":"tool","content":"' + TEXT + '","content":"x"}]}',
        '{"prompt":"x","prompt":"' + TEXT + '"}',
        '{"items":[{"type":"x_call_output","output":{"' + GITHUB + '":1}}]}',
    ],
)
def test_a_secret_that_can_t_be_replaced_is_refused(body: str) -> None:
    with pytest.raises(Unreadable) as refused:
        search(body.encode())
    assert GITHUB not in str(refused.value)


def test_doubled_members_without_a_secret_stay() -> None:
    body = b'{"items":[{"role":"tool","content":"a","content":"b"}],"top_p":1,"top_p":2}'
    assert search(body).body is body


def test_the_form_of_an_item_does_not_depend_on_others() -> None:
    """A later item may show what a word of an earlier one is."""
    items = [result(f"the word is {PASSWORD}"), result({"DB_PASSWORD": PASSWORD})]
    alone = search(json.dumps({"items": items[:1]}).encode()).body
    both = search(json.dumps({"items": items}).encode()).body
    assert both.startswith(alone[:-2])


class Counting:
    """A `Counting` redaction counts its calls."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: str, hint: str) -> Any:
        self.asked += 1
        return default().redact(text, hint)


def test_searched_values_are_remembered() -> None:
    anywhere, count = Anywhere(), Counting()
    rendered = []
    for size in (3, 3, 4):
        body = json.dumps({"items": [result(f"{n} {TEXT}") for n in range(size)]}).encode()
        before = count.asked
        found = anywhere.redact(Document(body), count, with_calls=False)
        assert found.results
        rendered.append((found.body, count.asked - before))
    assert rendered[0][0] == rendered[1][0]
    assert rendered[1][1] == 0
    assert 0 < rendered[2][1] < rendered[0][1]
    before = count.asked
    anywhere.redact(Document(body), count, with_calls=False, scope=b"another")
    assert count.asked - before > rendered[2][1]
    small = Anywhere(memory=1)
    for _ in range(2):
        assert small.redact(Document(body), count, with_calls=False).body == rendered[2][0]


def test_failures_follow_the_setting() -> None:
    def fails(text: str, hint: str) -> Any:
        if len(text) > 100:
            raise TooLarge("x")
        return default().redact(text, hint)

    def under(failure: str) -> Searched:
        data = json.dumps({"items": [result("x " * 60)]}).encode()
        return search(data, forgiving(fails, failure))

    with pytest.raises(RedactionError):
        under("refuse")
    masked = json.loads(under("mask").body)
    assert masked["items"][0]["output"] == "[REDACTED:unscanned:120 bytes]"
    assert masked["items"][0]["call_id"] == "call_1"
    assert b"x x x" in under("pass").body


@pytest.mark.parametrize("kind", ["text/plain", "application/graphql", "application/xml", ""])
def test_text_is_searched_as_text(kind: str) -> None:
    for text in (TEXT, f"größer\n{TEXT}\n"):
        found = search(text.encode(), kind=kind)
        assert GITHUB.encode() not in found.body
        assert found.body.startswith(text.partition(GITHUB)[0].encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream", ""])
def test_json_in_another_encoding_is_refused(encoding: str, kind: str) -> None:
    body = json.dumps({"items": [result(TEXT)]}).encode(encoding)
    for strict in (False, True):
        with pytest.raises(Unreadable):
            search(body, kind=kind, strict=strict)


@pytest.mark.parametrize("kind", ["text/plain", "text/plain; charset=latin-1"])
def test_text_in_another_encoding_is_refused_where_it_holds_a_secret(kind: str) -> None:
    for encoding in ("utf-16", "latin-1"):
        with pytest.raises(Unreadable):
            search(f"größer {TEXT}".encode(encoding), kind=kind)
        clean = "größer".encode(encoding)
        assert search(clean, kind=kind).body is clean


def test_a_form_where_json_is_wanted_hides_nothing() -> None:
    escaped = "messages=" + "".join(f"%{ord(letter):02X}" for letter in TEXT)
    found = search(escaped.encode(), kind="application/x-www-form-urlencoded", strict=True)
    assert GITHUB not in unquote(found.body.decode())


FIELD = 'content-disposition: form-data; name="text"'
FILE = f'{FIELD}; filename="log"'


def form(head: str, content: bytes, line: str = "\r\n") -> bytes:
    return f"--b0{line}{head}{line}{line}".encode() + content + f"{line}--b0--{line}".encode()


@pytest.mark.parametrize("line", ["\r\n", "\n"])
@pytest.mark.parametrize(
    "head", [FIELD, FILE, f"{FILE}\r\nContent-Type: text/x-log", f"{FILE}\r\ncontent-type:application/json"]
)
def test_a_part_of_a_form_is_searched_by_its_type(head: str, line: str) -> None:
    is_json = head.endswith("json")
    content = json.dumps({"items": [result(TEXT)]}).encode() if is_json else f"größer {TEXT}".encode()
    body = form(head, content, line)
    found = search(body, kind="multipart/form-data; boundary=b0")
    before, _, after = body.partition(GITHUB.encode())
    assert GITHUB.encode() not in found.body
    assert found.body.startswith(before)
    assert found.body.endswith(after)


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=x"])
def test_a_form_whose_parts_are_not_found_is_text(kind: str) -> None:
    assert GITHUB.encode() not in search(form(FIELD, TEXT.encode()), kind=kind).body
    with pytest.raises(Unreadable):
        search(form(FIELD, b"\xff" + TEXT.encode()), kind=kind)


def test_parts_of_a_form_that_hold_no_text_stay() -> None:
    for content in (b"\xff\xd8" + TEXT.encode(), b"{ all } is well", b"[[package]]", b""):
        head = f"{FILE}\r\ncontent-type: application/octet-stream" if b"\xff" in content else FILE
        body = form(head, content)
        assert search(body, kind="multipart/form-data; boundary=b0").body is body


def message(text: bytes, flag: bytes = b"\0") -> bytes:
    inner = b"\x12" + bytes([len(text) & 127 | 128, len(text) >> 7]) + text + b"\x18\xff\x01"
    return flag + len(inner).to_bytes(4, "big") + inner


@pytest.mark.parametrize("kind", ["grpc", "connect+proto", "x-protobuf", "cbor", "http"])
def test_packed_messages_with_secrets_are_refused(kind: str) -> None:
    """The texts can't be replaced, since each follows its length."""
    kind = f"application/{kind}"
    clean = message("größer".encode() * 30)
    assert search(clean + clean, kind=kind).body == clean + clean
    for body in (message(TEXT.encode()), clean + message(TEXT.encode()), b"\n" + TEXT.encode()):
        with pytest.raises(Unreadable):
            search(body, kind=kind)
    with pytest.raises(Unreadable, match="compressed"):
        search(clean + message(b"\x1f\x8b", b"\1"), kind=kind)


@pytest.mark.parametrize(
    "data", [b"\xa1\x61a\x61b\xff", b"\x81\xa1a\xa1b", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"]
)
def test_messages_without_frames_are_not_taken_for_compressed_ones(data: bytes) -> None:
    assert search(data, kind="application/cbor").body is data


class Counted(bytes):
    """Bytes that count how many of them are copied in slices."""

    copied = 0

    def __getitem__(self, at: Any) -> Any:
        piece = super().__getitem__(at)
        if isinstance(piece, int):
            return piece
        Counted.copied += len(piece)
        return Counted(piece)


def test_many_messages_are_not_copied_for_each_of_them() -> None:
    Counted.copied = 0
    body = Counted(bytes(100_000))
    assert search(body, kind="application/grpc").body == body
    assert 0 < Counted.copied <= 10 * len(body)


KNOWN = rules.load("providers.yaml")


def cases(section: str) -> Iterator[tuple[str, tuple[str, Any]]]:
    for name, entry in KNOWN[section].items():
        for example in entry["examples"]:
            yield f"{name} {example['path']}", (name, example)


OTHERS, SOCKETS = dict(cases("others")), dict(cases("sockets"))


@pytest.mark.parametrize(("name", "example"), OTHERS.values(), ids=OTHERS)
def test_every_example(name: str, example: Any) -> None:
    assert recognise.is_llm_host(example["host"])
    assert recognise.by_request_line(example.get("method", "POST"), example["path"]) is None
    found = recognise.by_path(example["path"])
    assert found is not None
    assert found.id == name
    if found.passes or "{secret}" not in example["body"]:
        return
    # The secret is on a line with its name, as in files and logs, and alone, as in prints of tools.
    for text in (f"line one\\nGITHUB_TOKEN={GITHUB}\\n", f"see {GITHUB} there"):
        body = example["body"].replace("{secret}", text).encode()
        searched = search(body, files=found.files)
        assert GITHUB.encode() not in searched.body
        before, after = json.loads(body), json.loads(searched.body)
        assert _shape(before) == _shape(after)
        assert searched.body.count(b"[REDACTED:") == example["body"].count("{secret}")


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shape(one) for name, one in value.items()}
    return [_shape(one) for one in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize(("name", "example"), SOCKETS.values(), ids=SOCKETS)
def test_every_socket(name: str, example: Any) -> None:
    found = recognise.socket_by_path(example["path"])
    assert found is not None
    assert found.id == name
    frame = example["frame"].replace("{secret}", f"GITHUB_TOKEN={GITHUB}").encode()
    searched = search(frame, strict=True)
    assert GITHUB.encode() not in searched.body
    refusal = json.dumps(json.loads(found.refusal('say "why"')), ensure_ascii=False)
    assert 'say "why"' in refusal.replace("\\", "")


def test_errors_have_the_shape_of_their_host() -> None:
    def body(host: str) -> Any:
        return json.loads(recognise.error_body(host, 400, "m"))

    assert body("api.anthropic.com")["type"] == "error"
    assert body("generativelanguage.googleapis.com")["error"]["code"] == 400
    assert body("bedrock-agent-runtime.eu-west-1.amazonaws.com")["message"] == "m"
    assert body("llm.example.org")["error"]["message"] == "m"


@pytest.mark.parametrize("path", PATH_SPELLINGS)
def test_a_path_is_recognised_however_it_is_spelled(path: str) -> None:
    assert normal(path).lower() == "/v1/messages"
    for method in ("POST", "pOsT"):
        found = recognise.by_request_line(method, path)
        assert found is not None
        assert found.id == "anthropic-messages"


@pytest.mark.parametrize(
    "path", ["/v1/messages/..", "/v1/messages/batches", "/v1messages", "/v1/%25messages", "*", ""]
)
def test_another_path_stays_another(path: str) -> None:
    assert recognise.by_request_line("POST", path) is None


@pytest.mark.parametrize("path", ["/v1/responses/", "//v1/responses?x", "/v1/Responses;a", "/v1/%72esponses"])
@pytest.mark.parametrize("asked", ["websocket", "WebSocket", "h2c, websocket"])
def test_sockets_are_recognised_too(path: str, asked: str) -> None:
    api = recognise.asks_for("GET", path, {"upgrade": asked})
    assert api is not None
    assert api.id == "openai-responses"


@pytest.mark.parametrize("ending", ["", "/", "?alt=json", "%3Falt=json"])
def test_streams_of_json_are_recognised_by_any_spelling(ending: str) -> None:
    assert is_stream("application/json", f"/v1beta/models/m%3AstreamGenerateContent{ending}")
