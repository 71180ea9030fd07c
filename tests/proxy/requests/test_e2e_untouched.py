"""Bytes that are none of Penumbra's business go through unchanged, in every encoding."""

import json
import socket
import ssl
from typing import Any

import pytest

from support.agents.agent import PRINTS, SESSION, agent
from support.agents.requests import result_texts
from support.apis import chat, messages
from support.upstream import Raw, encode, turn

KEYS = {"x-api-key": "k", "anthropic-version": "2023-06-01", "authorization": "Bearer k"}
# A careless rewriting would change the spacing, escapes, key order, repeated key and numbers.
ODD = (
    '{"model" : "m","messages": [ {"role":"user","content":"\\u00e9 é \\ud800 \\/"} ] ,\n'
    '"max_tokens":1.0e3, "temperature":1.10,"seed":123456789012345678901234, "top_p":1,"top_p":0.5}'
)
LOG = PRINTS["docker compose logs worker"]


def exchange(client: Any, base: str, method: str, target: str, body: bytes, headers: dict[str, str]) -> Any:
    return client.request(method, base + target, content=body, headers=headers)


def seen(request: Any) -> tuple[Any, ...]:
    """Return all that a provider can tell of a request, but for the port of a reverse proxy's Host."""
    headers = [(name, value) for name, value in request.headers if name.lower() not in ("host", ":authority")]
    return request.method, request.target, headers, request.raw_body, request.http_version


def both(proxy: Any, clients: Any, upstream: Any, mode: str, http2: bool, *what: Any) -> tuple[Any, Any]:
    """Send the same request through a bare mitmdump and through Penumbra; return both as they arrived."""
    arrived = []
    for addon in (False, True):
        running = proxy(mode, addon=addon)
        base = clients.base(running, "https://api.openai.com", http2=http2)
        exchange(clients.http(running, http2=http2), base, *what)
        arrived.append(upstream.requests[-1])
    return arrived[0], arrived[1]


UNRECOGNISED = {
    "embeddings": ("POST", "/v1/embeddings", b'{"input":"a",  "model":"m"}'),
    "models": ("GET", "/v1/models?limit=3&after=%2F", b""),
    "batches": ("POST", "/v1/messages/batches", json.dumps({"requests": [{"params": json.loads(ODD)}]}).encode()),
    "files": ("POST", "/v1/files", b"--x\r\nnot json\r\n--x--"),
    "token": ("POST", "/v1/oauth/token", b'{"grant_type": "refresh_token", "refresh_token": "sk-ant-ort01-abcdefgh"}'),
    "telemetry": ("POST", "/api/event_logging/batch", b'{"events": [ ]}'),
    "other method": ("PUT", "/v1/messages", ODD.encode()),
    "other body": ("POST", "/v1/messages", b'{"model":"m", "messages":"none"}'),
    "empty": ("POST", "/v1/chat/completions", b""),
    "form": ("POST", "/v1/chat/completions", b"model=m&messages=x"),
}  # fmt: skip


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("case", UNRECOGNISED)
def test_unrecognised(case: str, http2: bool, clients: Any, proxy: Any, upstream: Any) -> None:
    method, target, body = UNRECOGNISED[case]
    kind = "application/x-www-form-urlencoded" if case == "form" else "application/json"
    headers = {**KEYS, "content-type": kind, "X-Compression-Threshold-Not": "1", "X-Odd-Case": "a  b"}
    bare, ours = both(proxy, clients, upstream, "regular", http2, method, target, body, headers)
    assert seen(ours) == seen(bare)
    assert ours.raw_body == body


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA" * 900}}
UNCHANGED = {
    "no results": ODD,
    "small result": json.dumps(messages("a.py\nb.py"), indent=3),
    "image result": json.dumps(messages([IMAGE])),
}


