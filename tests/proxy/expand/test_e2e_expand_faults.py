"""Failures between a hidden call and its response, and their reports."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from support.agents.apis import CLIENTS, Client, both_ways, every_api
from support.agents.model import CAP, Model, expand
from support.agents.requests import PHANTOM, hidden_results
from support.mitm import ADDON, eventually
from support.upstream import Fault, Hangup, Raw, Text, Turn, turn

ASK = turn(Text("One moment."), expand("shadow_1"))
both_protocols = pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])


def failing(fault: Any) -> Callable[[Any], Any]:
    """Return a script whose first turn asks for an original, and whose later ones fail."""
    steps = iter([ASK])
    return lambda received: next(steps, fault)


Break = Callable[[Client], Any]
SECRET = "sk-ant-api03-" + "aB3" * 30
WORDS = f"what is {PHANTOM} and {SECRET}?"

FAULTS: list[tuple[Break, Any, Any]] = [
    (lambda api: Fault(400, WORDS), "the upstream answered with status 400", 2),
    (lambda api: Fault(429, WORDS, headers=(("retry-after", "60"),)), "the upstream answered with status 429", 2),
    (lambda api: Fault(500, WORDS), "the upstream answered with status 500", 4),
    (lambda api: Fault(529, WORDS, headers=(("retry-after", "0"),)), "the upstream answered with status 529", 4),
    (lambda api: Raw(502, (("content-type", "text/html"),), b"<html>bad gateway</html>"), "the upstream answered with status 502", 4),
    (lambda api: Raw(200, (("content-type", "text/html"),), b"<html>hello</html>"), "the upstream answered with status 200", 2),
    (lambda api: Hangup(), "the connection to the upstream failed", 4),
    (lambda api: turn("Half a w", cut_after=2, delta=3), None, None),
    (lambda api: turn("Half a word.", error_after=2, delta=3), None, None),
    (lambda api: turn(Text("Half a word.", deltas=("Half", " a", " word.")), cut_after=api.lead + 2), None, None),
]  # fmt: skip
FAULT_IDS = ["400", "429", "500", "529", "html-502", "html-200", "hangup", "cut", "error", "cut-later"]


@pytest.mark.parametrize(("fault", "words", "calls"), FAULTS, ids=FAULT_IDS)
@both_protocols
@every_api
def test_a_failing_continuation_keeps_its_kind(
    api: Client,
    http2: bool,
    fault: Break,
    words: Any,
    calls: Any,
    clients: Any,
    api_key: str,
    running: Any,
    upstream: Any,
) -> None:
    """An error event of the provider's is one for the client; all other failures break the stream off."""
    upstream.script(failing(fault(api)))
    content, broke = api.arrived(clients.http(running, http2=http2), api_key)
    is_event = isinstance(fault(api), Turn) and fault(api).delivery.error_after is not None
    assert broke is not is_event
    assert b"One moment." in content
    assert PHANTOM.encode() not in content
    errors = [api.error(event) for event in api.events(content)]
    assert bool(errors[-1]) is is_event
    assert sum(map(bool, errors)) == is_event
    assert api.ends not in content
    assert b"what is" not in content
    if isinstance(fault(api), Fault):
        # The operator's log has the provider's message, without the secrets in it.
        assert eventually(lambda: f"what is {PHANTOM} and " in running.log())
        assert SECRET not in running.log()
    if words:
        assert eventually(lambda: f"a hidden request failed: {words}" in running.log())
        assert len(upstream.asked()) == calls


