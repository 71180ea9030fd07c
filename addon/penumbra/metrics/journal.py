"""This module counts requests and responses for the page, the history and the metrics, without their content.
All methods run on the event loop. `changed` is called when figures change. `take` returns the sums to store.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from penumbra.apis.base import Turn
from penumbra.apis.usage import NOT_READ, BilledTokens
from penumbra.expand.hidden_exchanges import Answered
from penumbra.metrics import cache_miss
from penumbra.metrics.amounts import Amounts, ExternalMetrics, Groups, Rates, ResultSums, label
from penumbra.metrics.cache_miss import Prompts
from penumbra.metrics.events import NewResult, SentRequest
from penumbra.metrics.sessions import ResultRecord, Session, Sessions, TurnRecord
from penumbra.metrics.tool_use import ToolUses

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MOST_LISTED = 200
"""The greatest number of new results that are listed for a turn."""
_PAUSES = (
    (600, "up to 10 minutes"),
    (3_600, "10 to 60 minutes"),
    (28_800, "1 to 8 hours"),
    (float("inf"), "over 8 hours"),
)
"""Longest pause of each group in seconds, and the group's name."""
_BYTES_A_TOKEN = 4
_LEAST_ERROR = 400
_REFUSED_WITHIN = "{}, but an error"
"""Form of the status that is counted for a successful response whose only content is an error."""


@dataclass(slots=True)
class Pending:
    """A `Pending` has the sums since the history was last written."""

    all: Amounts = field(default_factory=Amounts)
    conversations: defaultdict[str, Amounts] = field(default_factory=lambda: defaultdict(Amounts))
    agents: dict[str, str] = field(default_factory=dict)
    projects: dict[str, str] = field(default_factory=dict)
    tools: ToolUses = field(default_factory=ToolUses)


class Timeline:
    """A `Timeline` has points with the sent and saved tokens of results. Their distance grows with time."""

    MOST = 120

    def __init__(self) -> None:
        self.step = 60.0
        """Seconds between two points."""
        self.points: list[list[float]] = []
        """Beginning (seconds since 1970), tokens sent and tokens saved of each point."""

    def add(self, time: float, sent: float, saved: float) -> None:
        begin = time - time % self.step
        if not self.points or begin > self.points[-1][0]:
            self.points.append([begin, 0, 0])
        self.points[-1][1] += sent
        self.points[-1][2] += saved
        if len(self.points) > self.MOST:
            self.step *= 2
            points, self.points = self.points, []
            for at, sent, saved in points:
                self.add(at, sent, saved)


