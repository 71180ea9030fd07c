"""Stages are skipped when the time for a result is over."""

import itertools
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penumbra.compress import pipeline, time_budget
from penumbra.compress.result import Mode, Policy, Redacted, ToolOutput
from penumbra.metrics.events import Summary, request_event
from support.apis import messages
from support.engines import rewritten

NOISY = "same line again   \n" * 90 + "\n\n\n\ndone\n"
STANDARD = Policy(mode=Mode.STANDARD, lossy=True, min_bytes=0)


class Clock:
    """A clock that advances by a second in each call."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def budget(text, seconds, clock):
    """Return a budget. By its clock `around`, enough time has always passed."""
    return time_budget.budget(text, seconds, clock, around=itertools.count(0.0, 1e9).__next__)


def after(asked):
    """Return a budget that is over after `asked` calls."""
    return budget("x" * time_budget.SMALL, asked + 1, Clock())


def shorten(text, is_late=None, redact=Redacted, policy=STANDARD):
    return pipeline.shorten(ToolOutput(text), policy, redact, lambda original: "shadow_x", is_late)


def test_the_budget_ends_with_its_seconds():
    is_late = budget("x" * time_budget.SMALL, 3, Clock())
    assert [is_late() for _ in range(4)] == [False, False, True, True]


def test_the_time_of_a_thread_is_asked_for_only_once_that_long_has_gone_by():
    clock, around = Clock(), Clock()
    is_late = time_budget.budget("x" * time_budget.SMALL, 3, clock, around)
    begun = clock.now
    assert [is_late() for _ in range(2)] == [False, False]
    assert clock.now == begun
    assert [is_late() for _ in range(4)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("text", "seconds"), [("x" * (time_budget.SMALL - 1), 1), ("x" * time_budget.SMALL, 0)]
)
def test_no_clock_is_asked_for_small_texts_or_without_a_budget(text, seconds):
    clock = Clock()
    assert budget(text, seconds, clock) is None
    assert clock.now == 0.0


def test_stages_that_come_too_late_are_named_and_do_nothing():
    whole = shorten(NOISY)
    assert whole.skipped == ()
    assert "fold_repeated" in whole.stages
    late = shorten(NOISY, lambda: True)
    assert late.text == NOISY
    assert late.stages == ()
    assert {"command_family", "fold_repeated", "whitespace", "excerpt"} <= set(late.skipped)
    assert len(late.skipped) == len(set(late.skipped))


def test_work_done_in_time_is_used():
    names = shorten(NOISY, lambda: True).skipped
    for asked in range(len(names)):
        some = shorten(NOISY, after(asked))
        assert some.skipped == names[asked:]
        assert not set(some.stages) & set(some.skipped)
        assert some == shorten(NOISY, after(asked))


def test_redaction_terminal_and_limit_do_not_wait_for_time():
    def redact(text):
        return Redacted(text.replace("hunter2", "[out]"), {"x": text.count("hunter2")})

    text = "\x1b[31mred\x1b[0m hunter2\n" + "".join(f"line {number}\n" for number in range(900))
    policy = Policy(mode=Mode.STANDARD, lossy=True, max_output_bytes=2_000)
    late = shorten(text, lambda: True, redact, policy)
    assert late.stages == ("redaction", "terminal", "truncate")
    assert late.text.startswith("red [out]\n")
    assert len(late.text) <= 2_000


def test_outputs_within_json_share_the_budget():
    wrapped = json.dumps({"output": NOISY, "exit_code": 0})
    assert "fold_repeated" in shorten(wrapped).stages
    late = shorten(wrapped, lambda: True)
    assert late.text == wrapped.replace('{"output": "', '{"output": \n', 1).replace("\\n", "\n").replace(
        '", "exit', '\n, "exit'
    )
    assert "fold_repeated" in late.skipped


def send(known):
    return rewritten("anthropic-messages", messages(NOISY), known, adopt="compress")


def test_a_late_form_is_remembered_with_its_skipped_stages(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(time_budget, "budget", lambda text, seconds: lambda: True)
        late = send({})
    (decision,) = late.decisions.values()
    assert "fold_repeated" in decision.facts.skipped
    assert b"more times]" not in late.body
    again = send(late.decisions)
    assert again.body == late.body
    assert not again.decisions
    assert b"more times]" in send({}).body


def test_late_stages_show_in_the_event(monkeypatch):
    monkeypatch.setattr(time_budget, "budget", lambda text, seconds: lambda: True)
    shown = send({}).shown
    sent: Any = SimpleNamespace(
        summary=Summary.of(shown), is_observed=False, host="h", api="a", model="m", note="", body=(1, 1),
        milliseconds=1.0, secrets={},
    )  # fmt: skip
    event = request_event("1", sent, shown, "standard", "pipeline")
    assert "fold_repeated" in event["new"][0]["skipped"]


class Time:
    """A `Time` has two clocks, and counts the calls of the slower clock, which is half as fast."""

    def __init__(self) -> None:
        self.now, self.asked = 0.0, 0

    def own(self) -> float:
        self.asked += 1
        return self.now / 2

    def around(self) -> float:
        return self.now

    def steps(self, count: int) -> int:
        """Check the time after each second of work. Return the number of checks before the time was over."""
        for number in range(count):
            self.now += 1
            try:
                time_budget.check()
            except time_budget.Overrun:
                return number
        return count


def test_an_allowance_is_for_all_pieces_and_asks_rarely() -> None:
    time = Time()
    allowance = time_budget.Allowance(200, time.own, time.around)
    assert [allowance.spend(lambda: time.steps(30)) for _ in range(3)] == [30, 30, 30]
    assert time.asked == 0
    # From the hundredth second on, the thread's own time counts, which is half as fast.
    assert allowance.spend(lambda: time.steps(100)) == 100
    assert allowance.spend(lambda: time.steps(1_000)) == pytest.approx(110, abs=2)
    assert time.asked < 30
    with pytest.raises(time_budget.Overrun):
        allowance.spend(lambda: None)


@pytest.mark.parametrize(("is_main", "pauses"), [(False, 2), (True, 0)], ids=["a worker", "the event loop"])
def test_a_thread_pauses_once_a_turn(is_main, pauses, monkeypatch):
    """Other threads can't take Python's lock from work that releases the lock only for moments."""
    now, slept = [0.0], []
    monkeypatch.setattr(time_budget.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time_budget.time, "sleep", slept.append)

    def work():
        time_budget.check()  # The turn begins.
        slept.clear()
        for _ in range(110):
            now[0] += 0.0001
            time_budget.check()

    if is_main:
        work()
    else:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(slept) == pauses
