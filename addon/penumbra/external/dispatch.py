"""This module asks a strategy to shorten many texts at once, within the limits of the process and a
deadline.

stored response -> worth its price? -> one call for all who ask the same -> clean -> stored

A call continues when nobody waits for it any more, since the response costs money and is stored for the next
request. The outcome is a text or the kind of the failure.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from cachetools import LRUCache

from penumbra import errors
from penumbra.compress import token_estimate
from penumbra.compress.critical_lines import is_critical, normal
from penumbra.compress.size import size
from penumbra.external.strategies import Answer, NoResponse, Strategy, Task, strategy_rules
from penumbra.linear import LinearText
from penumbra.metrics.amounts import ExternalMetrics, price, table
from penumbra.redaction import RedactionError
from penumbra.store.records import Compressed

Clock = Callable[[], float]


@dataclass(slots=True)
class Breaker:
    """After `limit` consecutive failures, a `Breaker` stops calls to a service for `pause` seconds. A failure
    after the pause begins another pause. A response resets the count."""

    limit: int = 5
    pause: float = 30.0
    clock: Clock = time.monotonic
    _failures: int = 0
    _until: float = -math.inf

    @property
    def is_open(self) -> bool:
        """Return whether a pause is in progress."""
        return self.clock() < self._until

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= self.limit:
            self._until = self.clock() + self.pause


@dataclass(frozen=True, slots=True)
class Model:
    """A `Model` is the model that reads a result. `read` and `write` are prices of the model's prompt cache,
    as fractions of an input token's price."""

    model: str = ""
    read: float = 0.1
    write: float = 1.0


def cost(model: str, input_tokens: int, output_tokens: int) -> float:
    """Return the price of a call in dollars; 0 if unknown."""
    rate = price(model)
    if rate is None:
        return 0.0
    return input_tokens * rate.input + output_tokens * rate.output


def saving(reader: Model, saved: int) -> float | None:
    """Return what `saved` tokens would cost in dollars: one write to the cache, and one read in each further
    request. Return None if the price is unknown."""
    rate = price(reader.model)
    if rate is None:
        return None
    turns = float(table()["turns"])
    return saved * rate.input * (reader.write + turns * reader.read)


def worth_it(compressor: str, reader: Model, text_tokens: int, ratio: float | None) -> bool:
    """Return whether shortening a text probably saves more than it costs; True if a price is unknown.
    `compressor` is a model's name."""
    left = int(text_tokens * (ratio if ratio is not None else table()["share"]))
    saved = saving(reader, text_tokens - left)
    return saved is None or price(compressor) is None or cost(compressor, text_tokens, left) < saved


_LINE_LIMIT = 2_000
"""A line with more characters counts as data and not as a message."""
_SEARCHES = 200
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and marks that reverse the order of letters."""
PUT_BACK = "[Lines of the original that must not be missing:]"


@cache
def _markers(part: str) -> Any:
    """Return one pattern for all markers: for `whole` markers, or for the `start` of markers."""
    return LinearText("|".join(f"(?:{entry[part]})" for entry in strategy_rules()["markers"]))


def check_response(response: str, text: str) -> None:
    """Raise NoResponse if a response has markers or control characters that are not in the text."""
    if not set(_CONTROL.findall(response)) <= set(text):
        raise NoResponse("control characters")
    wholes, starts = _markers("whole"), _markers("start")
    own = frozenset(match.group() for match in wholes.finditer(text))
    at = 0
    for match in wholes.finditer(response):
        if match.group() not in own or starts.search(response[at : match.start()]):
            raise NoResponse("forged markers")
        at = match.end()
    if starts.search(response[at:]):
        raise NoResponse("forged markers")


def with_critical(response: str, text: str) -> str:
    """Return the response, with critical lines of the text that it lacks at its end."""
    in_response = Counter(map(normal, response.split("\n")))
    joined = normal(response)
    missing: list[str] = []
    searches = 0
    for line in text.split("\n"):
        key = normal(line)
        if in_response[key] > 0:
            in_response[key] -= 1
            continue
        if not key or len(line) > _LINE_LIMIT or not is_critical(line):
            continue
        searches += 1
        if searches > _SEARCHES or key not in joined:
            missing.append(line)
    return "\n".join([response.rstrip("\n"), PUT_BACK, *dict.fromkeys(missing)]) if missing else response


def response_key(secret: bytes, strategy: Strategy, task: Task) -> bytes:
    """Return the key (20 bytes) of the response to a task. The key depends on the strategy, the caller and
    the whole task. `secret` is the installation's key."""
    digest = hashlib.blake2b(key=secret[:64], digest_size=20, person=b"penumbra short")
    owner = task.credential.owner.hex() if task.credential else ""
    owner += task.scope.hex()
    parts = (
        strategy.name,
        strategy.identity,
        repr(task.ratio),
        owner,
        task.tool,
        task.intent,
        task.question,
        task.text,
    )
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


