"""A store that fails during conversations. The disk is full; the file is locked, removed, damaged or of
another release; the proxy is killed or shares the file with another proxy; the clock is wrong."""

import contextlib
import os
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penumbra.store.database_file import VERSION
from support.faults.arena import Arena, left
from support.faults.counted import Counted
from support.fleet import conversations
from support.fleet.conversations import Conversation, outcome, run
from support.mitm import Mitmdump, eventually

Fault = Callable[[Mitmdump, Path], AbstractContextManager[None]]
"""A fault is a context manager for a proxy and its database."""
_TURNS = 3
"""Turns in each of the three parts: before, during and after the failure."""


def goes_on(
    arena: Arena, fault: Fault, *, database: Path | None = None, count: int = 6, **more: Any
) -> Counted:
    """Run conversations that begin before a failure and continue during and after it. The proxy is restarted
    before the failure, so that its memory is empty, and after it, so that the proxy knows only written
    rows."""
    arena.upstream.script(conversations.model)
    name = f"{getattr(fault, '__name__', 'fault')}-{len(arena.upstream.requests)}"
    file = database or arena.folder / name / "penumbra.sqlite"
    options = {"penumbra_database": str(file)}
    proxy = arena.proxy(name=name, options=options, **more)
    begun = len(arena.upstream.requests)
    # With long names in each line, an original would not fit into one result.
    made = _conversations(proxy, count, f"{begun}-")
    run(made, _TURNS)
    proxy.options = {**proxy.options, "listen_port": str(proxy.port)}
    proxy.restart()
    run(_conversations(proxy, 4, f"{begun}w"), 2)
    before = arena.there(proxy)
    with fault(proxy, file):
        run(made, _TURNS)
        later = _conversations(proxy, count, f"{begun}l")
        run(later, _TURNS)
    run([*made, *later], _TURNS)
    there = left(proxy, before)
    proxy.restart()
    run([*made, *later], _TURNS)
    arena.stop(name)
    return counted(arena, [*made, *later], begun) + there


def counted(arena: Arena, made: list[Conversation], begun: int) -> Counted:
    """Count the requests of these conversations that the provider has got since then."""
    found = outcome(made, arena.upstream.requests[begun:])
    return Counted(
        requests=found.turns + found.retried,
        answered=found.turns,
        otherwise=found.retried,
        broken=found.broken,
        mixed=found.wrong + sum(_is_another_s(one) for one in made),
        notes=(*found.where, *(f"expansions {found.expansions}",)),
    )


def _conversations(proxy: Mitmdump, count: int, name: str) -> list[Conversation]:
    kinds = (conversations.ASKS, "c")
    return [Conversation(f"{kinds[number % 2]}{name}{number}", proxy.port) for number in range(count)]


def _is_another_s(one: Conversation) -> bool:
    """Return whether the responses have a call of another conversation."""
    calls = [
        block["input"]["command"]
        for message in one.messages
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    return any(not call.startswith(f"cat {one.name}-") for call in calls)


@contextlib.contextmanager
def locked(proxy: Mitmdump, file: Path) -> Iterator[None]:
    """Another program holds a write transaction."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextlib.contextmanager
def full(proxy: Mitmdump, file: Path) -> Iterator[None]:
    """The disk of the file is full."""
    stopper = file.parent / "stopper"
    with stopper.open("wb", 0) as filled, contextlib.suppress(OSError):
        while True:
            filled.write(b"\0" * 1024)
    yield
    stopper.unlink()


@contextlib.contextmanager
def full_at_the_start(proxy: Mitmdump, file: Path) -> Iterator[None]:
    """The proxy is started on a disk that is full."""
    proxy.stop()
    with full(proxy, file):
        proxy.start()
        yield


@contextlib.contextmanager
def cannot_grow(proxy: Mitmdump, file: Path) -> Iterator[None]:
    """No file of the proxy may grow beyond a size, as on a full disk. The log stays below this size."""
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA wal_checkpoint").fetchall()
    _limit(proxy, max(64_000, file.stat().st_size))
    yield
    _limit(proxy, -1)


def _limit(proxy: Mitmdump, size: int) -> None:
    assert proxy.process is not None
    import resource

    soft = resource.RLIM_INFINITY if size < 0 else size
    resource.prlimit(proxy.process.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))


@contextlib.contextmanager
def removed(proxy: Mitmdump, file: Path) -> Iterator[None]:
    for one in file.parent.glob(f"{file.name}*"):
        one.unlink()
    yield


@contextlib.contextmanager
def damaged(proxy: Mitmdump, file: Path) -> Iterator[None]:
    """A sixteenth of the pages of the open file and of its log is overwritten."""
    for end in ("", "-wal"):
        part = Path(f"{file}{end}")
        if not part.exists():
            continue
        with part.open("r+b") as data:
            for at in range(8 * 4096, part.stat().st_size - 4096, 16 * 4096):
                data.seek(at)
                data.write(os.urandom(4096))
    yield


def _versioned(proxy: Mitmdump, file: Path, version: int) -> None:
    proxy.stop()
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute(f"PRAGMA user_version = {version}")
    proxy.start()


@contextlib.contextmanager
def of_an_older_release(proxy: Mitmdump, file: Path) -> Iterator[None]:
    _versioned(proxy, file, VERSION - 1)
    yield


@contextlib.contextmanager
def of_a_newer_release(proxy: Mitmdump, file: Path) -> Iterator[None]:
    _versioned(proxy, file, VERSION + 1)
    yield


@contextlib.contextmanager
def clock_jumps(proxy: Mitmdump, file: Path) -> Iterator[None]:
    """The clock jumps forty days ahead, so that all rows expire, and then more than a year back."""
    _set_clock(file, 40)
    yield
    _set_clock(file, -400)


def _set_clock(file: Path, days: int) -> None:
    (file.parent / "clock").write_text(str(days * 86_400))


_CLOCK = """
import os, time
_real = time.time
def _wrong():
    try:
        with open(os.environ["CLOCK_OFFSET"]) as file:
            return _real() + float(file.read())
    except (OSError, ValueError):
        return _real()
time.time = _wrong
"""


def wrong_clock(folder: Path) -> dict[str, str]:
    """Return the environment of a Python whose clock follows the file `clock`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_CLOCK)
    return {"PYTHONPATH": str(folder), "CLOCK_OFFSET": str(folder / "clock")}


