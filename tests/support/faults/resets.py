"""Providers whose connections die, at every phase of a response, and in hidden turns."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from support.agents.model import expand, log
from support.agents.requests import hidden_results
from support.faults.arena import Arena, left, words
from support.faults.clients import Ending, Http2, Question, Server, ask
from support.faults.counted import Counted, compared, total
from support.upstream import Received, Response, Text, turn
from support.upstream.script import Cut

STREAMED = {
    "before the head": b"",
    "in the head": b"content-type",
    "behind the head": b"event: message_start",
    "before the first words": b"event: content_block_delta",
    "in an event": b'"text_delta"',
    "between events": b".7 ",
    "before the last event": b"event: message_stop",
    "before the end": b"0\r\n\r\n",
}
"""The phases of a streamed response, by the bytes before which the connection dies."""
WHOLE = {"before the head": b"", "in the head": b"content-type", "in the document": b'"stop_reason"'}
_ONE_MOMENT = "One moment. "
_ALONE = Ending(502, whole=True)
"""The ending that a client of mitmproxy alone sees in each phase."""
Phase = tuple[str, bytes, bool, bool]
"""A phase is its name, the bytes before which the connection dies, whether by a reset, and whether in a
stream."""


def phases(http2: bool = False) -> list[Phase]:
    """Return the phases. In HTTP/2, no bytes of a head or after a body can be found."""
    hidden = {"in the head", "before the end"} if http2 else set()
    streams = [(name, before, True) for name, before in STREAMED.items() if name not in hidden]
    documents = [(name, before, False) for name, before in WHOLE.items() if name not in hidden]
    return [
        (f"{name}, {'reset' if reset else 'closed'}", before, reset, stream)
        for (name, before, stream), reset in itertools.product([*streams, *documents], (True, False))
    ]


def provider_dies(arena: Arena, http2: bool = False) -> Counted:
    """The connection dies in the client's own request, as through mitmproxy alone; a request after each one
    is answered."""

    def script(name: str, phase: Phase) -> Callable[[Received], Response]:
        return lambda received: Cut(_spoken(words(name)), phase[1], phase[2])

    mode = "reverse-tls" if http2 else "reverse"
    servers = [arena.proxy(mode), arena.upstream]
    if arena.shared is None:
        servers.append(arena.proxy(mode, addon=False))
    return _row(arena, servers, phases(http2), http2, script)


def hidden_turn_dies(arena: Arena, http2: bool = False) -> Counted:
    """The connection dies in the hidden request for an original: the stream breaks off after the text before
    it."""

    def script(name: str, phase: Phase) -> Callable[[Received], Response]:
        def answer(received: Received) -> Response:
            if not hidden_results(received):
                return turn(_ONE_MOMENT, expand("shadow_1"))
            return Cut(_spoken(words(name)), phase[1], phase[2])

        return answer

    return _row(arena, [arena.proxy("reverse-tls" if http2 else "reverse")], phases(http2), http2, script)


def _spoken(text: str) -> Response:
    pieces = [f"{piece} " for piece in text.split(" ")]
    pieces[-1] = pieces[-1][:-1]
    return turn(Text(text, deltas=tuple(pieces)))


def _row(
    arena: Arena,
    servers: Sequence[Any],
    phases: Sequence[Phase],
    http2: bool,
    script: Callable[[str, Phase], Callable[[Received], Response]],
) -> Counted:
    names = [f"r{number}" for number in range(len(phases))]
    arena.answers.update({name: script(name, phase) for name, phase in zip(names, phases, strict=True)})
    asyncio.run(_asked(servers[0], [Question("warm"), Question("up")], http2))
    before = arena.there(servers[0])
    questions = [
        Question(name, log(name), stream=phase[3]) for name, phase in zip(names, phases, strict=True)
    ]
    behind = [Question(f"behind-{name}") for name in names]
    endings = [asyncio.run(_asked(server, [*questions, *behind], http2)) for server in servers]
    rows = []
    for number, (name, phase) in enumerate(zip(names, phases, strict=True)):
        ours = endings[0][number]
        others = [each[number] for each in endings[1:]] or [_told(ours, phase[3])]
        others += [_ALONE] if len(endings) == 2 else []
        expected = words(name) if len(endings) > 1 else _ONE_MOMENT + words(name)
        kind = phase[0] + (", stream" if phase[3] else "")
        rows.append(compared(kind, ours, others, expected, to_the_word=not phase[2]))
    rows += [
        compared(f"behind {name}", ending, (), words(f"behind-{name}"))
        for name, ending in zip(names, endings[0][len(names) :], strict=True)
    ]
    return total([*rows, left(servers[0], before)])


def _told(ours: Ending, stream: bool) -> Ending:
    """Return the expected end of a failed hidden request: a stream that breaks off without an error of
    Penumbra's, or a document with the failure."""
    if stream:
        return Ending(200, ours.body) if ours.body and not ours.error else Ending()
    return Ending(502, ours.body, True) if not stream and ours.error else Ending()


async def _asked(server: Server, questions: Sequence[Question], http2: bool) -> list[Ending]:
    """Send each question on a connection of its own, in HTTP/2, too, since it is the provider's connection
    that dies."""
    found = []
    for question in questions:
        if not http2:
            found.append(await ask(server, question))
            continue
        async with Http2.opened(server) as client:
            found.append(await client.ask(question))
    return found