@both_protocols
@every_api
def test_a_stream_breaks_off_where_the_providers_does(
    api: Client, http2: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    """A stream breaks off after a hidden request as without one."""
    client = clients.http(running, http2=http2)
    cut = turn(Text("Half a word.", deltas=("Half", " a", " word.")), cut_after=api.lead + 2)
    upstream.script(Model(cut))
    plain = api.arrived(client, api_key)
    upstream.script(Model(ASK, cut))
    hidden = api.arrived(client, api_key)
    assert plain[1]
    assert hidden[1]
    assert api.text(hidden[0]) == f"One moment.{api.gap}{api.text(plain[0])}"


@pytest.mark.parametrize("hidden", [False, True], ids=["first", "continued"])
@both_protocols
def test_a_stream_that_cannot_be_decoded_breaks_off(
    hidden: bool, http2: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    client = clients.http(running, http2=http2)
    for api in CLIENTS:
        if api.name == "gemini-array":
            continue
        kind = {"ollama": "application/x-ndjson", "converse": "application/vnd.amazon.eventstream"}
        head = ("content-type", kind.get(api.name, "text/event-stream")), ("content-encoding", "gzip")
        broken = Raw(200, head, b"this is no gzip")
        upstream.script(Model(*([ASK, broken, broken, broken] if hidden else [broken])))
        content, broke = api.arrived(client, api_key)
        assert broke, api.name
        assert content == b"" or hidden
        assert not any(map(api.error, api.events(content)))


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault(400, "no"), 502),
        (Fault(529, "no"), 529),
        (Fault(429, "no", headers=(("retry-after", "60"),)), 429),
        (Hangup(), 502),
        (Raw(), 502),
    ],
    ids=["400", "529", "429", "hangup", "empty"],
)
@every_api
def test_a_failing_continuation_gives_a_document_a_status_that_clients_retry(
    api: Client, fault: Any, status: int, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    upstream.script(failing(fault))
    answer = api.post(clients.http(running), api_key, False)
    assert answer.status_code == status
    assert api.error(answer.json()) != "no"
    assert answer.headers.get("retry-after") == ("60" if status == 429 else None)


@both_ways
@pytest.mark.parametrize(
    "once",
    [Fault(529), Fault(429, headers=(("retry-after", "0.1"),)), Hangup()],
    ids=["529", "429", "hangup"],
)
@every_api
def test_a_passing_failure_is_tried_again(
    api: Client, once: Any, stream: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    upstream.script(Model(ASK, once, turn("Here.")))
    answer = api.post(clients.http(running), api_key, stream)
    assert answer.status_code == 200
    assert api.text(answer.content, stream).endswith("Here.")
    assert not any(map(api.error, api.values(answer.content, stream)))
    assert len(upstream.asked()) == 3
    assert upstream.asked()[1].body == upstream.asked()[2].body


@every_api
def test_refusals_of_the_first_call_are_the_clients_own(
    api: Client, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    upstream.script(Model(Fault(529, "Overloaded", headers=(("retry-after", "7"),))))
    answer = api.post(clients.http(running), api_key, True)
    assert (answer.status_code, answer.headers["retry-after"]) == (529, "7")
    assert "Overloaded" in api.error(answer.json())
    assert len(upstream.asked()) == 1


@both_protocols
@every_api
def test_words_arrive_before_the_next_ones_are_made(
    api: Client, http2: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    """The test releases each word when the word before it has reached the client."""
    gates = [threading.Event() for _ in range(6)]
    words = [f"w{n}" for n in range(6)]
    paced = [{api.lead + n: gates[n + first] for n in range(3)} for first in (0, 3)]
    upstream.script(
        Model(
            turn(Text("".join(words[:3]), deltas=tuple(words[:3])), expand("shadow_1"), hold=paced[0]),
            turn(Text("".join(words[3:]), deltas=tuple(words[3:])), hold=paced[1]),
        )
    )
    got = b""
    arrived = 0
    # The head of an answer waits for its first bytes, which may reveal a refusal.
    gates[0].set()
    with api.opened(clients.http(running, http2=http2), api_key) as answer:
        for chunk in answer.iter_raw():
            got += chunk
            while arrived < 6 and words[arrived].encode() in got:
                arrived += 1
                if arrived < 6:
                    gates[arrived].set()
    assert arrived == 6
    assert len(upstream.asked()) == 2


@pytest.mark.parametrize("silent", [False, True], ids=["speaking", "silent"])
@every_api
def test_a_client_that_leaves_cancels_the_hidden_call(
    api: Client, silent: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    never = threading.Event()
    delivery = {"first_delay": 30.0} if silent else {"hold": {api.lead + 2: never}}
    upstream.script(Model(ASK, turn(Text("abcdefghi", deltas=("abc", "def", "ghi")), **delivery)))
    client = clients.http(running)
    with api.opened(client, api_key) as answer:
        # An iterator that is dropped closes the connection.
        chunks, got = answer.iter_raw(), b""
        while b"One moment." not in got or not (silent or b"def" in got):
            got += next(chunks)
        assert eventually(lambda: len(upstream.asked()) == 2)
    client.close()
    assert eventually(lambda: upstream.asked()[1].done.is_set())
    never.set()
    assert upstream.asked()[1].cancelled


@every_api
def test_one_of_two_streams_of_a_connection_is_cancelled_alone(
    api: Client, api_key: str, proxy: Any, upstream: Any
) -> None:
    never, other = threading.Event(), threading.Event()
    steps = {
        b"one": iter([ASK, turn(Text("Never.", deltas=("Ne", "ver.")), hold={api.lead + 1: never})]),
        b"two": iter([ASK, turn(Text("Two.", deltas=("Two", ".")), hold={api.lead + 1: other})]),
    }

    def prompt_of(received: Any) -> bytes:
        return b"one" if b'"one"' in received.body else b"two"

    upstream.script(lambda received: next(steps[prompt_of(received)]))
    running = proxy("reverse-tls", penumbra_max_output_bytes=CAP)

    async def talk() -> dict[int, bytes]:
        context = running.trust()
        context.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", running.port, ssl=context, server_hostname="localhost"
        )
        wire = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        wire.initiate_connection()
        for stream_id, words in ((1, "one"), (3, "two")):
            data = json.dumps(api.body(words, True)).encode()
            head = {**api.headers(api_key), "content-length": str(len(data))}
            fixed = [(":method", "POST"), (":path", api.path(True)), (":scheme", "https")]
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
            both = all(text in data for text, data in ((b"Ne", got[1]), (b"Two", got[3])))
            if not reset and both:
                wire.reset_stream(1, 8)
                writer.write(wire.data_to_send())
                reset = True
                await asyncio.to_thread(eventually, lambda: any(r.cancelled for r in upstream.asked()))
                other.set()
        writer.close()
        return got

    got = asyncio.run(talk())
    assert api.text(got[3]).endswith("Two.")
    assert api.ends in got[3]
    assert [prompt_of(request) for request in upstream.asked() if request.cancelled] == [b"one"]
    never.set()


@pytest.mark.parametrize(
    ("api", "http2"),
    [(CLIENTS[0], False), *((api, True) for api in CLIENTS)],
    ids=["connections", *(api.name for api in CLIENTS)],
)
def test_twenty_streams_at_once(
    api: Client, http2: bool, api_key: str, clients: Any, running: Any, upstream: Any
) -> None:
    def answer(received: Any) -> Any:
        words = re.search(rb'"(n\d+)"', received.body)
        found = f"{words[1].decode() if words else ''} {len(hidden_results(received))}"
        asks = [] if found.endswith("2") else [expand("shadow_1", lines=found.split()[1])]
        return turn(Text(f"<{found}>"), *asks, event_delay=0.01)

    upstream.script(answer)

    async def all_of_them() -> list[bytes]:
        transport = clients.httpx.AsyncClient(
            proxy=running.url, verify=running.trust(), trust_env=False, http2=http2, timeout=60
        )
        async with transport as client:

            async def one(number: int) -> bytes:
                answer = await api.post(client, api_key, True, f"n{number}")
                return bytes(answer.content)

            return await asyncio.gather(*(one(number) for number in range(20)))

    for number, data in enumerate(asyncio.run(all_of_them())):
        assert api.text(data) == api.gap.join(f"<n{number} {found}>" for found in range(3))
        assert api.ends in data
    assert len(upstream.asked()) == 60


@both_ways
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@every_api
def test_content_codings(
    api: Client, encoding: str, stream: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    upstream.script(
        Model(
            turn(Text("One moment, é."), expand("shadow_1"), encoding=encoding, split=7),
            turn("Here, ü.", encoding=encoding, split=5),
        )
    )
    answer = api.post(clients.http(running), api_key, stream)
    assert api.text(answer.content, stream) == f"One moment, é.{api.gap}Here, ü."
    assert PHANTOM.encode() not in answer.content
    assert len(upstream.asked()) == 2


@pytest.mark.parametrize("crlf", [False, True], ids=["lf", "crlf"])
@every_api
def test_byte_by_byte(
    api: Client, crlf: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    upstream.script(
        Model(
            turn(Text("One é."), expand("shadow_1"), split=1, crlf=crlf, delta=3),
            turn("Two ü.", split=1, crlf=crlf, delta=3),
        )
    )
    content = api.post(clients.http(running), api_key, True).content
    assert api.text(content) == f"One é.{api.gap}Two ü."
    assert not any(map(api.error, api.events(content)))
    assert PHANTOM.encode() not in content


PATCHED = """
from penumbra.flow import splice
{patch}
from penumbra.addon import Penumbra
addons = [Penumbra()]
"""


@pytest.fixture
def patched(own_proxy: Any, tmp_path: Path) -> Callable[[str], Any]:
    """A proxy whose script changes something before the addon is loaded."""

    def start(patch: str) -> Any:
        script = tmp_path / "patched.py"
        script.write_text(PATCHED.format(patch=patch))
        assert ADDON.parent.is_dir()
        return own_proxy("regular", script=script, penumbra_max_output_bytes=CAP)

    return start


def test_keep_alives_while_the_hidden_call_is_silent(
    patched: Any, clients: Any, api_key: str, upstream: Any
) -> None:
    """An API without keep-alives gets none, as some clients fail at what they don't know."""
    running = patched("splice.KEEP_ALIVE_SECONDS = 0.05")
    client = clients.http(running)
    for api in CLIENTS:
        gate, content = threading.Event(), b""
        upstream.script(Model(ASK, turn("Here.", hold={0: gate})))
        if not api.keep_alive:
            threading.Timer(0.3, gate.set).start()
        with api.opened(client, api_key) as answer:
            for chunk in answer.iter_raw():
                content += chunk
                # The model goes on only when the client has got its keep-alives.
                if api.keep_alive and content.partition(b"One moment.")[2].count(api.keep_alive) >= 3:
                    gate.set()
        assert api.text(content) == f"One moment.{api.gap}Here."
        assert b"keep-alive" not in content or api.keep_alive == b": keep-alive"
        upstream.script(Model(turn("Slow.", first_delay=0.1, event_delay=0.12)))
        content = api.post(client, api_key, True).content
        assert b"keep-alive" not in content
        assert content.count(b"event: ping") <= 1
        assert api.text(content) == "Slow."


@both_ways
def test_an_unknown_mitmproxy_gets_whole_answers(
    stream: bool, patched: Any, clients: Any, api_key: str, upstream: Any
) -> None:
    running = patched("splice.incompatible = lambda: 'this is a test'")
    client = clients.http(running)
    for api in CLIENTS:
        for encoding in ("", "gzip"):
            upstream.script(Model(ASK, turn(expand("shadow_2")), turn("Here.", encoding=encoding)))
            answer = api.post(client, api_key, stream)
            assert api.text(answer.content, stream) == f"One moment.{api.gap}Here."
            assert PHANTOM.encode() not in answer.content
        upstream.script(failing(Fault(400, WORDS)))
        answer = api.post(client, api_key, stream)
        # Before the first byte, a stream can still get a status, too.
        assert answer.status_code == 502
        assert api.error(answer.json()) == "the upstream answered with status 400"
    assert running.log().count("PENUMBRA_SPLICE_UNAVAILABLE") == 1
    assert "this is a test" in running.log()