@contextlib.contextmanager
def settings_change(proxy: Mitmdump, file: Path) -> Iterator[None]:
    """Options and a user's rules change again and again while requests are under way, and the rules are half
    written at times."""
    over = threading.Event()
    rules = file.parent / "rules" / "commands"
    rules.mkdir(parents=True)
    proxy.set("penumbra_rules", str(rules.parent))
    options = (("penumbra_ledger_ttl", ("20d", "21d")), ("penumbra_max_output_bytes", ("3584", "3072")))
    options += (("penumbra_mode", ("standard", "aggressive")),)

    def change() -> None:
        number = 0
        while not over.wait(0.05):
            number += 1
            (rules / "own.yaml").write_text(_RULES[: len(_RULES) // (1 + number % 2)])
            for name, values in options:
                proxy.set(name, values[number % 2])

    changing = threading.Thread(target=change)
    changing.start()
    yield
    over.set()
    changing.join()
    (rules / "own.yaml").unlink()


_RULES = """commands:
- name: own
  match: [own]
"""


def is_killed(arena: Arena, kills: int = 8, count: int = 8) -> Counted:
    """Kill the proxy while conversations go on, and start it again at once. Clients ask again where they got
    no answer."""
    arena.upstream.script(conversations.model)
    proxy = arena.proxy(name="killed")
    proxy.options = {**proxy.options, "listen_port": str(proxy.port)}
    begun, made = len(arena.upstream.requests), _conversations(proxy, count, "killed")
    worker = threading.Thread(target=run, args=(made, 2 * kills))
    worker.start()
    for number in range(kills):
        at = (number + 1) * count * 2 * kills // (kills + 1)
        eventually(lambda at=at: sum(len(one.attempts) for one in made) >= at, 120)
        assert proxy.process is not None
        proxy.process.kill()
        proxy.process.wait()
        proxy.process = None
        proxy.start()
    worker.join()
    arena.stop("killed")
    found = counted(arena, made, begun)
    return replace(found, failed=found.otherwise, otherwise=0)


@dataclass
class Hopping(Conversation):
    """A `Hopping` conversation sends its turns to the proxies alternately."""

    ports: tuple[int, ...] = ()

    def say(self, number: int) -> None:
        self.port = self.ports[(number + number // 3) % len(self.ports)]
        super().say(number)


def two_on_one_file(arena: Arena, count: int = 8, turns: int = 9) -> Counted:
    """Run conversations whose turns land on either of two proxies, one of which is restarted in the
    middle."""
    arena.upstream.script(conversations.model)
    file = arena.folder / "shared" / "penumbra.sqlite"
    names = ("one of two", "two of two")
    proxies = [arena.proxy(name=name, options={"penumbra_database": str(file)}) for name in names]
    ports = tuple(proxy.port for proxy in proxies)
    made: list[Conversation] = [
        Hopping(f"{conversations.ASKS if number % 2 else 'c'}hops{number}", 0, ports=ports)
        for number in range(count)
    ]
    begun = len(arena.upstream.requests)
    run(made, turns)
    proxies[0].options = {**proxies[0].options, "listen_port": str(ports[0])}
    proxies[0].restart()
    run(made, turns)
    for name in names:
        arena.stop(name)
    return counted(arena, made, begun)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Make a folder on a disk of 8 MB; return None if that is not permitted."""
    folder.mkdir(parents=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)], capture_output=True)
    try:
        yield folder if made.returncode == 0 else None
    finally:
        if made.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)
