"""Request bodies in every encoding, far too large, broken, and hostile."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
import zstandard

from support.agents.agent import PRINTS
from support.agents.requests import result_texts
from support.apis import chat
from support.upstream import decode, encode

JSON = {"content-type": "application/json"}
LOG = PRINTS["docker compose logs worker"]


@pytest.fixture
def post(sender: Any) -> Any:
    """Sends a body to Chat Completions through the shared reverse proxy; what arrived of it."""
    return sender(penumbra_adopt="compress")


@pytest.fixture
def unsearched(sender: Any) -> Any:
    """The same where secrets may pass."""
    return sender(penumbra_adopt="compress", penumbra_redaction_failure="pass")


@pytest.fixture
def sender(clients: Any, proxy: Any, upstream: Any, api_key: str) -> Any:
    return lambda **options: _sender(clients, proxy("reverse", **options), upstream, api_key)


def _sender(clients: Any, running: Any, upstream: Any, api_key: str) -> Any:
    client = clients.http(running)

    def send(body: bytes, encoding: str = "") -> Any:
        headers = {**JSON, "authorization": f"Bearer {api_key}"}
        headers |= {"content-encoding": encoding} if encoding else {}
        client.post(f"{running.url}/v1/chat/completions", content=body, headers=headers)
        return upstream.requests[-1]

    return send


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
def test_encoded_bodies_are_rewritten(encoding: str, post: Any) -> None:
    body = json.dumps(chat(LOG)).encode()
    received = post(encode(encoding, body), encoding)
    assert received.status == 200
    assert received.header("content-encoding") in (encoding, None)
    [text] = result_texts(received.json)
    assert "worker-3 ERROR queue closed: timeout after 30 s" in text
    assert len(text) < len(LOG)


def test_the_same_encoded_body_gives_the_same_bytes(post: Any) -> None:
    for encoding in ("gzip", "br", "zstd", "deflate"):
        body = encode(encoding, json.dumps(chat(LOG)).encode())
        assert post(body, encoding).raw_body == post(body, encoding).raw_body


def test_zstd_without_a_content_size(post: Any) -> None:
    machine = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    body = machine.compress(json.dumps(chat(LOG)).encode()) + machine.flush()
    received = post(body, "zstd")
    assert received.status == 200
    assert len(next(result_texts(received.json))) < len(LOG)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate", "compress", "gzip, gzip"])
def test_undecodable_bodies_pass_where_nothing_is_searched(encoding: str, unsearched: Any) -> None:
    body = encode("gzip", json.dumps(chat(LOG)).encode())[:-20]
    received = unsearched(body, encoding)
    assert received.raw_body == body
    assert received.header("content-encoding") == encoding


BOMBS = {
    "gzip": lambda: encode("gzip", b'{"messages": [' + b" " * 140_000_000),
    "deflate": lambda: zlib.compress(b" " * 140_000_000, 9),
    "zstd": lambda: zstandard.ZstdCompressor().compress(b" " * 140_000_000),
    "br": lambda: encode("br", b" " * 140_000_000),
}


@pytest.mark.parametrize("encoding", BOMBS)
def test_bombs_pass_unopened_where_nothing_is_searched(encoding: str, unsearched: Any) -> None:
    bomb = BOMBS[encoding]()
    assert len(bomb) < 300_000
    received = unsearched(bomb, encoding)
    assert received.raw_body == bomb
    assert received.status == 413
    assert unsearched(json.dumps(chat(LOG)).encode()).status == 200


def test_deep_nesting_passes_where_nothing_is_searched(unsearched: Any) -> None:
    body = b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert unsearched(body).raw_body == body


def test_lone_surrogates_and_control_characters_survive(post: Any) -> None:
    words = "caf\\u00e9 \\ud800 \\u0000 \\u2028 tail"
    body = json.dumps(chat(LOG, "@@")).replace("@@", words).encode()
    received = post(body)
    assert words.encode() in received.raw_body
    assert len(received.raw_body) < len(body)


def test_a_large_body(post: Any) -> None:
    """Two megabytes of results of every kind."""
    texts = [f"run {number}\n{text}" for number in range(70) for text in PRINTS.values()]
    body = json.dumps(chat(*texts)).encode()
    assert len(body) > 1_500_000
    received = post(body)
    assert received.status == 200
    assert len(received.raw_body) < 0.6 * len(body)
    first = list(result_texts(received.json))
    assert post(body).raw_body == received.raw_body
    assert len(first) == len(texts)


def test_chunked_requests_are_rewritten(clients: Any, proxy: Any, upstream: Any, api_key: str) -> None:
    running = proxy("reverse")
    body = json.dumps(chat(LOG)).encode()
    headers = {**JSON, "authorization": f"Bearer {api_key}"}
    pieces = (body[start : start + 1000] for start in range(0, len(body), 1000))
    clients.http(running).post(f"{running.url}/v1/chat/completions", content=pieces, headers=headers)
    received = upstream.requests[-1]
    assert received.status == 200
    assert len(received.raw_body) < len(body)


def test_nothing_is_decoded_beyond_the_limit(clients: Any, proxy: Any, upstream: Any, api_key: str) -> None:
    headers = {**JSON, "authorization": f"Bearer {api_key}"}
    running = proxy("reverse", penumbra_max_body_bytes="4k", penumbra_redact_secrets="false")
    client = clients.http(running)
    large, small = (json.dumps(chat(LOG[:size])).encode() for size in (6000, 3000))
    for body in (large, small):
        client.post(f"{running.url}/v1/chat/completions", content=body, headers=headers)
    assert upstream.requests[-2].raw_body == large
    assert len(upstream.requests[-1].raw_body) < len(small)


def test_decoding_is_undone_exactly(post: Any) -> None:
    """What is sent decodes to JSON that differs in the result alone."""
    body = chat(LOG)
    received = post(encode("gzip", json.dumps(body).encode()), "gzip")
    plain = json.loads(decode(received.header("content-encoding") or "", received.raw_body))
    body["messages"][2]["content"] = plain["messages"][2]["content"]
    assert plain == body
