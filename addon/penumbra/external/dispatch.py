"""Asks a strategy about many texts at once, within the limits of the process and a deadline.

    stored response -> worth its price? -> one call for all who ask the same -> clean -> kept for long

A call goes on when those who wait for it give up: its response is paid for, and the next who asks gets
it. What came of it is never an exception: a text, or the kind of the failure.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penumbra import errors
from penumbra.compress import token_estimate
from penumbra.compress.size import size
from penumbra.external import prices, response_check
from penumbra.external.limiter import Breaker, Limits
from penumbra.external.response_key import key
from penumbra.external.strategy import Failure, Response, Strategy, Task
from penumbra.metrics.totals import ExternalMetrics
from penumbra.redaction import RedactionError
from penumbra.store.records import Compressed

_TELLING = frozenset({"timeout", "connection", "status", "malformed", "refused", "error"})
"""Failures that say something about the service and not only about one text."""
_MOST_BREAKERS = 1_000
"""There is one for each client whose own credential is spent."""
_log = logging.getLogger(__name__)


Work = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Does a piece of work away from the event loop, when it is its caller's turn."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One text, and what its response is measured by."""

    task: Task
    instead: str
    """What is forwarded without a response; a response must be smaller."""
    overhead: str = ""
    """What will stand in front of the response."""
    reader: prices.Reader = field(default_factory=prices.Reader)
    """Who the result is for."""
    redact: Callable[[str], str] = str
    """Takes secrets out of the response. Raises RedactionError."""
    work: Work = asyncio.to_thread
    """Where that is done."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of asking."""

    text: str | None
    how: str
    """`hit` (stored), `miss` (asked), or why there is no text."""


@dataclass(slots=True)
class _Flight:
    """A call under way, and how many wait for it."""

    task: asyncio.Task[str | Failure] | None = None
    waiters: int = 0


@dataclass(slots=True)
class Shared:
    """What all dispatchers of a process have in common."""

    limits: Limits = field(default_factory=Limits)
    breakers: dict[bytes, Breaker] = field(default_factory=dict)

    def breaker(self, strategy: Strategy, task: Task) -> Breaker:
        """The breaker of a service; a client's own credential may fail without the others'."""
        owner = task.credential.owner if task.credential else b""
        name = hashlib.blake2b(f"{strategy.name} {strategy.identity}".encode() + owner, digest_size=16)
        while len(self.breakers) >= _MOST_BREAKERS and name.digest() not in self.breakers:
            del self.breakers[next(iter(self.breakers))]
        return self.breakers.setdefault(name.digest(), Breaker())


_PROCESS = Shared()
_bounds = (0, 0)


def of_process(at_once: int, a_second: int) -> Shared:
    """What all dispatchers of this process have in common, with these bounds from now on."""
    global _bounds
    if (at_once, a_second) != _bounds:
        _bounds = (at_once, a_second)
        _PROCESS.limits = Limits(at_once, a_second, a_second)
    return _PROCESS


