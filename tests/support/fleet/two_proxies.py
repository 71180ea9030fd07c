"""One conversation through two engines with one store, whose connections fail at a chosen moment."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from penumbra.apis.base import MadeCall
from penumbra.apis.formats import FORMATS
from penumbra.config.settings import Settings
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import Accepted, EngineSettings
from penumbra.expand.loop import Done
from penumbra.store.shared_store import SECONDS, SharedStore
from penumbra.wire.document import Document
from support.apis import APIS
from support.engines import arriving
from support.fleet.redis_server import RedisServer

API = APIS[0]
_LIMIT = 60.0
_PATIENCE = 20.0
"""Seconds. On a busy machine an undisturbed store takes longer to answer than a slow one may."""
_TRIES = 400
STRIKES = ("lost", "cut", "unanswered", "broken", "answered")
"""The ways in which a command fails. `lost`: the command does not arrive, and the connection breaks. `cut`:
the command arrives later. `unanswered`: the command is carried out and answered later. `broken`: the command
is carried out, and the connection breaks. `answered`: the command is answered, but no later command."""


@dataclass
class Way:
    """A `Way` connects an engine to the store, in one event loop."""

    to: int
    mode: str = "open"
    """`open`, `cut` (nothing passes), `unanswered` (no reply passes) or `broken` (connections break)."""
    deaf: bool = False
    """True if announcements do not arrive."""
    strike: str = ""
    """The failure of the next command that has `at` in it."""
    at: bytes = b""
    struck: Callable[[], None] = field(default=lambda: None)
    """Called when the command fails."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _clients: set[asyncio.StreamWriter] = field(default_factory=set)

    async def begin(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        self.mend()
        self._server.close()
        for client in list(self._clients):
            client.transport.abort()

    def set(self, mode: str) -> None:
        self.mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        if mode == "broken":
            for client in list(self._clients):
                client.transport.abort()

    def mend(self) -> None:
        self.strike, self.deaf = "", False
        self.set("open")

    async def wait_while(self, holds: Callable[[], bool]) -> None:
        while holds():
            await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            if self.mode != "broken":
                self._clients.add(client)
                await self.wait_while(lambda: self.mode == "cut")
                passage = _Passage(self, reader, client)
                await passage.forward()
        self._clients.discard(client)
        client.transport.abort()


@dataclass
class _Passage:
    """A `_Passage` is one connection."""

    way: Way
    reader: asyncio.StreamReader
    client: asyncio.StreamWriter
    struck: str = ""
    listens: bool = False

    async def forward(self) -> None:
        far_reader, far = await asyncio.open_connection("127.0.0.1", self.way.to)
        await asyncio.gather(self._there(far), self._back(far_reader))

    async def _there(self, far: asyncio.StreamWriter) -> None:
        way = self.way
        with suppress(OSError):
            while data := await self.reader.read(1 << 16):
                self.listens = self.listens or b"SUBSCRIBE" in data
                if way.strike and way.at in data:
                    self.struck, way.strike = way.strike, ""
                    if self.struck in ("cut", "lost"):
                        self._fail("cut" if self.struck == "cut" else "broken")
                    elif self.struck == "unanswered":
                        way.mode = "unanswered"
                    if self.struck == "lost":
                        break
                await way.wait_while(lambda: way.mode == "cut")
                far.write(data)
                await far.drain()
        far.close()

    async def _back(self, far_reader: asyncio.StreamReader) -> None:
        way = self.way
        with suppress(OSError):
            while data := await far_reader.read(1 << 16):
                struck, self.struck = self.struck, ""
                if struck in ("unanswered", "broken"):
                    self._fail(struck)
                if struck == "broken":
                    break
                await way.wait_while(self._is_held)
                self.client.write(data)
                await self.client.drain()
                if struck == "answered":
                    self._fail("cut")
        self.client.close()

    def _is_held(self) -> bool:
        return self.way.mode in ("cut", "unanswered") or (self.listens and self.way.deaf)

    def _fail(self, mode: str) -> None:
        self.way.set(mode)
        self.way.struck()


@dataclass
class Clock:
    """A `Clock` can be advanced."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@dataclass
class TwoProxies:
    """`TwoProxies` hold one conversation, whose turns go through either of two engines."""

    redis: RedisServer
    key: int
    """A number: proxies with one key are a fleet of their own."""
    away: str = "go_on"
    more: dict[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    engines: list[Engine] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    """The bodies that were forwarded."""

    async def begin(self) -> None:
        self.ways = [Way(self.redis.port) for _ in range(2)]
        for way in self.ways:
            await way.begin()
            chosen = {
                "store": f"redis://127.0.0.1:{way.port}/0",
                "store_key": f"{self.key:064x}",
                "store_away": self.away,
                "database": "memory",
                "max_output_bytes": 4_000,
                "expand_from": 0,
                **self.more,
            }
            self.settings = Settings(**chosen)
            self.engines.append(Engine(EngineSettings.of(self.settings)))
        for store in self.stores:
            store.outage.clock = self.clock
            store.patience = _PATIENCE
        channel = self.stores[0].news.command([])[1]
        await until(lambda: self.redis.client.pubsub_numsub(channel)[0][1] >= 2)
        await until(lambda: all(store.figures.round_trips >= 2 for store in self.stores))
        self._turns: list[Any] = [("user", "Why is it so?")]

    @property
    def stores(self) -> list[SharedStore]:
        return [engine.shared for engine in self.engines if engine.shared is not None]

    async def close(self) -> None:
        for engine in self.engines:
            engine.close()
        for way in self.ways:
            way.close()
        await asyncio.sleep(0.01)

    def hurry(self, where: int) -> None:
        """Shorten the patience before a failure: a late answer counts as none from now on."""
        self.stores[where].patience = SECONDS

    async def turn(self, where: int) -> Accepted:
        """Send a turn; one that is refused is sent again to the other engine."""
        body, number = API.body(self._turns), len(self.bodies)
        incoming = arriving(API, body, API.credential("k"))
        for _ in range(_TRIES):
            accepted = await self.engines[where].process(incoming, self.settings)
            if isinstance(accepted, Accepted):
                break
            where = 1 - where
            await asyncio.sleep(0.005)
        assert isinstance(accepted, Accepted)
        self.bodies.append(accepted.rewritten.body)
        call = ("call", f"toolu_{number}", f"docker logs worker{number}")
        await self._answered(self.engines[where], accepted, call)
        self._turns += [call, ("result", call[1], _log(number))]
        return accepted

    async def _answered(self, engine: Engine, accepted: Accepted, call: tuple[str, str, str]) -> None:
        visible = FORMATS[accepted.request.api.format].visible(Document(API.body([call])))[-1]
        if accepted.prepared is not None:
            made = MadeCall(call[1], "Bash", json.dumps({"command": call[2]}))
            done = Done(b"", visible.calls, visible.text, None, tokens=visible.tokens, made=(made,))
            await engine.expansions.remember(accepted.prepared, done)
        await engine.stores.written()

    async def mend(self, *, settled: bool) -> None:
        """Open all ways again, and wait as long as a provider's answer takes. In this time, a proxy writes
        the rows that may be missing. With `settled`, also wait until all engines know that the failure has
        ended."""
        for way, store in zip(self.ways, self.stores, strict=True):
            way.mend()
            store.patience = _PATIENCE
        await until(lambda: all(store.is_whole or not store.doubtful for store in self.stores))
        if settled:
            await until(lambda: all(store.is_whole for store in self.stores))
            self.clock.ahead += 100

    @property
    def broken(self) -> list[int]:
        """Return the turns whose requests did not begin with the bytes of the turn before."""
        read = [json.loads(body) for body in self.bodies]
        return [
            number
            for number, (earlier, later) in enumerate(itertools.pairwise(read), 1)
            if earlier["tools"] != later["tools"]
            or later["messages"][: len(earlier["messages"])] != earlier["messages"]
        ]


def _log(number: int) -> str:
    lines = (f"10:{each % 60:02} worker{number} did {each * each * 7_919 % 1_000_003}" for each in range(300))
    return "\n".join(lines)


async def until(condition: Callable[[], Any]) -> None:
    limit = time.monotonic() + _LIMIT
    while not condition():
        assert time.monotonic() < limit, "it never was so"
        await asyncio.sleep(0.002)
