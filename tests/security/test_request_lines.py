"""Where a request says that it goes, byte for byte: odd paths, odd names of this machine, and signatures."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from support.apis import APIS, Api
from support.by_hand import LOG, SECRET
from support.upstream.sink import Sink

API = {api.id: api for api in APIS}
CLAUDE, GEMINI, CONVERSE = API["anthropic-messages"], API["gemini"], API["bedrock-converse"]
BEDROCK = "bedrock-runtime.us-east-1.amazonaws.com"
SIGNED = (
    (
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/bedrock/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
    ),
    "X-Amz-Date: 20260101T000000Z",
)


@pytest.fixture
def sink() -> Any:
    with Sink() as made:
        yield made


def body(api: Api) -> bytes:
    turns = [("user", "go"), ("call", "call_0", "cat log"), ("result", "call_0", f"{LOG}\ntoken: {SECRET}")]
    return api.body(turns)


def asked(running: Any, sink: Sink, host: str, target: bytes, api: Api, *headers: str) -> tuple[bytes, bytes]:
    """One request, written by hand; return its answer, and the body that the server got of it."""
    before, content = len(sink.got), body(api)
    authority = f"{host}:{sink.port}"
    lines = (f"Host: {authority}", "Connection: close", "Content-Type: application/json", *headers)
    head = "".join(f"{line}\r\n" for line in (*lines, f"Content-Length: {len(content)}", ""))
    with socket.create_connection(("127.0.0.1", running.port), 20) as stream:
        stream.sendall(b"POST " + target + b" HTTP/1.1\r\n" + head.encode() + content)
        answer = b""
        while data := stream.recv(65_536):
            answer += data
    return answer, sink.got[before:].partition(b"\r\n\r\n")[2]


PATHS: dict[str, tuple[str, bytes, Api]] = {
    "a byte at the end": ("api.anthropic.com", b"/v1/messages\xe9", CLAUDE),
    "a byte on the way": ("api.anthropic.com", b"/\xe9/../v1/messages", CLAUDE),
    "a byte in a parameter": ("api.anthropic.com", b"/v1/messages;\xff", CLAUDE),
    "a byte in the query": ("api.anthropic.com", b"/v1/messages?beta=\xe9", CLAUDE),
    "half a letter": ("api.anthropic.com", b"/v1/messages%c3", CLAUDE),
    "Gemini": ("generativelanguage.googleapis.com", b"/v1beta/models/gem\xe9:generateContent", GEMINI),
    "Gemini, escaped": ("generativelanguage.googleapis.com", b"/v1beta/models/g%E9%ff%253A:generateContent", GEMINI),
    "Gemini, a path for a model": ("generativelanguage.googleapis.com", b"/v1beta/models/a%2Fb:generateContent", GEMINI),
    "Bedrock": (BEDROCK, b"/model/cl\xe9/converse", CONVERSE),
    "Bedrock, escaped": (BEDROCK, b"/model/us.anthropic%E9%252F/converse", CONVERSE),
    "Bedrock, by name": (BEDROCK, b"/model/arn:aws:bedrock:us-east-1:1:inference-profile/\xe9/converse", CONVERSE),
}  # fmt: skip


@pytest.mark.parametrize(("host", "target", "api"), PATHS.values(), ids=PATHS)
def test_a_path_with_any_bytes(host: str, target: bytes, api: Api, proxy: Any, sink: Sink) -> None:
    """It is searched like any other, and keeps its bytes."""
    answer, got = asked(proxy("regular"), sink, host, target, api)
    assert b" 200 " in answer
    assert SECRET.encode() not in got
    assert b"[REDACTED:" in got
    assert target in sink.got


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "127.255.0.3", "2130706433", "0x7f.1", "0177.0.0.1", "0", "localhost.", "LocalHost"),
        *("a.localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]"),
    ],
)
def test_this_machine_by_any_name(host: str, proxy: Any, sink: Sink) -> None:
    answer, got = asked(proxy("regular"), sink, host, b"/v1/messages", CLAUDE)
    assert b" 200 " in answer
    assert SECRET.encode() not in got
    assert b"[REDACTED:" in got


@pytest.mark.parametrize(
    ("host", "api"),
    [
        ("api.anthropic.com", CLAUDE),
        ("api.anthropic.com", CONVERSE),
        ("openrouter.ai", CONVERSE),
        ("localhost", CLAUDE),
    ],
    ids=["another provider", "another provider, its path", "a gateway", "this machine"],
)
def test_a_signature_where_nobody_reads_it(host: str, api: Api, proxy: Any, sink: Sink) -> None:
    _, got = asked(proxy("regular"), sink, host, api.path.encode(), api, *SIGNED)
    assert SECRET.encode() not in got
    assert b"[REDACTED:" in got


@pytest.mark.parametrize("host", [BEDROCK, "localhost"], ids=["Bedrock", "what may lead there"])
def test_a_signature_that_a_change_would_break(host: str, proxy: Any, sink: Sink) -> None:
    _, got = asked(proxy("regular"), sink, host, CONVERSE.path.encode(), CONVERSE, *SIGNED)
    assert got == body(CONVERSE)


def test_a_signature_that_covers_no_body(proxy: Any, sink: Sink) -> None:
    free = (*SIGNED, "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD")
    _, got = asked(proxy("regular"), sink, BEDROCK, CONVERSE.path.encode(), CONVERSE, *free)
    assert SECRET.encode() not in got
