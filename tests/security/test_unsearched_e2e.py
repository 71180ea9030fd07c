"""Secrets in requests that are spelled oddly, or are no LLM calls, through one running proxy."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from penumbra import rules
from support.planted import GITHUB, anthropic
from support.spellings import SPELLINGS
from support.upstream import Raw, decode, encode

TEXT = f"GITHUB_TOKEN={GITHUB}\n"
BODY = json.dumps(anthropic(TEXT)).encode()
KEYS = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}


@pytest.fixture
def running(proxy: Any) -> Any:
    return proxy("reverse")


@pytest.fixture
def send(running: Any, upstream: Any) -> Iterator[Any]:
    """`send(target, body, *headers, method="POST")` returns the status, and the body that arrived, if one
    did."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)

    def send(target: str, body: bytes, *more: tuple[str, str], method: str = "POST") -> tuple[int, Any]:
        earlier = len(upstream.requests)
        connection.putrequest(method, target)
        named = {name.lower() for name, _ in more}
        for name, value in [*((n, v) for n, v in KEYS.items() if n not in named), *more]:
            connection.putheader(name, value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        said = answer.read()
        arrived = upstream.requests[earlier:]
        assert arrived or b"could not search" in said, (answer.status, said)
        return answer.status, arrived[-1] if arrived else None

    yield send
    connection.close()


def without_secret(received: Any) -> bool:
    body = decode(received.header("content-encoding") or "", received.raw_body)
    return GITHUB.encode() not in body and b"[REDACTED:" in body


@pytest.mark.parametrize("target", [one for one in SPELLINGS if one.startswith("/")])
def test_paths(target: str, send: Any) -> None:
    _, received = send(target, BODY)
    assert received.target == target
    assert without_secret(received)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "QUERY", "post", "GET"])
def test_methods(method: str, send: Any) -> None:
    """An API that takes another method takes the same bodies."""
    _, received = send("/v1/messages", BODY, method=method)
    assert received.method == method
    assert without_secret(received)


def test_paths_over_http2(proxy: Any, clients: Any, upstream: Any) -> None:
    client = clients.http(proxy("regular"), http2=True)
    paths = ["/v1//messages/", "/v1/%6Dessages", "/v1/messages;a=b", "/v1/sessions/s/events", "/v9/unknown"]
    for path in paths:
        answer = client.post(f"https://api.anthropic.com{path}", content=BODY, headers=KEYS)
        assert answer.http_version == "HTTP/2"
        assert upstream.requests[-1].target == path
        assert without_secret(upstream.requests[-1])


REPEATED = {
    "messages": b'{"messages":[],' + BODY[1:],
    "messages behind": BODY[:-1] + b',"messages":[]}',
    "messages, escaped": BODY[:-1] + b',"m\\u0065ssages":[]}',
    "messages in capitals": BODY[:-1] + b', "Messages" : []}',
    "content": BODY.replace(
        b'"content": [{"type": "tool_result"', b'"content": "x", "content": [{"type": "tool_result"'
    ),
    "role": BODY.replace(b'"role": "user"', b'"role": "user", "role": "assistant"'),
    "type": BODY.replace(b'"type": "tool_result"', b'"type": "tool_result", "type": "text"'),
    "text": BODY.replace(b'"type": "text"', b'"text": "x", "type": "text"'),
    "both spellings": BODY.replace(b'"tool_use_id"', b'"toolUseId": "x", "tool_use_id"'),
}


@pytest.mark.parametrize("name", REPEATED)
def test_doubled_members_around_a_result_are_refused(name: str, send: Any) -> None:
    assert REPEATED[name] != BODY
    assert send("/v1/messages", REPEATED[name]) == (400, None)


def test_doubled_members_elsewhere_keep_their_bytes(send: Any) -> None:
    body = json.dumps(anthropic("all is well")).encode()
    top = b'"max_tokens": 9'
    for old, new in (
        (top, top + b', "top_p":1,"top_p":0.5, "metadata": {"user_id":"a","user_id":"b"}'),
        (b'"command": "run 0"', b'"command": "ls", "command" : "run 0"'),
    ):
        odd = body.replace(old, new)
        assert odd != body
        _, received = send("/v1/messages", odd)
        assert received.raw_body == odd