class Dispatcher:
    """`secret` is the installation's key."""

    def __init__(
        self,
        secret: bytes,
        compressed: Compressed,
        metrics: ExternalMetrics | None = None,
        shared: Shared | None = None,
    ) -> None:
        self.metrics = metrics or ExternalMetrics()
        self._secret = secret
        self._compressed = compressed
        self._shared = shared or Shared()
        self._flights: dict[bytes, _Flight] = {}

    async def outcomes(
        self, strategy: Strategy, asks: Sequence[Ask], deadline: float, *, cost_check: bool = True
    ) -> list[Outcome]:
        """What came of each, in order, after at most `deadline` seconds."""
        end = asyncio.get_running_loop().time() + deadline
        keys = [key(self._secret, strategy, ask.task) for ask in asks]
        stored = await self._compressed.get(keys)
        waiting = [
            self._judged(stored[name], ask)
            if name in stored
            else self._asked(strategy, ask, name, end, cost_check)
            for name, ask in zip(keys, asks, strict=True)
        ]
        outcomes = await asyncio.gather(*waiting)
        for outcome in outcomes:
            self._count(outcome)
        return outcomes

    def cancel(self) -> None:
        """End all calls."""
        for flight in self._flights.values():
            if flight.task is not None:
                flight.task.cancel()

    def _count(self, outcome: Outcome) -> None:
        if outcome.text is None:
            self.metrics.failures[outcome.how] += 1
        elif outcome.how == "hit":
            self.metrics.hits += 1
        else:
            self.metrics.misses += 1

    async def _judged(self, text: str, ask: Ask, how: str = "hit") -> Outcome:
        try:
            # The rules may have grown since, and whoever asked first may have had others.
            return _judged(await ask.work(partial(ask.redact, text)), ask, how)
        except RedactionError:
            return Outcome(None, "redaction")

    async def _asked(
        self, strategy: Strategy, ask: Ask, name: bytes, end: float, cost_check: bool
    ) -> Outcome:
        if not strategy.fits(ask.task):
            return Outcome(None, "no credential")
        dear = cost_check and not prices.worth_it(
            strategy.model, ask.reader, token_estimate.estimate(ask.task.text), ask.task.ratio
        )
        if dear:
            return Outcome(None, "not worth its price")
        text = await self._awaited(self._flight(strategy, ask, name), end)
        if isinstance(text, Failure):
            return Outcome(None, text.kind)
        return await self._judged(text, ask, "miss")

    def _flight(self, strategy: Strategy, ask: Ask, name: bytes) -> _Flight:
        """The call that is under way for this, or a new one, with one more who waits for it."""
        flight = self._flights.get(name)
        if flight is not None:
            flight.waiters += 1
            self.metrics.shared += 1
            return flight
        # Somebody waits from the start: where tasks are eager, the call begins before the next line.
        flight = self._flights[name] = _Flight(waiters=1)
        flight.task = asyncio.create_task(self._fly(flight, strategy, ask, name))
        return flight

    async def _awaited(self, flight: _Flight, end: float) -> str | Failure:
        assert flight.task is not None
        try:
            left = end - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait([flight.task], timeout=max(0.0, left))
        finally:
            flight.waiters -= 1
        if not done:
            return Failure("deadline")
        return Failure("cancelled") if flight.task.cancelled() else flight.task.result()

    async def _fly(self, flight: _Flight, strategy: Strategy, ask: Ask, name: bytes) -> str | Failure:
        try:
            # Another call for the same may have ended between its caller's look into the store and here.
            stored = await self._compressed.get([name])
            if name in stored:
                return stored[name]
            text = await self._cleaned(await self._call(flight, strategy, ask.task), strategy, ask)
            await self._compressed.add({name: text})
            return text
        except Failure as failure:
            return failure
        except Exception as error:
            _log.warning("Penumbra: strategy %s failed: %s", strategy.name, errors.place(error))
            return Failure("error")
        finally:
            del self._flights[name]

    async def _call(self, flight: _Flight, strategy: Strategy, task: Task) -> Response:
        breaker, limits = self._shared.breaker(strategy, task), self._shared.limits
        async with limits.place():
            # Asked for in the place, so that a queue before a service that is down empties at once.
            if (admission := breaker.admit()) is None:
                raise Failure("breaker open")
            try:
                await limits.token()
                if flight.waiters == 0:
                    raise Failure("nobody waits")
                self.metrics.calls += 1
                response = await strategy.shorten(task)
            except Failure as failure:
                (breaker.failed if failure.kind in _TELLING else breaker.abandoned)(admission)
                raise
            except asyncio.CancelledError:
                breaker.abandoned(admission)
                raise
            except Exception:
                breaker.failed(admission)
                raise
            breaker.succeeded(admission)
        self._bill(strategy, task, response)
        return response

    def _bill(self, strategy: Strategy, task: Task, response: Response) -> None:
        if not strategy.model:
            return
        spent = (
            response.input_tokens or token_estimate.estimate(task.text),
            response.output_tokens or token_estimate.estimate(response.text),
        )
        self.metrics.input_tokens += spent[0]
        self.metrics.output_tokens += spent[1]
        self.metrics.dollars += prices.cost(strategy.model, *spent)

    async def _cleaned(self, response: Response, strategy: Strategy, ask: Ask) -> str:
        """The response as it may be forwarded; empty if it is no shorter than the text."""
        if not response.text.strip():
            raise Failure("empty")
        try:
            text = await ask.work(partial(_clean, response.text, strategy.protects, ask))
        except RedactionError:
            raise Failure("redaction") from None
        return text if size(text) < size(ask.task.text) else ""


def _clean(text: str, protects: bool, ask: Ask) -> str:
    if size(text) >= size(ask.task.text):
        return ""
    response_check.check(text, ask.task.text)
    if protects:
        text = response_check.with_critical(text, ask.task.text)
    return ask.redact(text)


def _judged(text: str, ask: Ask, how: str) -> Outcome:
    """Kept only if it is smaller in bytes and in estimated tokens, all counted."""
    if not text.strip():
        return Outcome(None, "not smaller")
    whole = ask.overhead + text
    smaller = size(whole) < size(ask.instead) and token_estimate.estimate(whole) < token_estimate.estimate(
        ask.instead
    )
    return Outcome(text, how) if smaller else Outcome(None, "not smaller")
