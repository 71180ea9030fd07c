"""Clients that half-close, read slowly or go away, alone and among many others."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from support.agents.model import expand, log
from support.agents.requests import hidden_results
from support.faults.arena import Arena, asker, left, memory, what_is_there, words
from support.faults.clients import PLAIN, Ending, Http2, Manners, Question, Server, ask, connected, read, send
from support.faults.counted import Counted, compared, total
from support.mitm import Mitmdump, eventually
from support.upstream import Received, Response, Text, turn

_HALF = Manners(half_closes=True)
_TENTH = 10
_BUFFER = 65_536


def client_half_closes(arena: Arena) -> Counted:
    """Clients close their sending side while the model still thinks, and while it writes."""
    names = ["half-before", "half-during"]
    slow = {"half-before": {"first_delay": 0.3}, "half-during": {"event_delay": 0.02}}
    for name in names:
        arena.answers[name] = lambda received, name=name: turn(Text(words(name)), **slow[name])
    proxy = arena.proxy()
    before = arena.there(proxy)

    async def all_of_them(server: Server) -> list[Ending]:
        return [await ask(server, Question(name, log(name)), _HALF) for name in names]

    ours = asyncio.run(all_of_them(proxy))
    # For mitmproxy, such a client has left.
    alone = asyncio.run(all_of_them(arena.proxy(addon=False))) if arena.shared is None else [Ending()] * 2
    rows = [
        compared(name, mine, [theirs], words(name), to_the_word=False)
        for name, mine, theirs in zip(names, ours, alone, strict=True)
    ]
    return total([*rows, left(proxy, before)])


def client_reads_slowly(arena: Arena, megabytes: int = 48) -> Counted:
    """A client reads nothing of a long response for as long as the provider can send, and then all of it."""
    deltas = tuple(f"slow.{number:06} " + "x" * 32_000 for number in range(megabytes * 1_000 // 32))
    arena.answers["slow"] = lambda received: turn(Text("".join(deltas), deltas=deltas))
    proxy = arena.proxy()
    asyncio.run(ask(proxy, Question("warm"), PLAIN))
    before, used = arena.there(proxy), memory(proxy)

    async def slowly() -> tuple[Ending, float, float]:
        async with connected(proxy, _BUFFER) as (reader, writer):
            machine = await send(writer, Question("slow"))
            got = await asyncio.to_thread(_stands_still, arena)
            standing = memory(proxy)
            return await read(reader, machine), got, standing

    ending, got, standing = asyncio.run(slowly())
    row = compared("slow", ending, (), "".join(deltas))
    said = (
        f"of {len(ending.body) / 1e6:.0f} MB the provider got rid of {got / 1e6:.0f} while nothing was read; "
        f"memory +{standing - used:.0f} MB then, +{memory(proxy) - used:.0f} MB at the end"
    )
    is_held = got > len(ending.body) / 2
    return total([row, Counted(left=int(is_held), notes=(said,)), left(proxy, before)])


def _stands_still(arena: Arena) -> int:
    """Wait until the provider stops sending, and return the number of sent bytes."""
    seen = [-1, -2]
    while len(set(seen[-10:])) > 1 or seen[-1] <= 0:
        time.sleep(0.05)
        seen.append(max((one.sent for one in arena.upstream.asked() if asker(one) == "slow"), default=0))
    return seen[-1]


def many_at_once(arena: Arena, streams: int, connections: int = 0) -> Counted:
    """Many streams run at the same time. Every second one asks for an original, and a tenth of the clients
    leaves. `connections` is the number of HTTP/2 connections; 0 means one HTTP/1.1 connection for each
    stream."""
    names = [f"s{streams}-{connections}-{number}" for number in range(streams)]
    for number, name in enumerate(names):
        arena.answers[name] = _answer(name, asks=number % 2 == 1)
    proxy = arena.proxy("reverse-tls" if connections else "reverse")
    warm = [Question(f"warm-{number}", log(f"warm-{number}")) for number in range(20)]
    asyncio.run(_all_at_once(proxy, [(question, PLAIN) for question in warm], min(1, connections)))
    before, begun = arena.there(proxy), len(arena.upstream.asked())
    asked = [(Question(name, log(name)), _manners(number, name)) for number, name in enumerate(names)]
    endings = asyncio.run(_all_at_once(proxy, asked, connections))
    rows = []
    for number, ((question, manners), ending) in enumerate(zip(asked, endings, strict=True)):
        expected = ("One moment. " if number % 2 else "") + words(question.name)
        if manners.leaves_at is None:
            rows.append(compared(question.name, ending, (), expected))
        else:
            mixed = not expected.startswith(ending.says)
            rows.append(Counted(1, gone=1 - mixed, mixed=int(mixed)))
    requests = arena.upstream.asked()[begun:]
    eventually(lambda: all(one.done.is_set() for one in requests))
    going = sum(not one.done.is_set() for one in requests)
    peak = (f"most memory {memory(proxy, 'VmHWM'):.0f} MB",)
    return total([*rows, Counted(left=going, notes=peak), left(proxy, before)])


def one_after_the_other(arena: Arena, turns: int, http2: bool = False) -> Counted:
    """Send many requests on one connection that stays open, and count what is in memory before it ends and
    after it."""
    proxy = arena.proxy("reverse-tls" if http2 else "reverse")
    question = Question("one", log("one", 1500))
    asyncio.run(_all_at_once(proxy, [(question, PLAIN)] * 20, int(http2)))
    before, used = arena.there(proxy), memory(proxy)

    async def go() -> tuple[list[Ending], dict[str, int], float]:
        async with contextlib.AsyncExitStack() as stack:
            if http2:
                client = await stack.enter_async_context(Http2.opened(proxy))
                found = [await client.ask(question) for _ in range(turns)]
            else:
                reader, writer = await stack.enter_async_context(connected(proxy))
                found = [await read(reader, await send(writer, question)) for _ in range(turns)]
            return found, await asyncio.to_thread(what_is_there, proxy), memory(proxy)

    endings, open_still, standing = asyncio.run(go())
    names = ("flows", "streams", "states")
    note = ", ".join(f"{open_still[name] - before[name]} {name}" for name in names)
    megabytes = len(question.data) * turns / 1e6
    kept = left(proxy, before)
    said = f"of {megabytes:.0f} MB sent, while it is open: {note}, +{standing - used:.0f} MB; then +{memory(proxy) - used:.0f}"
    rows = [compared("one", ending, (), words("one")) for ending in endings]
    return total([*rows, Counted(notes=(said,)), kept])


def _answer(name: str, *, asks: bool) -> Callable[[Received], Response]:
    pieces = tuple(f"{piece} " for piece in words(name).split(" "))
    spoken = Text(words(name), deltas=(*pieces[:-1], pieces[-1][:-1]))

    def answer(received: Received) -> Response:
        if asks and not hidden_results(received):
            return turn("One moment. ", expand("shadow_1"))
        return turn(spoken, event_delay=0.01)

    return answer


def _manners(number: int, name: str) -> Manners:
    if number % _TENTH:
        return PLAIN
    return Manners(leaves_at=b"" if number % (2 * _TENTH) else f"{name}.3".encode())


async def _all_at_once(
    proxy: Mitmdump, asked: Sequence[tuple[Question, Manners]], connections: int
) -> list[Ending]:
    if not connections:
        return await asyncio.gather(*(ask(proxy, question, manners) for question, manners in asked))
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Http2.opened(proxy)) for _ in range(connections)]
        return await asyncio.gather(
            *(
                clients[number % connections].ask(question, manners)
                for number, (question, manners) in enumerate(asked)
            )
        )