def test_two_headers_that_disagree_are_refused(send: Any, proxy: Any, upstream: Any) -> None:
    for first in ("application/json", "text/plain"):
        assert send("/v1/messages", BODY, ("Content-Type", first), ("content-type", "a/b")) == (400, None)
    # mitmproxy itself leaves one host in reverse mode.
    connection = http.client.HTTPConnection("127.0.0.1", proxy("regular").port, timeout=60)
    for host in ("api.openai.com", "example.com"):
        connection.putrequest("POST", "http://api.openai.com/v1/chat/completions", skip_host=True)
        for name, value in (("Host", "api.openai.com"), ("host", host), *KEYS.items()):
            connection.putheader(name, value)
        connection.putheader("content-length", str(len(BODY)))
        connection.endheaders(BODY)
        answer = connection.getresponse()
        assert (answer.status, b"more than one host header" in answer.read()) == (400, True)
    connection.close()
    assert upstream.requests == []


def test_another_encoding_of_letters_is_refused(send: Any) -> None:
    for charset in ("utf-16", "UTF-7", '"utf-32"', "ebcdic-cp-us"):
        kind = ("Content-Type", f"application/json; charset={charset}")
        assert send("/v1/messages", BODY, kind) == (400, None)
    _, received = send("/v1/messages", BODY, ("Content-Type", "application/json;charset=UTF-8"))
    assert without_secret(received)


UNFIT = {
    "no list": {"model": "m", "messages": TEXT},
    "an object for a list": {"model": "m", "messages": anthropic(TEXT)["messages"][2]},
    "other members": {"conversation": anthropic(TEXT)["messages"]},
    "a list": [anthropic(TEXT)],
    "a string": TEXT,
}


@pytest.mark.parametrize("name", UNFIT)
def test_bodies_that_lack_members_of_a_call_are_searched(name: str, send: Any) -> None:
    # The test provider takes a path with a parameter for another one.
    for target in ("/v1/messages;a", "/v1/chat/completions;a", "/v1/responses;a", "/api/chat;a"):
        _, received = send(target, json.dumps(UNFIT[name]).encode())
        assert without_secret(received)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-ndjson", "application/x-www-form-urlencoded", "a/b"]
)
def test_content_types(kind: str, send: Any) -> None:
    for target in ("/v1/messages", "/v1/threads/t/messages", "/v9/unknown"):
        _, received = send(target, BODY, ("Content-Type", kind))
        assert without_secret(received)
    for target in ("/v1/threads/t/messages", "/v9/unknown"):
        _, received = send(target, BODY + b"\n" + BODY, ("Content-Type", kind))
        assert without_secret(received)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_content_codings(coding: str, send: Any) -> None:
    for target in ("/v1/threads/t/messages", "/v9/unknown"):
        _, received = send(target, encode(coding, BODY), ("content-encoding", coding))
        assert received.header("content-encoding") == coding
        assert without_secret(received)


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream", "a/b"])
def test_codings_that_can_t_be_undone_are_refused(kind: str, send: Any) -> None:
    packed = encode("gzip", BODY)
    for target in ("/v1/messages", "/v1/threads/t/messages", "/v9/unknown", "/v1/files"):
        for coding, body in (("x-foo", BODY), ("gzip", packed[:-4]), ("gzip, x", packed), ("br", packed)):
            kinds = ("Content-Type", kind), ("Content-Encoding", coding)
            assert send(target, body, *kinds) == (400, None)


def test_a_body_in_a_request_for_a_socket_is_refused(send: Any, upstream: Any) -> None:
    """The request opens a socket, where no provider expects a body."""
    opening = ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")
    key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    assert send("/v1/responses", BODY, *opening, key, method="GET") == (400, None)


def examples() -> Iterator[tuple[bool, Any]]:
    for entry in rules.load("providers.yaml")["others"].values():
        for example in entry["examples"]:
            yield entry["does"] == "pass", example


def test_every_kind_of_request(send: Any, running: Any) -> None:
    for passes, example in examples():
        body = example["body"].replace("{secret}", f"see GITHUB_TOKEN={GITHUB}").encode()
        for target in (example["path"], f"/{example['path']}"):
            _, received = send(target, body, method=example.get("method", "POST"))
            assert received is not None, target
            if passes or GITHUB.encode() not in body:
                assert received.raw_body == body
            else:
                assert without_secret(received)


def batch(text: str) -> bytes:
    line = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": []}}
    line["body"] = {"model": "m", "messages": [{"role": "tool", "tool_call_id": "c", "content": text}]}
    return json.dumps(line).encode() + b"\n"


