"""This module has the threads for work that would block the event loop. Callers share the threads fairly.

Each caller has a queue, whose work is done in order, one piece at a time. The callers at one address never
occupy all threads, so a client can't block others by invented credentials.

The next piece is from the caller with the smallest request, because a small request delays the others
least. Every fourth piece is from the caller that has waited longest, so that large requests also proceed.
Only one large piece runs at a time, because Python computes in one thread at a time.

A request is a `Turn` of its caller and may have several pieces. After its first piece, a request's other
pieces come before the work of other requests, or all requests would end late.
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
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
_THREADS = 3
_SWITCH_SECONDS = 0.0005
"""The number of seconds that a thread may compute while another thread waits."""
_M_ARENA_MAX = -8
"""The constant of `malloc.h`."""
_ELDEST = 4
"""Of this many pieces, one is from the caller that has waited longest."""
_MOST_COMPARED = 64
"""At most this many addresses are compared, and callers at each address: those that have waited longest."""
_LARGE = 1 << 20
"""The size in bytes of the smallest large piece."""
_BEGUN = -1
"""The size of a request's later pieces in comparisons, so that they come first."""
_KNOWN = 64
"""This number of known bytes takes at most the time of one new byte."""
_CLOSED = "the threads have ended"


def cost(new: int, whole: int) -> int:
    """Return the cost, in new bytes, of a request of `whole` bytes, of which `new` are unknown."""
    return new + (whole - new) // _KNOWN


def share_heap() -> None:
    """Make all threads allocate from one heap. With glibc, a thread can't use free memory in the heaps of
    other threads. This function must be called before any thread starts."""
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        # C libraries other than glibc lack `mallopt`.
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


class WorkOwner(NamedTuple):
    """A `WorkOwner` is a caller, whose work has a queue of its own."""

    peer: str
    """The address of the client."""
    credential: bytes
    """Keyed hash of the credentials."""


@dataclass(slots=True)
class _Piece:
    work: Callable[[], Any]
    size: int
    is_large: bool
    done: asyncio.Future[Any]


@dataclass(slots=True)
class _Peer:
    """A `_Peer` has the work of the callers at one address."""

    busy: int = 0
    waiting: OrderedDict[bytes, deque[_Piece]] = field(default_factory=OrderedDict)
    """Waiting pieces of work by credential. Credentials that have waited longest come first."""
    under_way: set[bytes] = field(default_factory=set)

    def next(self, *, eldest: bool, only_small: bool) -> bytes | None:
        """Return the caller with the smallest piece; with `eldest`, the caller that has waited longest.
        Return None if no caller waits."""
        ready = (
            caller
            for caller, pieces in self.waiting.items()
            if caller not in self.under_way and not (only_small and pieces[0].is_large)
        )
        if eldest:
            return next(ready, None)
        return min(islice(ready, _MOST_COMPARED), key=self.size, default=None)

    def size(self, caller: bytes) -> int:
        """Return the cost of a caller's next piece."""
        return self.waiting[caller][0].size


class Workers:
    """A `Workers` has the threads and the queues of one event loop."""

    def __init__(self, threads: int = _THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="penumbra")
        self._most = threads
        self.peers: OrderedDict[str, _Peer] = OrderedDict()
        """Addresses with work. Addresses that have waited longest come first."""
        self._turns = 0
        self._is_large = False
        """True if a large piece is in progress."""
        self._is_closed = False
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Begin work that has no owner at once."""
        return self._threads.submit(work)

    async def run(self, caller: WorkOwner, work: Callable[[], T], *, size: int = 0, begun: bool = False) -> T:
        """Do work in a thread when its turn comes. `size` is the cost in bytes. `begun` is true after the
        first piece of a request. Raises RuntimeError after `close`, and the exceptions of `work`."""
        if self._is_closed:
            raise RuntimeError(_CLOSED)
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
        """Wait for the work in progress, and end the threads. Work that waits for its turn fails."""
        self._is_closed = True
        for peer in self.peers.values():
            for piece in chain.from_iterable(peer.waiting.values()):
                if not piece.done.done():
                    piece.done.set_exception(RuntimeError(_CLOSED))
        self.peers.clear()
        self._threads.shutdown(wait=True)

    def _begin(self) -> None:
        """Begin waiting work in all free threads."""
        while (waiting := self._next()) is not None:
            caller, peer = waiting
            queue = peer.waiting[caller.credential]
            piece = queue.popleft()
            self.peers.move_to_end(caller.peer)
            peer.waiting.move_to_end(caller.credential)
            if not queue:
                del peer.waiting[caller.credential]
            if piece.done.done():
                # The client or the deadline has cancelled the request.
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
    """A `Turn` does the work of one request."""

    def __init__(self, workers: Workers, caller: WorkOwner, size: int) -> None:
        """`size` is the size of the request in bytes."""
        self.caller = caller
        self._workers, self._size = workers, size

    async def do(self, work: Callable[[], T], *, heavy: bool = True, size: int = 0) -> T:
        """Do `heavy` work in a thread, other work at once. `size` is the cost in bytes, by default the size
        of the request."""
        return await self._workers.run(self.caller, work, size=size or self._size) if heavy else work()

    async def go_on(self, work: Callable[[], T], *, heavy: bool) -> T:
        """Do later work of the request, before the work of other requests."""
        return await self._workers.run(self.caller, work, size=self._size, begun=True) if heavy else work()