class Journal:
    """A `Journal` has the sums and sessions since the start, and the sums that are not yet stored."""

    def __init__(
        self, changed: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.time
    ) -> None:
        self._changed = changed
        self._clock = clock
        self._number = 0
        self._pending = Pending()
        self.amounts = Amounts()
        self.agents, self.projects = (Groups(Amounts, lambda sums: sums.requests) for _ in range(2))
        self.tools, self.families = (Groups(ResultSums, lambda sums: sums.before) for _ in range(2))
        self.sessions = Sessions()
        self.timeline = Timeline()
        self._open = Prompts()
        """Prompts by the number of their turn, until the response states the tokens from the cache."""
        self._threads = Prompts()
        """The latest prompt of each thread. A conversation may have several threads."""
        self.untouched: Counter[str] = Counter()
        self.observed = 0
        """Observed requests, which were sent unchanged."""
        self.stages: Counter[str] = Counter()
        """New results by the stages that changed them."""
        self.skipped: Counter[str] = Counter()
        self.recoveries: Counter[str] = Counter()
        """Requests that were refused and then accepted in another form, by rule and by number of tries."""
        self.answers = self.bytes_given = 0
        """Responses in which the model asked for originals, and the bytes of the originals that it got."""
        self.external = ExternalMetrics()
        self.seconds: Counter[float] = Counter()
        """Numbers of requests by the delay that Penumbra added, in the buckets of the histogram."""

    # Events of requests

    def sent(self, request: SentRequest) -> TurnRecord:
        """Count a request that is sent to the provider. Dollars are counted when the provider accepts it."""
        turn = self._turn(request)
        session = self.sessions.begin_turn(turn)
        self._open.put(structs.replace(request.prompt, model=label(request.prompt.model)), turn.number)
        results = self._results(session, request.new, turn.amounts)
        if request.is_turn and not request.is_observed:
            project, agent = label(request.project), label(request.agent)
            self._pending.tools.add(project, agent, request.tools, request.called, request.rates.cached)
        self.timeline.add(turn.time, turn.amounts.sent_after, turn.amounts.saved)
        turn.if_taken = _if_taken(request, turn.amounts)
        self.sessions.list_results(turn, tuple(results[:_MOST_LISTED]))
        seconds = request.milliseconds / 1000
        self.seconds[next((end for end in SECONDS if seconds <= end), float("inf"))] += 1
        self._add(turn, turn.amounts)
        return turn

    def further(self, turn: TurnRecord, new: Sequence[NewResult]) -> None:
        """Count further new results of a request that is already counted."""
        if (session := self.sessions.get(turn.session)) is None:
            return
        more = Amounts()
        self._results(session, new, more)
        again = more.read_again_tokens * turn.rates.at(turn.body[1] // _BYTES_A_TOKEN).written
        (more if turn.if_taken is None else turn.if_taken).dollars_spent += again
        self._add(turn, more)

    def taken(self, turn: TurnRecord) -> None:
        """Count the savings and costs of a request that the provider accepted. A second call adds nothing."""
        self._add(turn, _take(turn))

    def responded(self, turn: TurnRecord, status: int, turns: Sequence[Turn] = ()) -> None:
        """Count a complete response. `turns` are the model's turns, if they could be read."""
        is_refused = bool(turns) and turns[0].is_refusal
        more = Amounts() if is_refused or status >= _LEAST_ERROR else _take(turn)
        if turns and turns[-1].ending != NOT_READ:
            turn.ending = turns[-1].ending
        if is_refused:
            turn.if_taken = None
            self._count_error(turn, _REFUSED_WITHIN.format(status), more)
        elif status >= _LEAST_ERROR:
            self._count_error(turn, str(status), more)
        else:
            turn.status = turn.status or str(status)
        billed = [tokens for each in turns if (tokens := BilledTokens.of(each.usage)) is not None]
        if billed and not turn.is_billed:
            turn.is_billed = True
            _bill(billed, turn.rates, more)
            self._judge(turn, billed, turns[0], more)
        self._add(turn, more)

    def failed(self, turn: TurnRecord, status: int | None) -> None:
        """Count a request without a complete response. `status` is None if no part of a response arrived."""
        if status is not None and status < _LEAST_ERROR:
            self.taken(turn)
        if not turn.status:
            turn.status = "broken off"
            self._add(turn, Amounts(errors=Counter({"broken off": 1})))

    def recovered(self, turn: TurnRecord | None, rule: str, level: int) -> None:
        """Count a request that was refused and then accepted after `level` other requests."""
        self.recoveries[f"{rule} at level {level}"] += 1
        self._add(turn, Amounts(errors=Counter({"too large, sent again": 1})))

    def asked(self, turn: TurnRecord | None, answered: Sequence[Answered]) -> None:
        """Count originals that the model has asked for in one response."""
        self.answers += 1
        self.bytes_given += sum(answer.sent for answer in answered)
        for answer in answered:
            for sums in (self.tools.of(answer.tool), self.families.of(answer.family or "(none)")):
                sums.asked += 1
                sums.missing += not answer.found
        found = sum(answer.found for answer in answered)
        self._add(turn, Amounts(asked=len(answered), found=found))
        if turn is not None:
            self._mark(turn.session, {answer.ref for answer in answered})

    def refused(self) -> None:
        self._add(None, Amounts(refused=1))

    def passed(self, reason: str) -> None:
        self.untouched[reason] += 1

    def redacted(self, secrets: Mapping[str, int]) -> None:
        """Count secrets found outside of LLM calls."""
        self._add(None, Amounts(secrets=Counter(secrets)))

    # Stored figures

    def take(self) -> Pending:
        pending, self._pending = self._pending, Pending()
        return pending

    @property
    def pending_requests(self) -> int:
        return self._pending.all.requests

    # Steps

    @staticmethod
    def _count_error(turn: TurnRecord, error: str, more: Amounts) -> None:
        more.errors.update([error] if not turn.status else ())
        turn.status = error

    def _turn(self, request: SentRequest) -> TurnRecord:
        self._number += 1
        self.observed += request.is_observed
        totals = request.summary
        amounts = Amounts(
            requests=1,
            changed=int(request.changed),
            seconds=request.milliseconds / 1000,
            sent_before=totals.tokens_before,
            sent_after=totals.tokens_after,
            declared=request.declared,
            put_back=request.put_back // _BYTES_A_TOKEN,
            secrets=Counter(request.secrets),
        )
        return TurnRecord(
            number=self._number,
            time=self._clock(),
            session=request.conversation.hex()[:8],
            model=label(request.model),
            agent=label(request.agent),
            project=label(request.project),
            host=label(request.host),
            api=request.api,
            note=request.note,
            results=(),
            carried=totals.results,
            body=request.body,
            rates=request.rates,
            amounts=amounts,
            is_observed=request.is_observed,
        )

    def _results(self, session: Session, listed: Sequence[NewResult], amounts: Amounts) -> list[ResultRecord]:
        results = []
        for new in listed:
            before = session.called(new.call, new.shown.facts.loss)
            result = self._result(new, is_repeated=before > 1)
            self._count_result(result, amounts)
            results.append(result)
        return results

    def _result(self, new: NewResult, *, is_repeated: bool) -> ResultRecord:
        self._number += 1
        facts = new.shown.facts
        self.stages.update(facts.stages)
        self.skipped.update(facts.skipped)
        return ResultRecord(
            number=self._number,
            tool=label(new.shown.tool),
            family=facts.family,
            how=facts.how,
            stages=facts.stages,
            loss=facts.loss,
            bytes=(facts.bytes_before, facts.bytes_after),
            tokens=(facts.tokens_before, facts.tokens_after),
            secrets=dict(facts.redactions),
            kept=new.kept,
            read_again=is_repeated,
            ref=facts.ref,
        )

    def _count_result(self, result: ResultRecord, amounts: Amounts) -> None:
        before, after = result.tokens
        for sums in (self.tools.of(result.tool), self.families.of(result.family or "(none)")):
            sums.results += 1
            sums.changed += not result.kept
            sums.before += before
            sums.after += after
            sums.read_again += result.read_again
            if result.kept:
                sums.kept[result.kept] += 1
        amounts.new_results += 1
        amounts.new_before += before
        amounts.new_after += after
        amounts.secrets.update(result.secrets)
        if result.read_again:
            amounts.read_again += 1
            amounts.read_again_tokens += after

    def _judge(self, turn: TurnRecord, billed: Sequence[BilledTokens], first: Turn, more: Amounts) -> None:
        """Count a cache miss of the response's first turn, and the provider's comparison of its prompt."""
        prompt = self._open.take(turn.number)
        if prompt is None or len(prompt.messages) < 2:
            return
        thread = (turn.session, *prompt.opening)
        if prompt.cold_turn is not None:
            found = cache_miss.found_cold(prompt, prompt.cold_turn, billed[0])
            more.cold_turns[found] += 1
            if found == cache_miss.WARM:
                # The cache had not expired, so the change and not the pause caused the miss.
                prompt = structs.replace(prompt, cold_turn=None)
        miss = cache_miss.judge(self._threads.get(*thread), prompt, billed[0])
        if prompt.compared is not None:
            if prompt.compared.previous and first.diagnosis is not None:
                earlier = self._threads.get(turn.session, "response", prompt.compared.previous)
                more.compared = int(first.diagnosis.cause not in cache_miss.NOT_COMPARED)
                miss = cache_miss.diagnosed(earlier, prompt, first.diagnosis, miss)
                more.broken = int(miss is not None and miss.cause == cache_miss.BROKEN)
            if first.response_id:
                self._threads.put(prompt, turn.session, "response", first.response_id)
        if miss is not None:
            turn.miss = miss
            more.misses[miss.cause] += 1
            more.missed += miss.tokens
            rates = turn.rates.at(billed[-1].prompt)
            more.dollars_missed += miss.tokens * max(0.0, rates.written - rates.cached)
            if miss.cause == cache_miss.EXPIRED:
                more.expired, more.dollars_expired = more.missed, more.dollars_missed
                more.pauses[next(name for most, name in _PAUSES if miss.pause <= most)] += 1
        self._threads.put(prompt.counted(billed[-1].prompt), *thread)

    def _mark(self, name: str, references: set[str]) -> None:
        session = self.sessions.get(name)
        for turn in session.turns if session is not None else ():
            for result in turn.results:
                result.asked += bool(result.ref) and result.ref in references

    def _add(self, turn: TurnRecord | None, more: Amounts) -> None:
        if not (parts := more.parts()):
            self._changed()
            return
        targets = [self.amounts]
        if turn is None or not turn.is_observed:
            targets.append(self._pending.all)
        if turn is not None:
            if more is not turn.amounts:
                targets.append(turn.amounts)
            if (session := self.sessions.get(turn.session)) is not None:
                targets.append(session.amounts)
            targets += [self.agents.of(turn.agent), self.projects.of(turn.project)]
        if turn is not None and not turn.is_observed:
            targets.append(self._pending.conversations[turn.session])
            self._pending.agents[turn.session] = turn.agent
            self._pending.projects[turn.session] = turn.project
        for target in targets:
            target.add(parts)
        self._changed()


def _take(turn: TurnRecord) -> Amounts:
    """Remove and return the amounts that count when the provider accepts a request."""
    amounts, turn.if_taken = turn.if_taken, None
    return Amounts() if amounts is None else amounts


def _if_taken(request: SentRequest, amounts: Amounts) -> Amounts:
    """Return the amounts that count when the provider accepts a request."""
    rates = request.rates.at(request.body[1] // _BYTES_A_TOKEN)
    again = amounts.read_again_tokens * rates.written
    return Amounts(
        turns=int(request.is_turn),
        dollars_saved=request.dollars_saved or 0.0,
        dollars_spent=(amounts.declared + amounts.put_back) * rates.cached + again,
        unpriced=int(request.dollars_saved is None),
    )


def _bill(billed: Sequence[BilledTokens], every: Rates, more: Amounts) -> None:
    """Add the billed tokens of a response. Without Penumbra, only the input of the first turn and the output
    of the last turn would have been billed."""
    more.responses = 1
    for number, tokens in enumerate(billed):
        rates = every.at(tokens.prompt)
        prompt = tokens.uncached * rates.input + tokens.cached * rates.cached + tokens.written * rates.written
        output = tokens.output * rates.output
        more.uncached += tokens.uncached
        more.cached += tokens.cached
        more.written += tokens.written
        more.output += tokens.output
        more.dollars += prompt + output
        if number:
            more.hidden_calls += 1
            more.hidden_tokens += tokens.prompt
            more.dollars_spent += prompt
        if number < len(billed) - 1:
            more.dollars_spent += output