_TELLING = frozenset({"timeout", "connection", "status", "malformed", "refused", "error"})
"""Kinds of failures of the service itself, and not of one text."""
_MOST_BREAKERS = 1_000
"""Greatest number of breakers. There is a breaker for each service, and for each client whose own credential
pays."""
_log = logging.getLogger(__name__)
Work = Callable[[Callable[[], Any]], Awaitable[Any]]
"""A function that runs work outside of the event loop when the caller's turn comes."""


@dataclass(frozen=True, slots=True)
class Job:
    """A `Job` is a text to be shortened, and what is needed to judge the response."""

    task: Task
    instead: str
    """The text that is sent without a response. A response must be smaller."""
    overhead: str = ""
    """The text that precedes the response."""
    reader: Model = field(default_factory=Model)
    """The model that reads the result."""
    redact: Callable[[str], str] = str
    """The function that redacts the response. Raises RedactionError."""
    work: Work = asyncio.to_thread
    """The function that runs `redact` outside of the event loop."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An `Outcome` is the shorter text, or the reason why there is none."""

    text: str | None
    how: str
    """`hit` for a stored text, `miss` for a new text, or the reason why there is no text."""


@dataclass(slots=True)
class _Flight:
    """A `_Flight` is a call in progress, with the number of callers that wait for it."""

    task: asyncio.Task[str | NoResponse] | None = None
    waiters: int = 0


class Shared:
    """A `Shared` is the state that all dispatchers of a process share: the breakers of services, and the
    places for calls. Each call occupies a place for at least `seconds`: 10 places allow 20 calls in a
    second."""

    def __init__(self, places: int = 10, seconds: float = 0.5) -> None:
        self.places = asyncio.Semaphore(places)
        self.seconds = seconds
        self._breakers: LRUCache[bytes, Breaker] = LRUCache(_MOST_BREAKERS)

    def breaker(self, strategy: Strategy, task: Task) -> Breaker:
        """Return the breaker for calls of a strategy with the task's credential."""
        owner = task.credential.owner if task.credential else b""
        name = hashlib.blake2b(f"{strategy.name} {strategy.identity}".encode() + owner, digest_size=16)
        breaker: Breaker = self._breakers.setdefault(name.digest(), Breaker())
        return breaker


PROCESS = Shared()
"""State of all dispatchers of this process."""