def form(purpose: str, content: bytes) -> bytes:
    return (
        b'--b0\r\ncontent-disposition: form-data; name="purpose"\r\n\r\n' + purpose.encode() + b"\r\n--b0\r\n"
        b'content-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
        + content
        + b"\r\n--b0--\r\n"
    )


def test_uploads(send: Any) -> None:
    """A batch of requests carries results; any other file is its owner's."""
    kind = ("Content-Type", 'multipart/form-data; boundary="b0"')
    clean = batch("all is well")
    _, received = send("/v1/files", form("batch", clean + batch(TEXT) + clean), kind)
    head, _, tail = form("batch", clean + b"|" + clean).partition(b"|")
    assert received.raw_body.startswith(head)
    assert received.raw_body.endswith(tail)
    assert without_secret(received)
    for content in (
        TEXT.encode(),
        b"\x89PNG\r\n--b\r\n" + TEXT.encode(),
        b'{"text":"%b"}\n' % GITHUB.encode(),
    ):
        _, received = send("/v1/files", form("user_data", content), kind)
        assert received.raw_body == form("user_data", content)
    _, received = send("/upload/v1beta/files", batch(TEXT), ("Content-Type", "application/octet-stream"))
    assert without_secret(received)


def test_unknown_paths(send: Any, running: Any) -> None:
    """Secrets are taken out, one warning is written for each kind of path, and all other bytes stay."""
    for number in range(3):
        _, received = send(f"/v9/things/thing_{number}/results?x=1", BODY)
        assert without_secret(received)
    warnings = [line for line in running.log().split("\n") if "does not know" in line]
    assert sum("/v9/things/*/results" in line for line in warnings) == 1
    assert GITHUB not in running.log()
    for body, kind in (
        (b'{"text" : "all is well", "a":1,"a":2}', "application/json"),
        (b"\x00\xff\xfe" + TEXT.encode(), "application/octet-stream"),
        (b"grant_type=refresh_token&refresh_token=" + GITHUB.encode(), "application/x-www-form-urlencoded"),
        (b'{"grant_type":"x","assertion":"a ' + GITHUB.encode() + b'"}', "application/json"),
        (b'{"api_key":"%b","headers":{"a":"Bearer %b"}}' % (GITHUB.encode(), GITHUB.encode()), "a/json"),
        (b'{"value":"' + GITHUB.encode() + b'"}', "application/json"),
        (b"", "application/json"),
    ):
        _, received = send("/v9/other", body, ("Content-Type", kind))
        assert received.raw_body == body


def test_the_operator_decides_about_unknown_paths(own_proxy: Any, clients: Any, upstream: Any) -> None:
    running = own_proxy("reverse", penumbra_unknown_paths="pass")
    client = clients.http(running)
    upstream.pages["/v9/x"] = Raw(body=b"{}")
    assert client.post(f"{running.url}/v9/x", content=BODY, headers=KEYS).status_code == 200
    assert client.post(f"{running.url}/v9/x", content=BODY[:-1], headers=KEYS).status_code == 200
    assert [received.raw_body for received in upstream.requests] == [BODY, BODY[:-1]]
    assert running.log().count("does not know") == 1
    running.set("penumbra_unknown_paths", "refuse")
    for body in (BODY, json.dumps({"prompt": TEXT}).encode()):
        answer = client.post(f"{running.url}/v9/x", content=body, headers=KEYS)
        assert answer.status_code == 400
        assert "path is not known" in answer.text
    assert client.post(f"{running.url}/v9/x", json={"prompt": "all is well"}).status_code == 200
    assert len(upstream.requests) == 3
    running.set("penumbra_redact_secrets", "false")
    client.post(f"{running.url}/v9/x", content=BODY, headers=KEYS)
    assert upstream.requests[-1].raw_body == BODY


def test_local_servers_may_have_any_path(proxy: Any, clients: Any, upstream: Any) -> None:
    """A user's own host is no provider in a forward proxy: unknown paths there pass unread."""
    client = clients.http(proxy("regular"))
    base = f"http://localhost:{upstream.port}"
    for path, content, kind in (
        ("/api/users", BODY, "application/json"),
        ("/api/chat", b"form=1", "text/plain"),
        ("/api/chat", b'{"id":"1","messages":{}}', "text/plain"),
    ):
        client.post(base + path, content=content, headers={"content-type": kind})
        assert upstream.requests[-1].raw_body == content
    client.post(f"{base}/v1/completions", json={"prompt": TEXT})
    assert without_secret(upstream.requests[-1])
