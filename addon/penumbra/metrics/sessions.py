"""This module stores the conversations since the start, turn by turn, without their content."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from penumbra.apis.usage import NOT_READ, Ending
from penumbra.metrics.amounts import Amounts, Rates
from penumbra.metrics.cache_miss import Miss

_MOST_SESSIONS = 200
_MOST_TURNS = 4_000
"""The greatest number of turns of all sessions together. One session has at most a quarter of this number."""
MOST_RESULTS = 40_000
_MOST_CALLS = 4_000
"""The greatest number of calls of a session that are stored to recognise repeated calls."""


@dataclass(slots=True)
class ResultRecord:
    number: int
    tool: str
    family: str
    how: str
    stages: tuple[str, ...]
    loss: int
    bytes: tuple[int, int]
    tokens: tuple[int, int]
    secrets: dict[str, int]
    kept: str
    """Reason why the result is unchanged; empty if it was changed."""
    read_again: bool = False
    """True if the same call was made before and its result was shortened."""
    asked: int = 0
    ref: str = ""

    def record(self) -> dict[str, Any]:
        return {member.name: getattr(self, member.name) for member in fields(self) if member.name != "ref"}


@dataclass(slots=True, eq=False)
class TurnRecord:
    number: int
    time: float
    session: str
    model: str
    agent: str
    project: str
    host: str
    api: str
    note: str
    results: tuple[ResultRecord, ...]
    carried: int
    """The number of results in the request, including earlier results."""
    body: tuple[int, int]
    rates: Rates
    amounts: Amounts = field(default_factory=Amounts)
    if_taken: Amounts | None = None
    """Amounts that count when the provider accepts the request; None afterwards."""
    status: str = ""
    """Outcome for display; empty before the response."""
    miss: Miss | None = None
    ending: Ending = NOT_READ
    is_billed: bool = False
    is_observed: bool = False

    def record(self) -> dict[str, Any]:
        miss = self.miss
        return {
            **{name: getattr(self, name) for name in _TURN_NAMES},
            "amounts": self.amounts.record(),
            "miss": {"cause": miss.cause, "tokens": miss.tokens, "detail": miss.detail} if miss else None,
            "results": [result.record() for result in self.results],
        }


_TURN_NAMES = (
    *("number", "time", "model", "agent", "project", "host", "api"),
    *("note", "status", "carried", "body"),
)
"""Fields of a turn that are shown without a conversion."""


@dataclass(slots=True)
class Session:
    """A `Session` has the turns and sums of one conversation since the start."""

    id: str
    """First characters of the conversation's keyed hash, which events also contain."""
    agent: str
    project: str
    model: str
    first: float
    last: float
    amounts: Amounts = field(default_factory=Amounts)
    turns: deque[TurnRecord] = field(default_factory=lambda: deque(maxlen=_MOST_TURNS // 4))
    calls: OrderedDict[bytes, int] = field(default_factory=OrderedDict)
    """The loss (value of a `Loss`) of the latest result of each call, by call."""

    def record(self) -> dict[str, Any]:
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
        """Store the loss of a call's result, and return the loss of the same call's earlier result; 0 if
        there is none."""
        before = self.calls.pop(call, 0)
        self.calls[call] = loss
        while len(self.calls) > _MOST_CALLS:
            self.calls.popitem(last=False)
        return before


class Sessions:
    """A `Sessions` has the latest sessions, and drops the oldest sessions."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._turns = 0
        self._listed: deque[TurnRecord] = deque()
        self._results = 0

    def __iter__(self) -> Iterator[Session]:
        """Yield the sessions, the latest first."""
        return reversed(self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, name: str) -> Session | None:
        return self._sessions.get(name)

    def begin_turn(self, turn: TurnRecord) -> Session:
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
        """Store the new results of a turn. If too many results are stored, those of the oldest turns are
        dropped."""
        if not results:
            return
        turn.results = results
        self._listed.append(turn)
        self._results += len(results)
        while self._results > MOST_RESULTS or len(self._listed) > _MOST_TURNS:
            oldest = self._listed.popleft()
            self._results -= len(oldest.results)
            oldest.results = ()

    def result(self, number: int) -> ResultRecord | None:
        for session in self:
            for turn in session.turns:
                for result in turn.results:
                    if result.number == number:
                        return result
        return None