class Dispatcher:
    """A `Dispatcher` asks strategies for texts. `secret` is the installation's key."""

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
        self.flights: dict[bytes, _Flight] = {}
        """The calls in progress, by the keys of their responses."""

    async def outcomes(
        self, strategy: Strategy, asks: Sequence[Job], deadline: float, *, cost_check: bool = True
    ) -> list[Outcome]:
        """Return the outcome of each `Job`, in order. Responses are awaited for `deadline` seconds."""
        end = asyncio.get_running_loop().time() + deadline
        keys = [response_key(self._secret, strategy, ask.task) for ask in asks]
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
        for flight in self.flights.values():
            if flight.task is not None:
                flight.task.cancel()

    def _count(self, outcome: Outcome) -> None:
        if outcome.text is None:
            self.metrics.failures[outcome.how] += 1
        elif outcome.how == "hit":
            self.metrics.hits += 1
        else:
            self.metrics.misses += 1

    async def _judged(self, text: str, ask: Job, how: str = "hit") -> Outcome:
        try:
            # The response was redacted for another caller, or by earlier rules.
            return _judged(await ask.work(partial(ask.redact, text)), ask, how)
        except RedactionError:
            return Outcome(None, "redaction")

    async def _asked(
        self, strategy: Strategy, ask: Job, name: bytes, end: float, cost_check: bool
    ) -> Outcome:
        if not strategy.fits(ask.task):
            return Outcome(None, "no credential")
        dear = cost_check and not worth_it(
            strategy.model, ask.reader, token_estimate.estimate(ask.task.text), ask.task.ratio
        )
        if dear:
            return Outcome(None, "not worth its price")
        text = await self._awaited(self._flight(strategy, ask, name), end)
        if isinstance(text, NoResponse):
            return Outcome(None, text.kind)
        return await self._judged(text, ask, "miss")

    def _flight(self, strategy: Strategy, ask: Job, name: bytes) -> _Flight:
        """Return the call in progress for this response, or begin a call. Count the caller as waiting."""
        flight = self.flights.get(name)
        if flight is not None:
            flight.waiters += 1
            self.metrics.shared += 1
            return flight
        # The caller is counted first, since an eager task may begin the call before the next line.
        flight = self.flights[name] = _Flight(waiters=1)
        flight.task = asyncio.create_task(self._fly(flight, strategy, ask, name))
        return flight

    async def _awaited(self, flight: _Flight, end: float) -> str | NoResponse:
        assert flight.task is not None
        try:
            left = end - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait([flight.task], timeout=max(0.0, left))
        finally:
            flight.waiters -= 1
        if not done:
            return NoResponse("deadline")
        return NoResponse("cancelled") if flight.task.cancelled() else flight.task.result()

    async def _fly(self, flight: _Flight, strategy: Strategy, ask: Job, name: bytes) -> str | NoResponse:
        try:
            # Another call may have stored this response after the caller read the store.
            stored = await self._compressed.get([name])
            if name in stored:
                return stored[name]
            text = await self._cleaned(await self._call(flight, strategy, ask.task), strategy, ask)
            await self._compressed.add({name: text})
            return text
        except NoResponse as failure:
            return failure
        except Exception as error:
            _log.warning("Penumbra: strategy %s failed: %s", strategy.name, errors.place(error))
            return NoResponse("error")
        finally:
            del self.flights[name]

    async def _call(self, flight: _Flight, strategy: Strategy, task: Task) -> Answer:
        breaker, shared = self._shared.breaker(strategy, task), self._shared
        await shared.places.acquire()
        loop = asyncio.get_running_loop()
        release = loop.time()
        try:
            # The breaker is checked after the wait for a place, so that no waiting call reaches a failed
            # service.
            if breaker.is_open:
                raise NoResponse("breaker open")
            if flight.waiters == 0:
                raise NoResponse("nobody waits")
            release += shared.seconds
            self.metrics.calls += 1
            response = await strategy.shorten(task)
        except Exception as failure:
            if not isinstance(failure, NoResponse) or failure.kind in _TELLING:
                breaker.failed()
            raise
        finally:
            loop.call_at(release, shared.places.release)
        breaker.succeeded()
        self._bill(strategy, task, response)
        return response

    def _bill(self, strategy: Strategy, task: Task, response: Answer) -> None:
        if not strategy.model:
            return
        spent = (
            response.input_tokens or token_estimate.estimate(task.text),
            response.output_tokens or token_estimate.estimate(response.text),
        )
        self.metrics.input_tokens += spent[0]
        self.metrics.output_tokens += spent[1]
        self.metrics.dollars += cost(strategy.model, *spent)

    async def _cleaned(self, response: Answer, strategy: Strategy, ask: Job) -> str:
        """Return the checked and redacted response; empty if it is not shorter than the text. Raises
        NoResponse."""
        if not response.text.strip():
            raise NoResponse("empty")
        try:
            text = await ask.work(partial(_clean, response.text, strategy.protects, ask))
        except RedactionError:
            raise NoResponse("redaction") from None
        return text if size(text) < size(ask.task.text) else ""


def _clean(text: str, protects: bool, ask: Job) -> str:
    if size(text) >= size(ask.task.text):
        return ""
    check_response(text, ask.task.text)
    if protects:
        text = with_critical(text, ask.task.text)
    return ask.redact(text)


def _judged(text: str, ask: Job, how: str) -> Outcome:
    """Return the text as an outcome if, with its prefix, the text has fewer bytes and estimated tokens."""
    if not text.strip():
        return Outcome(None, "not smaller")
    whole = ask.overhead + text
    smaller = size(whole) < size(ask.instead) and token_estimate.estimate(whole) < token_estimate.estimate(
        ask.instead
    )
    return Outcome(text, how) if smaller else Outcome(None, "not smaller")
