"""Proxies with a balancer and one store, and their faults."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from penumbra.store.shared_store import SECONDS
from support.fleet import conversations
from support.fleet.balancer import Balancer, Passage
from support.fleet.conversations import Conversation, Outcome
from support.fleet.redis_server import RedisServer, Relay
from support.mitm import Mitmdump, eventually, stop_all
from support.upstream import Upstream

CAP = "3584"
"""Size in bytes above which results are shortened."""
KEY = "5e" * 32


@dataclass
class Fleet:
    """A `Fleet` has some proxies, their store and their balancer."""

    upstream: Upstream
    folder: Path
    count: int = 2
    options: Mapping[str, str] = field(default_factory=dict)
    starter: Any = None
    patience: float = SECONDS
    """Seconds after which a store counts as slow without a fault. On a busy machine, the store waits for a
    processor, too."""
    begun: int = 0

    def __post_init__(self) -> None:
        self.redis = RedisServer(self.folder / "redis")
        self.relay = Relay(self.redis.port)
        self.passage = Passage(self.folder / "passage", self.redis.port)
        (self.folder / "conf").mkdir(exist_ok=True)
        self.proxies = [self._proxy(number) for number in range(self.count)]
        for proxy in self.proxies:
            self._start(proxy)
            # The proxy is started again at the port that the balancer knows.
            proxy.options = {**proxy.options, "listen_port": str(proxy.port)}
        self.balancer = Balancer(self.folder / "haproxy", [proxy.port for proxy in self.proxies])
        self.upstream.script(conversations.model)

    def _proxy(self, number: int) -> Mitmdump:
        # The first proxy reaches the store through the relay, so that it alone can be cut off.
        store = f"redis://127.0.0.1:{self.relay.port if number == 0 else self.passage.port}/0"
        options = {
            "penumbra_store": store,
            "penumbra_store_key": KEY,
            "penumbra_max_output_bytes": CAP,
            **self.options,
        }
        return Mitmdump(
            self.upstream,
            self.folder / "conf",
            self.folder / f"proxy{number}",
            "reverse",
            options=options,
            starter=self.starter,
        )

    def _start(self, proxy: Mitmdump) -> None:
        proxy.start()
        proxy.command(f"tests.patience {self.patience}")

    def close(self) -> None:
        self.redis.go_on_if_paused()
        self.passage.mend()
        stop_all(self.proxies)
        self.balancer.close()
        self.relay.close()
        self.passage.close()
        self.redis.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def converse(
        self, count: int, turns: int, fault: Callable[[], None] | None = None, pause: float = 0.0
    ) -> Outcome:
        """Run new conversations; the fault happens once a third of their turns is done. Every second
        conversation stays on one running proxy and asks for originals. The others go to any proxy and ask for
        none, since other proxies can't know a question at the moment of the failure. `pause` is the number of
        seconds between turns; with it, the conversations continue until the fault has ended."""
        made = []
        for number in range(self.begun, self.begun + count):
            sticks = number % 2 == 1 and fault is not None
            name = f"{conversations.ASKS}{number}" if sticks or fault is None else f"c{number}"
            made.append(Conversation(name, self.balancer.sticky_port if sticks else self.balancer.port))
        self.begun += count
        number = len(self.upstream.requests)
        over = threading.Event()
        more = {"threads": count, "pause": pause, "over": over} if pause else {}
        worker = threading.Thread(target=conversations.run, args=(made, turns), kwargs=more)
        worker.start()
        if fault is not None:
            third = count * turns // 3
            eventually(lambda: sum(len(one.attempts) for one in made) >= third, 120)
            began = time.monotonic()
            fault()
            length = time.monotonic() - began
            if not pause:
                worker.join()
            # Every proxy shortens new results again from then on.
            time.sleep(min(5.0, 2 * length) + 2.0)
        over.set()
        worker.join()
        return conversations.outcome(made, self.upstream.requests[number:])

    def busy(self) -> float:
        """Return the seconds that the proxies' processes have computed so far."""
        ticks = 0
        for proxy in self.proxies:
            assert proxy.process is not None
            fields = Path(f"/proc/{proxy.process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill_a_proxy(self) -> None:
        """Kill a proxy and start it again a second later."""
        proxy = self.proxies[-1]
        assert proxy.process is not None
        proxy.process.kill()
        proxy.process.wait()
        proxy.process = None
        time.sleep(1)
        self._start(proxy)

    def restart_the_store(self) -> None:
        self._let_all_hear()
        self.redis.kill()
        time.sleep(0.5)
        self.redis.start()
        self.settled()

    def cut_off_a_proxy(self) -> None:
        with self._where_late_is_never(refuses=True):
            self.relay.cut()
            time.sleep(2)
            self.relay.mend()
            self.settled()

    def hold_replies_to_a_proxy(self) -> None:
        """Delay the store's replies to a proxy again and again. The store runs the commands, but the proxy
        learns that too late."""
        with self._where_late_is_never(refuses=True):
            for _ in range(5):
                self.relay.hold_replies()
                time.sleep(0.15)
                self.relay.mend()
                self.settled()

    def let_the_store_stutter(self) -> None:
        """Pause the store for a moment, again and again."""
        with self._where_late_is_never():
            for _ in range(5):
                self.redis.pause()
                time.sleep(0.15)
                self.redis.go_on()
                self.settled()

    def part_the_store_from_all(self, seconds: float = 2.0) -> None:
        """Cut the store off from all proxies. No connection is closed or refused, and sent bytes arrive
        later."""
        with self._where_late_is_never():
            self._let_all_hear()
            self.relay.cut()
            self.passage.cut()
            self.redis.unfill()
            time.sleep(seconds)
            self.passage.mend()
            self.relay.mend()
            self.settled()

    def stop_the_store_for_a_while(self) -> None:
        with self._where_late_is_never():
            self.redis.pause()
            time.sleep(1)
            self.redis.go_on()
            self.settled()

    def fill_the_store(self) -> None:
        self.redis.fill()
        time.sleep(1)
        self.redis.unfill()
        self.settled()

    FAULTS: ClassVar = (
        "kill_a_proxy", "restart_the_store", "cut_off_a_proxy", "hold_replies_to_a_proxy",
        "stop_the_store_for_a_while", "let_the_store_stutter", "part_the_store_from_all", "fill_the_store",
    )  # fmt: skip

    def _let_all_hear(self) -> None:
        """Let the store accept nothing more, until all proxies know the writes that the store has confirmed
        to one of them. Another test covers the moment in between."""
        self.redis.fill()
        # A proxy announces a write after the store has confirmed it, so that the announcement arrives later,
        # too.
        for proxy in (*self.proxies, *self.proxies):
            assert eventually(lambda proxy=proxy: proxy.command("tests.asking") == "0")
        for proxy in self.proxies:
            proxy.command("tests.asking")

    @contextlib.contextmanager
    def _where_late_is_never(self, *, refuses: bool = False) -> Iterator[None]:
        """Treat a store that answers late like one that does not answer, as users' proxies do. With
        `refuses`, such a request goes to another proxy."""
        for proxy in self.proxies:
            proxy.command(f"tests.patience {SECONDS}")
            if refuses:
                proxy.set("penumbra_store_away", "refuse")
        yield
        for proxy in self.proxies:
            proxy.command(f"tests.patience {self.patience}")
            if refuses:
                proxy.set("penumbra_store_away", "go_on")

    def settled(self) -> None:
        """Wait until every proxy reaches its store."""
        assert eventually(lambda: all(_is_whole(proxy.log()) for proxy in self.proxies), 30)


def _is_whole(log: str) -> bool:
    lines = [line for line in log.split("\n") if "PENUMBRA_STORE_UNAVAILABLE" in line]
    return not lines or "the store can be used again" in lines[-1]


@contextlib.contextmanager
def running(folder: Path, count: int, **more: Any) -> Iterator[Fleet]:
    """Start a fleet with a provider of its own."""
    (folder / "upstream").mkdir(parents=True)
    with Upstream(folder / "upstream") as upstream, Fleet(upstream, folder, count, **more) as fleet:
        yield fleet
