"""What goes wrong between a hidden call and its answer, and who hears of it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from e2e.agent import AnthropicAgent, OpenAIAgent
from e2e_expand.model import CAP, PHANTOM, Model, expand
from mitm import ADDON
from upstream import Fault, Hangup, Raw, Text, turn

HOSTS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}
TOOLS = {"anthropic": AnthropicAgent.TOOLS, "openai": OpenAIAgent.TOOLS}
APIS = list(HOSTS)
ASK = turn(Text("One moment."), expand("shadow_1"))


def body(api: str, stream: bool) -> dict[str, Any]:
    """A first request of an agent."""
    more = {"max_tokens": 999} if api == "anthropic" else {}
    messages = [{"role": "user", "content": "x"}]
    return {"model": "m", "messages": messages, "tools": list(TOOLS[api]), "stream": stream, **more}


def headers(api: str, key: str) -> dict[str, str]:
    if api == "anthropic":
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return {"authorization": f"Bearer {key}"}


def post(api: str, client: Any, running: Any, key: str, stream: bool) -> Any:
    return client.post(HOSTS[api] + PATHS[api], json=body(api, stream), headers=headers(api, key))


def events(data: bytes) -> list[Any]:
    parts = [part for part in data.split(b"\n\n") if b"data: {" in part]
    return [json.loads(part.split(b"data: ", 1)[1]) for part in parts]


def eventually(check: Callable[[], Any], seconds: float = 10.0) -> Any:
    limit = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < limit:
        time.sleep(0.02)
    return found


def failing(fault: Any) -> Callable[[Any], Any]:
    """The first call asks for an original; every later one fails."""
    steps = iter([ASK])
    return lambda received: next(steps, fault)


FAULTS = [
    (Fault(400, "too long"), "too long", 2),
    (Fault(429, "slow down", headers=(("retry-after", "60"),)), "slow down", 2),
    (Fault(500, "broken"), "broken", 4),
    (Fault(529, "Overloaded", headers=(("retry-after", "0"),)), "Overloaded", 4),
    (Raw(502, (("content-type", "text/html"),), b"<html>bad gateway</html>"), "status 502", 4),
    (Raw(200, (("content-type", "text/html"),), b"<html>hello</html>"), "status 200", 2),
    (Hangup(), "connection", 4),
    (turn("Half a w", cut_after=2), None, None),
    (turn("Half a word.", error_after=2), None, None),
    (turn(Text("Half a word.", deltas=("Half", " a", " word.")), cut_after=5), None, None),
]


@pytest.mark.parametrize(("fault", "words", "calls"), FAULTS)
@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])
@pytest.mark.parametrize("api", APIS)
def test_a_failing_continuation_ends_a_stream_with_the_providers_own_error(
    api: str,
    http2: bool,
    fault: Any,
    words: Any,
    calls: Any,
    clients: Any,
    api_key: str,
    proxy: Any,
    upstream: Any,
) -> None:
    upstream.script(failing(fault))
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    answer = post(api, clients.http(running, http2=http2), running, api_key, True)
    assert answer.status_code == 200
    assert b"One moment." in answer.content
    assert PHANTOM.encode() not in answer.content
    last = events(answer.content)[-1]
    assert last["error"]["message"]
    assert sum("error" in event for event in events(answer.content)) == 1
    if words:
        assert words in last["error"]["message"]
        assert len(upstream.asked()) == calls
    if api == "anthropic":
        assert last["type"] == "error"
        assert b"message_stop" not in answer.content


@pytest.mark.parametrize(
    ("fault", "status"), [(Fault(400, "no"), 400), (Fault(529, "no"), 529), (Hangup(), 502), (Raw(), 502)]
)
@pytest.mark.parametrize("api", APIS)
def test_a_failing_continuation_gives_a_document_its_status(
    api: str, fault: Any, status: int, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    upstream.script(failing(fault))
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    answer = post(api, clients.http(running), running, api_key, False)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("once", [Fault(529), Fault(429, headers=(("retry-after", "0.1"),)), Hangup()])
@pytest.mark.parametrize("api", APIS)
def test_what_passes_is_tried_again(
    api: str, once: Any, stream: bool, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    upstream.script(Model(ASK, once, turn("Here.")))
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    answer = post(api, clients.http(running), running, api_key, stream)
    assert answer.status_code == 200
    assert b"Here." in answer.content
    assert b'"error"' not in answer.content
    assert len(upstream.asked()) == 3
    assert upstream.asked()[1].body == upstream.asked()[2].body


@pytest.mark.parametrize("api", APIS)
def test_refusals_of_the_first_call_are_the_clients_own(
    api: str, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    upstream.script(Model(Fault(529, "Overloaded", headers=(("retry-after", "7"),))))
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    answer = post(api, clients.http(running), running, api_key, True)
    assert (answer.status_code, answer.headers["retry-after"]) == (529, "7")
    assert "Overloaded" in answer.json()["error"]["message"]
    assert len(upstream.asked()) == 1


@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])
@pytest.mark.parametrize("api", APIS)
def test_words_arrive_before_the_next_ones_are_made(
    api: str, http2: bool, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    """Each word is let go by the test only when the one before it has reached the client."""
    gates = [threading.Event() for _ in range(6)]
    words = [f"w{n}" for n in range(6)]
    # In front of the first delta stand: message_start, ping, content_block_start; or the role.
    offset = 3 if api == "anthropic" else 1
    held = [{offset + n: gates[n + first] for n in range(3)} for first in (0, 3)]
    upstream.script(
        Model(
            turn(Text("".join(words[:3]), deltas=tuple(words[:3])), expand("shadow_1"), hold=held[0]),
            turn(Text("".join(words[3:]), deltas=tuple(words[3:])), hold=held[1]),
        )
    )
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    client = clients.http(running, http2=http2)
    got = b""
    arrived = 0
    request = {"json": body(api, True), "headers": headers(api, api_key)}
    with client.stream("POST", HOSTS[api] + PATHS[api], **request) as answer:
        gates[0].set()
        for chunk in answer.iter_raw():
            got += chunk
            while arrived < 6 and words[arrived].encode() in got:
                arrived += 1
                if arrived < 6:
                    gates[arrived].set()
    assert arrived == 6
    assert len(upstream.asked()) == 2


@pytest.mark.parametrize("silent", [False, True], ids=["speaking", "silent"])
def test_a_client_that_leaves_cancels_the_hidden_call(
    silent: bool, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    never = threading.Event()
    held = {"first_delay": 30.0} if silent else {"hold": {5: never}}
    upstream.script(Model(ASK, turn(Text("abcdef", deltas=("abc", "def", "ghi")), **held)))
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    client = clients.http(running)
    request = {"json": body("anthropic", True), "headers": headers("anthropic", api_key)}
    with client.stream("POST", HOSTS["anthropic"] + PATHS["anthropic"], **request) as answer:
        # An iterator that is dropped closes the connection.
        chunks, got = answer.iter_raw(), b""
        while b"One moment." not in got or not (silent or b"def" in got):
            got += next(chunks)
        assert eventually(lambda: len(upstream.asked()) == 2)
    client.close()
    assert eventually(lambda: upstream.asked()[1].done.is_set())
    never.set()
    assert upstream.asked()[1].cancelled


def test_one_of_two_streams_of_a_connection_is_cancelled_alone(
    api_key: str, proxy: Any, upstream: Any
) -> None:
    never, other = threading.Event(), threading.Event()
    steps = {
        "one": iter([ASK, turn("Never.", hold={4: never})]),
        "two": iter([ASK, turn("Two.", hold={4: other})]),
    }
    upstream.script(lambda received: next(steps[received.json["messages"][0]["content"]]))
    running = proxy("reverse-tls", penumbra_max_output_bytes=CAP)

    def request(words: str) -> bytes:
        return json.dumps(
            {**body("anthropic", True), "messages": [{"role": "user", "content": words}]}
        ).encode()

    async def talk() -> dict[int, bytes]:
        context = running.trust()
        context.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", running.port, ssl=context, server_hostname="localhost"
        )
        wire = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        wire.initiate_connection()
        for stream_id, words in ((1, "one"), (3, "two")):
            data = request(words)
            head = {**headers("anthropic", api_key), "content-length": str(len(data))}
            fixed = [(":method", "POST"), (":path", PATHS["anthropic"]), (":scheme", "https")]
            fixed += [(":authority", "localhost"), ("content-type", "application/json")]
            wire.send_headers(stream_id, [*fixed, *head.items()])
            wire.send_data(stream_id, data, end_stream=True)
        got = {1: b"", 3: b""}
        ended = reset = False
        while not ended:
            writer.write(wire.data_to_send())
            for event in wire.receive_data(await asyncio.wait_for(reader.read(65535), 20)):
                if isinstance(event, h2.events.DataReceived):
                    wire.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
                    got[event.stream_id or 0] += event.data or b""
                ended |= isinstance(event, h2.events.StreamEnded) and event.stream_id == 3
            if (
                not reset
                and len(upstream.asked()) == 4
                and all(b"One moment." in data for data in got.values())
            ):
                wire.reset_stream(1, 8)
                writer.write(wire.data_to_send())
                reset = True
                await asyncio.to_thread(eventually, lambda: any(r.cancelled for r in upstream.asked()))
                other.set()
        writer.close()
        return got

    got = asyncio.run(talk())
    assert b"Two." in got[3]
    assert b"message_stop" in got[3]
    cancelled = [request.json["messages"][0]["content"] for request in upstream.asked() if request.cancelled]
    assert cancelled == ["one"]
    never.set()


@pytest.mark.parametrize("http2", [False, True], ids=["connections", "one connection"])
def test_twenty_streams_at_once(http2: bool, api_key: str, clients: Any, proxy: Any, upstream: Any) -> None:
    def answer(received: Any) -> Any:
        messages = received.json["messages"]
        words = messages[0]["content"]
        if len(messages) < 5:
            return turn(
                Text(f"<{words} {len(messages)}>"),
                expand("shadow_1", lines=str(len(messages))),
                event_delay=0.01,
            )
        return turn(Text(f"<{words} end>"), event_delay=0.01)

    upstream.script(answer)
    running = proxy("regular", penumbra_max_output_bytes=CAP)

    async def all_of_them() -> list[bytes]:
        transport = clients.httpx.AsyncClient(
            proxy=running.url, verify=running.trust(), trust_env=False, http2=http2, timeout=60
        )
        async with transport as client:

            async def one(number: int) -> bytes:
                messages = [{"role": "user", "content": f"n{number}"}]
                answer = await client.post(
                    HOSTS["anthropic"] + PATHS["anthropic"],
                    json={**body("anthropic", True), "messages": messages},
                    headers=headers("anthropic", api_key),
                )
                return bytes(answer.content)

            return await asyncio.gather(*(one(number) for number in range(20)))

    for number, data in enumerate(asyncio.run(all_of_them())):
        texts = [event["delta"]["text"] for event in events(data) if "text" in event.get("delta", {})]
        assert "".join(texts) == f"<n{number} 1><n{number} 3><n{number} end>"
        assert data.count(b"event: message_stop") == 1
    assert len(upstream.asked()) == 60


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_content_codings(
    encoding: str, stream: bool, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    upstream.script(
        Model(
            turn(Text("One moment, é."), expand("shadow_1"), encoding=encoding, split=7),
            turn("Here, ü.", encoding=encoding, split=5),
        )
    )
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    answer = post("anthropic", clients.http(running), running, api_key, stream)
    text = answer.text if stream else json.dumps(answer.json(), ensure_ascii=False)
    assert "One moment, é." in text
    assert "Here, ü." in text
    assert PHANTOM not in text
    assert len(upstream.asked()) == 2


@pytest.mark.parametrize("crlf", [False, True], ids=["lf", "crlf"])
@pytest.mark.parametrize("api", APIS)
def test_byte_by_byte(api: str, crlf: bool, clients: Any, api_key: str, proxy: Any, upstream: Any) -> None:
    upstream.script(
        Model(
            turn(Text("One é."), expand("shadow_1"), split=1, crlf=crlf, delta=3),
            turn("Two ü.", split=1, crlf=crlf, delta=3),
        )
    )
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    content = post(api, clients.http(running), running, api_key, True).content.replace(b"\r\n", b"\n")
    said = [event for event in events(content) if "error" not in event]
    if api == "anthropic":
        text = "".join(event["delta"].get("text", "") for event in said if "delta" in event)
    else:
        text = "".join(choice["delta"].get("content") or "" for event in said for choice in event["choices"])
    assert text.replace("\n\n", "") == "One é.Two ü."
    assert PHANTOM.encode() not in content


PATCHED = """
from penumbra.shadow import splice
{patch}
from penumbra.addon import Penumbra
addons = [Penumbra()]
"""


@pytest.fixture
def patched(own_proxy: Any, tmp_path: Path) -> Callable[[str], Any]:
    """A proxy whose script changes something before the addon is there."""

    def start(patch: str) -> Any:
        script = tmp_path / "patched.py"
        script.write_text(PATCHED.format(patch=patch))
        assert ADDON.parent.is_dir()
        return own_proxy("regular", script=script, penumbra_max_output_bytes=CAP)

    return start


def test_keep_alives_while_the_hidden_call_is_silent(
    patched: Any, clients: Any, api_key: str, upstream: Any
) -> None:
    running = patched("splice.KEEP_ALIVE_SECONDS = 0.05")
    for api, mark in (("anthropic", b"event: ping"), ("openai", b": keep-alive")):
        upstream.script(Model(ASK, turn("Here.", first_delay=0.6)))
        content = post(api, clients.http(running), running, api_key, True).content
        waiting = content.partition(b"One moment.")[2].partition(b"Here.")[0]
        assert waiting.count(mark) >= 3
        upstream.script(Model(turn("Slow.", first_delay=0.1, event_delay=0.15)))
        content = post(api, clients.http(running), running, api_key, True).content
        assert b"keep-alive" not in content
        assert content.count(b"event: ping") <= 1


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("api", APIS)
def test_an_unknown_mitmproxy_gets_whole_answers(
    api: str, stream: bool, patched: Any, clients: Any, api_key: str, upstream: Any
) -> None:
    running = patched("splice.incompatible = lambda: 'this is a test'")
    for encoding in ("", "gzip"):
        upstream.script(Model(ASK, turn(expand("shadow_2")), turn("Here.", encoding=encoding)))
        answer = post(api, clients.http(running), running, api_key, stream)
        assert b"One moment." in answer.content
        assert b"Here." in answer.content
        assert PHANTOM.encode() not in answer.content
    upstream.script(failing(Fault(400, "too long")))
    answer = post(api, clients.http(running), running, api_key, stream)
    # Nothing has been sent yet, so a stream too can still get the provider's status.
    assert answer.status_code == 400
    assert "too long" in answer.json()["error"]["message"]
    assert running.log().count("PENUMBRA_SPLICE_UNAVAILABLE") == 1
    assert "this is a test" in running.log()


def test_a_reload_of_the_script_in_the_middle_of_an_answer(
    patched: Any, clients: Any, api_key: str, upstream: Any, tmp_path: Path
) -> None:
    running = patched("")
    gate = threading.Event()
    upstream.script(Model(turn(Text("One."), expand("shadow_1"), hold={6: gate}), turn("Two.")))
    client = clients.http(running)
    request = {"json": body("anthropic", True), "headers": headers("anthropic", api_key)}
    with client.stream("POST", HOSTS["anthropic"] + PATHS["anthropic"], **request) as answer:
        chunks, got = answer.iter_raw(), b""
        while b"One." not in got:
            got += next(chunks)
        (tmp_path / "patched.py").touch()
        assert eventually(lambda: running.log().count("Penumbra is active") == 2)
        gate.set()
        got += b"".join(chunks)
    assert b"Two." in got
    assert got.count(b"event: message_stop") == 1
    assert PHANTOM.encode() not in got


def test_clients_that_leave_leave_no_connections_behind(
    clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    never = threading.Event()

    def connections() -> int:
        return len(upstream._open)

    before = connections()
    for _ in range(8):
        upstream.script(Model(ASK, turn(Text("abc", deltas=("a", "b", "c")), hold={4: never})))
        client = clients.http(running)
        request = {"json": body("anthropic", True), "headers": headers("anthropic", api_key)}
        with client.stream("POST", HOSTS["anthropic"] + PATHS["anthropic"], **request) as answer:
            chunks, got = answer.iter_raw(), b""
            while got.count(b"content_block_delta") < 3:
                got += next(chunks)
        client.close()
    assert eventually(lambda: connections() <= before)
    assert eventually(lambda: sum(request.cancelled for request in upstream.asked()) == 8)
    never.set()
