"""Work that leaves the event loop, fairly: each caller has its own queue, and their turns go round.

A caller never has more than one piece of work under way, and callers at one address never have all threads: a
small request never waits for a large one of another client, even if that client invents credentials. The
order of one caller's work is that in which it came.

The caller with the smallest request is first among those whose turn it may be: it delays the others least.
Each fourth turn belongs to the caller that has waited longest, so that large requests proceed too.

One large piece is under way at a time: Python computes in one thread, so two of them would take as long, and
all others would wait for both.

A turn is a request, which may be several pieces of work: once it is begun, the others come next. If all
requests went forward piece by piece together, all of them would be done at the very end.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
_THREADS = 3
_SWITCH_SECONDS = 0.0005
"""Seconds that a thread may compute while another waits. At Python's own 5 ms, the event loop would wait that
long again and again, in every request of everybody."""
_M_ARENA_MAX = -8
"""The constant of `malloc.h`."""
_ELDEST = 4
"""Turns that this number divides belong to the caller that has waited longest."""
_MOST_COMPARED = 64
"""So many callers of an address, and addresses, of those who wait for the longest: the choice takes the same
time however many there are."""
_LARGE = 1 << 20
"""Bytes from which on a piece is a large one."""
_BEGUN = -1
"""In the place of its size: the rest of a request that had its turn."""
_KNOWN = 8
"""Bytes that are known cost so much less than new ones, or less still, even where they have to be read again:
what is new may be no JSON that the rest can be known by, and a conversation may have been wound back."""


def is_heavy(new: int, whole: int, most: int) -> bool:
    """Return whether work leaves the event loop: where more than `most` bytes are new to us, or what is known
    is so much more that even that takes long."""
    return new > most or whole > _KNOWN * most


def cost(new: int, whole: int) -> int:
    """Cost of a request of `whole` bytes, `new` of them not read before, in bytes."""
    return new + (whole - new) // _KNOWN


def share_heap() -> None:
    """Have all threads allocate from one heap. glibc gives each its own, and what is free in one is of no use
    to the others; since one thread runs Python at a time, they wait for each other hardly ever. To be called
    before there are threads."""
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        # Other systems' libraries have no such thing.
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


class WorkOwner(NamedTuple):
    """The owner of a piece of work."""

    peer: str
    """The address."""
    credential: bytes


@dataclass(slots=True)
class _Piece:
    work: Callable[[], Any]
    size: int
    is_large: bool
    done: asyncio.Future[Any]


@dataclass(slots=True)
class _Peer:
    """The work of the callers at one address."""

    busy: int = 0
    waiting: OrderedDict[bytes, deque[_Piece]] = field(default_factory=OrderedDict)
    """Waiting pieces of work by credential; the first credential is next."""
    under_way: set[bytes] = field(default_factory=set)

    def next(self, *, eldest: bool, only_small: bool) -> bytes | None:
        """Return the caller whose turn it is. `eldest`: by how long they wait, not by how much they bring."""
        ready = (
            caller
            for caller, pieces in self.waiting.items()
            if caller not in self.under_way and not (only_small and pieces[0].is_large)
        )
        if eldest:
            return next(ready, None)
        return min(islice(ready, _MOST_COMPARED), key=self.size, default=None)

    def size(self, caller: bytes) -> int:
        """Cost of a caller's next work, in bytes."""
        return self.waiting[caller][0].size


class Workers:
    """Threads, and who is next. `run` belongs to one event loop."""

    def __init__(self, threads: int = _THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="penumbra")
        self._most = threads
        self.peers: OrderedDict[str, _Peer] = OrderedDict()
        """Callers with work; the next one first."""
        self._turns = 0
        self._is_large = False
        """A large piece is under way."""
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run work without an owner, at once."""
        return self._threads.submit(work)

    async def run(self, caller: WorkOwner, work: Callable[[], T], *, size: int = 0, begun: bool = False) -> T:
        """Do a caller's work when it is its turn. `size`: what it costs, in bytes; `begun`: it is the rest of
        a request that had its turn."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        peer = self.peers.setdefault(caller.peer, _Peer())
        queue = peer.waiting.setdefault(caller.credential, deque())
        if begun:
            queue.appendleft(_Piece(work, _BEGUN, size >= _LARGE, done))
            peer.waiting.move_to_end(caller.credential, last=False)
            self.peers.move_to_end(caller.peer, last=False)
        else:
            queue.append(_Piece(work, size, size >= _LARGE, done))
        self._begin()
        return await done

    def close(self) -> None:
        """Finish what is under way."""
        self._threads.shutdown(wait=True)

    def _begin(self) -> None:
        """Begin what can be begun."""
        while (waiting := self._next()) is not None:
            caller, peer = waiting
            queue = peer.waiting[caller.credential]
            piece = queue.popleft()
            # After all others.
            self.peers.move_to_end(caller.peer)
            peer.waiting.move_to_end(caller.credential)
            if not queue:
                del peer.waiting[caller.credential]
            if piece.done.done():
                # The request no longer waits for it.
                self._forget(caller.peer, peer)
                continue
            self._turns += piece.size != _BEGUN
            self._is_large |= piece.is_large
            peer.busy += 1
            peer.under_way.add(caller.credential)
            begun = asyncio.wrap_future(self._threads.submit(piece.work))
            begun.add_done_callback(partial(self._end, caller, peer, piece))

    def _next(self) -> tuple[WorkOwner, _Peer] | None:
        if sum(peer.busy for peer in self.peers.values()) >= self._most:
            return None
        eldest = not self._turns % _ELDEST
        best: tuple[WorkOwner, _Peer] | None = None
        for address, peer in islice(self.peers.items(), _MOST_COMPARED):
            if peer.busy >= self._most - 1:
                continue
            if (credential := peer.next(eldest=eldest, only_small=self._is_large)) is None:
                continue
            if best is None or peer.size(credential) < best[1].size(best[0].credential):
                best = WorkOwner(address, credential), peer
            if eldest:
                break
        return best

    def _end(self, caller: WorkOwner, peer: _Peer, piece: _Piece, ended: asyncio.Future[Any]) -> None:
        if piece.is_large:
            self._is_large = False
        peer.busy -= 1
        peer.under_way.discard(caller.credential)
        self._forget(caller.peer, peer)
        if ended.cancelled():
            piece.done.cancel()
        elif not piece.done.done() and (error := ended.exception()) is not None:
            piece.done.set_exception(error)
        elif not piece.done.done():
            piece.done.set_result(ended.result())
        self._begin()

    def _forget(self, address: str, peer: _Peer) -> None:
        if not peer.busy and not peer.waiting:
            self.peers.pop(address, None)


class Turn:
    """The work of one request, which is done when it is its caller's turn."""

    def __init__(self, workers: Workers, caller: WorkOwner, size: int) -> None:
        """`size`: of the request, in bytes."""
        self.caller = caller
        self._workers, self._size = workers, size

    async def do(self, work: Callable[[], T], *, heavy: bool = True, size: int = 0) -> T:
        """Do work away from the event loop, or at once where it is not `heavy`. `size`: its cost in bytes;
        0: that of the whole request."""
        return await self._workers.run(self.caller, work, size=size or self._size) if heavy else work()

    async def go_on(self, work: Callable[[], T], *, heavy: bool) -> T:
        """Do further work of a request that had its turn, before the work of other requests."""
        return await self._workers.run(self.caller, work, size=self._size, begun=True) if heavy else work()