@pytest.mark.parametrize("encoding", ["", "gzip", "br", "zstd"])
@pytest.mark.parametrize("case", UNCHANGED)
@pytest.mark.parametrize("mode", ["regular", "reverse"])
def test_recognised_but_unchanged(
    case: str, encoding: str, mode: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    from support.upstream import encode

    body = encode(encoding, UNCHANGED[case].encode())
    headers = {**KEYS, "content-type": "application/json"} | (
        {"content-encoding": encoding} if encoding else {}
    )
    what = ("POST", "/v1/messages?beta=true&x=%20y+z", body, headers)
    bare, ours = both(proxy, clients, upstream, mode, False, *what)
    assert seen(ours) == seen(bare)
    assert ours.raw_body == body


def test_disabled_means_disabled(clients: Any, proxy: Any, upstream: Any) -> None:
    upstream.answers(turn("a"))
    body = json.dumps(chat(LOG)).encode()
    running = proxy("reverse", penumbra_mode="disabled", penumbra_redact_secrets="false")
    clients.http(running).post(f"{running.url}/v1/chat/completions", content=body, headers=KEYS)
    assert upstream.requests[-1].raw_body == body


def test_surgery_leaves_everything_else_as_it_was(clients: Any, proxy: Any, upstream: Any) -> None:
    """The bytes around a changed result stay."""
    body = json.dumps(chat("@@")).replace(
        '"model": "m"', '"model" :"m", "seed": 12345678901234567890123, "top_p": 1.10'
    )
    body = body.replace('"hi"', '"\\u00e9 é \\ud83d\\ude00 \\/"')
    running = proxy("reverse")
    sent = body.replace('"@@"', json.dumps(LOG))
    clients.http(running).post(f"{running.url}/v1/chat/completions", content=sent.encode(), headers=KEYS)
    received = upstream.requests[-1]
    assert received.status == 200
    front, back = body.encode().split(b'"@@"')
    assert received.raw_body.startswith(front)
    assert received.raw_body.endswith(back)
    assert len(received.raw_body) < len(sent)
    assert int(received.header("content-length") or 0) == len(received.raw_body)


def test_headers_stay_when_the_body_changes(clients: Any, proxy: Any, upstream: Any) -> None:
    headers = {
        **KEYS,
        "content-type": "application/json",
        "X-Trace": "a=1",
        "x-dup": "1",
        "Accept-Encoding": "gzip",
    }
    what = ("POST", "/v1/chat/completions?api-version=1", json.dumps(chat(LOG)).encode(), headers)
    bare, ours = both(proxy, clients, upstream, "regular", False, *what)
    assert len(ours.raw_body) < len(bare.raw_body)

    def without_length(request: Any) -> Any:
        return [item for item in seen(request)[2] if item[0].lower() != "content-length"]

    assert without_length(ours) == without_length(bare)
    assert [name for name, _ in ours.headers] == [name for name, _ in bare.headers]


def test_other_hosts_are_not_decrypted(clients: Any, proxy: Any, upstream: Any) -> None:
    """A client that trusts only the real server succeeds, since its tunnel is not decrypted."""
    upstream.pages["/v1/chat/completions"] = Raw(body=b'{"a": 1}')
    running = proxy("regular")
    with socket.create_connection(("127.0.0.1", running.port), 10) as tunnel:
        tunnel.sendall(b"CONNECT elsewhere.example.org:443 HTTP/1.1\r\nHost: elsewhere.example.org\r\n\r\n")
        assert b"200" in tunnel.recv(4096)
        context = ssl.create_default_context(cafile=str(upstream.ca_file))
        with context.wrap_socket(tunnel, server_hostname="elsewhere.example.org") as secure:
            subject = secure.getpeercert()["subject"]
    assert subject == ((("commonName", "test provider"),),)


def test_extra_hosts_are(clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("regular", penumbra_hosts="llm.example.org,*.corp.example")
    client = clients.http(running)
    answer = client.post(
        "https://llm.example.org/v1/chat/completions", content=json.dumps(chat(LOG)).encode(), headers=KEYS
    )
    assert answer.status_code == 200
    assert len(upstream.requests[-1].raw_body) < len(LOG)


def test_a_filter_narrows_it(clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("reverse", penumbra_filter="~hq X-Agent:.yes")
    body = json.dumps(chat(LOG)).encode()
    for value in ("yes", "no"):
        clients.http(running).post(
            f"{running.url}/v1/chat/completions", content=body, headers={**KEYS, "X-Agent": value}
        )
    ours, passed = upstream.requests[-2:]
    assert len(ours.raw_body) < len(body)
    assert passed.raw_body == body


@pytest.mark.parametrize("first", ["count", "ask"])
def test_token_counting_counts_the_forwarded_form(
    first: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    """Counting and asking may come in either order."""
    caller = agent("anthropic", clients, proxy("reverse"))
    upstream.answers(*SESSION)
    caller.say("Why does the total test fail?")
    asked = caller.messages[:-1]
    other = agent("anthropic", clients, proxy("reverse"), messages=[*asked[:-1], renamed(asked[-2:])[1]])
    other.messages[-2] = renamed(asked[-2:])[0]

    def count() -> None:
        request = {"model": "m", "messages": other.messages, **other.declared}
        assert other.client.messages.count_tokens(**request).input_tokens > 0

    for step in (count, other.ask) if first == "count" else (other.ask, count):
        step()
    counted, sent = upstream.requests[-2:]
    assert {counted.api, sent.api} == {"anthropic:model", "anthropic:count_tokens"}
    assert counted.json["messages"] == sent.json["messages"]
    theirs = list(result_texts({"messages": other.messages}))
    assert [ours == text for ours, text in zip(result_texts(sent.json), theirs, strict=True)][-2:] == [
        False,
        False,
    ]


def renamed(messages: Any) -> Any:
    """Return a call and its results under other ids, for which nothing has been decided."""
    return json.loads(json.dumps(messages).replace("toolu_0", "toolu_9"))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("encoding", ["", "gzip", "br", "zstd"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_answers_are_untouched(
    path: str, encoding: str, stream: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    """Status, headers and bytes of an answer are unchanged, though its request was changed."""
    body = json.dumps(chat(LOG, stream=stream) if "chat" in path else messages(LOG, stream=stream))
    # The computed figures would follow the smaller prompt.
    usage = {"prompt_tokens": 7, "total_tokens": 9} if "chat" in path else {"input_tokens": 7}
    got = []
    for addon in (False, True):
        upstream.reset()
        upstream.answers(turn("größer \U0001f600 " * 9, encoding=encoding, delta=5, usage=usage))
        running = proxy("reverse", addon=addon)
        request = {"content": body.encode(), "headers": KEYS}
        with clients.http(running).stream("POST", running.url + path, **request) as answer:
            got.append((answer.status_code, list(answer.headers.multi_items()), b"".join(answer.iter_raw())))
    assert len(upstream.requests[-1].raw_body) < len(body)
    assert got[0] == got[1]
    assert got[0][0] == 200


JSON = {"content-type": "application/json"}


@pytest.fixture
def post(sender: Any) -> Any:
    """`post(body, encoding)` sends a body to Chat Completions through the shared reverse proxy, and returns
    what arrived."""
    return sender(penumbra_adopt="compress")


@pytest.fixture
def unsearched(sender: Any) -> Any:
    """`post` through a proxy where secrets may pass."""
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
    body = chat(LOG)
    data = encode(encoding, json.dumps(body).encode())
    received = post(data, encoding)
    assert received.status == 200
    assert received.header("content-encoding") in (encoding, None)
    assert post(data, encoding).raw_body == received.raw_body
    [text] = result_texts(received.json)
    body["messages"][2]["content"] = text
    assert received.json == body
    assert "worker-3 ERROR queue closed: timeout after 30 s" in text
    assert len(text) < len(LOG)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate", "compress", "gzip, gzip"])
def test_undecodable_bodies_pass_where_nothing_is_searched(encoding: str, unsearched: Any) -> None:
    body = encode("gzip", json.dumps(chat(LOG)).encode())[:-20]
    received = unsearched(body, encoding)
    assert received.raw_body == body
    assert received.header("content-encoding") == encoding


def test_deep_nesting_passes_where_nothing_is_searched(unsearched: Any) -> None:
    body = b'{"model":"m","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert unsearched(body).raw_body == body


def test_a_large_body(post: Any) -> None:
    """The body has two megabytes of results of every kind."""
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
