"""Conversations, turn by turn, since the start: sizes, counts and names of tools; never content."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penumbra.apis.usage import NOT_READ, Ending
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.cache_miss import Miss

_MOST_SESSIONS = 200
_MOST_TURNS = 4_000
"""Of all sessions together; each also has at most a quarter of them."""
_MOST_RESULTS = 40_000
"""Of all turns together."""
_MOST_CALLS = 4_000
"""Calls of one session that are remembered, to tell when one is made again."""


@dataclass(slots=True)
class ResultRecord:
    """One result, as it was when it was new."""

    number: int
    """Of this process."""
    tool: str
    family: str
    how: str
    stages: tuple[str, ...]
    loss: int
    bytes: tuple[int, int]
    tokens: tuple[int, int]
    secrets: dict[str, int]
    kept: str
    """Why it went as it came; empty if it did not."""
    is_repeated: bool = False
    """The same call gave the same before, and something was left out of that."""
    asked: int = 0
    ref: str = ""

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "number": self.number,
            "tool": self.tool,
            "family": self.family,
            "how": self.how,
            "stages": self.stages,
            "loss": self.loss,
            "bytes": self.bytes,
            "tokens": self.tokens,
            "secrets": self.secrets,
            "kept": self.kept,
            "read_again": self.is_repeated,
            "asked": self.asked,
        }


@dataclass(slots=True)
class Rates:
    """Dollars a token; 0: not known."""

    input: float = 0.0
    cached: float = 0.0
    written: float = 0.0
    output: float = 0.0
    long: Rates | None = None
    """Of requests whose prompt has more than `above` tokens; None: they cost the same."""
    above: int = 0

    def at(self, prompt: int) -> Rates:
        """Return the rates of a request whose prompt has so many tokens."""
        return self.long if self.long is not None and prompt > self.above else self


@dataclass(slots=True, eq=False)
class TurnRecord:
    """One request and what came back."""

    number: int
    time: float
    """Seconds since 1970."""
    session: str
    model: str
    agent: str
    project: str
    host: str
    api: str
    note: str
    results: tuple[ResultRecord, ...]
    carried: int
    """Results that it had, new ones and others."""
    body: tuple[int, int]
    rates: Rates
    amounts: Amounts = field(default_factory=Amounts)
    owed: Amounts | None = None
    """What counts once the provider has taken it."""
    status: str = ""
    """Empty: nothing has come back yet."""
    miss: Miss | None = None
    ending: Ending = NOT_READ
    is_billed: bool = False
    is_observed: bool = False

    def record(self) -> dict[str, Any]:
        """For JSON."""
        miss = self.miss
        return {
            "number": self.number,
            "time": self.time,
            "model": self.model,
            "agent": self.agent,
            "project": self.project,
            "host": self.host,
            "api": self.api,
            "note": self.note,
            "status": self.status,
            "carried": self.carried,
            "body": self.body,
            "amounts": self.amounts.record(),
            "miss": {"cause": miss.cause, "tokens": miss.tokens, "detail": miss.detail} if miss else None,
            "results": [result.record() for result in self.results],
        }


@dataclass(slots=True)
class Session:
    """One conversation since the start."""

    id: str
    """The beginning of its keyed hash, as events have it."""
    agent: str
    project: str
    model: str
    first: float
    last: float
    amounts: Amounts = field(default_factory=Amounts)
    turns: deque[TurnRecord] = field(default_factory=lambda: deque(maxlen=_MOST_TURNS // 4))
    calls: OrderedDict[bytes, int] = field(default_factory=OrderedDict)
    """By call and what came of it: what was lost of that."""

    def record(self) -> dict[str, Any]:
        """For JSON, without its turns."""
        return {
            "id": self.id,
            "agent": self.agent,
            "project": self.project,
            "model": self.model,
            "first": self.first,
            "last": self.last,
            "turns": len(self.turns),
            "amounts": self.amounts.record(),
        }

    def called(self, call: bytes, loss: int) -> int:
        """A call has got a result, both in `call`; what was lost of it when it got the same before."""
        before = self.calls.pop(call, 0)
        self.calls[call] = loss
        while len(self.calls) > _MOST_CALLS:
            self.calls.popitem(last=False)
        return before


class Sessions:
    """Those that were heard of last; the oldest make room."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._turns = 0
        self._listed: deque[TurnRecord] = deque()
        """Turns with results, the oldest first."""
        self._results = 0

    def __iter__(self) -> Iterator[Session]:
        """The latest first."""
        return reversed(self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, name: str) -> Session | None:
        """One of them, if it is still there."""
        return self._sessions.get(name)

    def begin_turn(self, turn: TurnRecord) -> Session:
        """The session of a turn, with it as its latest."""
        session = self._sessions.pop(turn.session, None) or Session(
            turn.session, turn.agent, turn.project, turn.model, turn.time, turn.time
        )
        self._sessions[session.id] = session
        session.agent, session.model, session.last = turn.agent, turn.model, turn.time
        session.project = turn.project
        if len(session.turns) == session.turns.maxlen:
            self._turns -= 1
        session.turns.append(turn)
        self._turns += 1
        while len(self._sessions) > 1 and (len(self._sessions) > _MOST_SESSIONS or self._turns > _MOST_TURNS):
            self._turns -= len(self._sessions.popitem(last=False)[1].turns)
        return session

    def list_results(self, turn: TurnRecord, results: tuple[ResultRecord, ...]) -> None:
        """What was new in a turn; the oldest turns forget theirs."""
        if not results:
            return
        turn.results = results
        self._listed.append(turn)
        self._results += len(results)
        while self._results > _MOST_RESULTS or len(self._listed) > _MOST_TURNS:
            oldest = self._listed.popleft()
            self._results -= len(oldest.results)
            oldest.results = ()

    def result(self, number: int) -> ResultRecord | None:
        """A result by its number."""
        for session in self:
            for turn in session.turns:
                for result in turn.results:
                    if result.number == number:
                        return result
        return None
