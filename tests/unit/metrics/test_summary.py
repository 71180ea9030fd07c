"""Sums since the start, and summaries of requests."""

from types import SimpleNamespace
from typing import Any

from msgspec import structs

from penumbra.expand.hidden_exchanges import Answered
from penumbra.metrics import totals
from penumbra.metrics.events import Summary, expansion_event
from penumbra.metrics.journal import Journal
from penumbra.store.decisions import Facts

ANSWERED = [Answered("shadow_1", True, 1000, "Bash", "logs"), Answered("shadow_2", False, 60, "", "")]
TOKENS = [{"input_tokens": 100, "output_tokens": 7}]


def test_figures() -> None:
    journal = Journal()
    assert totals.expansion_lines(journal) == ["Penumbra: the model has not asked for an original yet."]
    journal.recovered(None, "too-long", 1)
    assert totals.expansion_lines(journal)[0] == "recovered   too-long at level 1 1"
    for answered in (ANSWERED, ANSWERED[:1], ANSWERED[1:]):
        journal.asked(None, answered)
    assert totals.expansion_lines(journal)[1:] == [
        (
            "expansions  4 asked in 3 responses, 2 found, 2 missed, 2,120 bytes given, 0 extra calls "
            "(0 input tokens)"
        ),
        "by tool     Bash 2, (unknown) 2",
        "by family   logs 2, (none) 2",
    ]


def test_the_event_has_no_contents() -> None:
    event = expansion_event(
        flow_id="f", conversation=b"\x01" * 32, answered=ANSWERED, calls=1, tokens=TOKENS, sound=True
    )
    assert event["asked"][0] == {
        "ref": "shadow_1",
        "found": True,
        "bytes": 1000,
        "tool": "Bash",
        "family": "logs",
    }
    assert (event["conversation"], event["extra_calls"], event["extra_tokens"]) == ("01010101", 1, TOKENS)


def shown(
    tool: str, how: str = "shortened", before: int = 100, after: int = 100, new: bool = True, **facts: Any
) -> Any:
    return SimpleNamespace(
        tool=tool,
        facts=structs.replace(Facts(how=how, tokens_before=before, tokens_after=after), **facts),
        new=new,
    )


def test_tools_stages_and_secrets_have_their_names() -> None:
    line = Summary.of(
        [
            shown("Bash", after=20, stages=("terminal", "whitespace")),
            shown("Bash", after=10, stages=("terminal",), redactions={"password": 2}),
            shown("Read", how="duplicate", after=10, stages=("dedup",)),
            shown("Read", how="superseded", after=10),
            shown("Read", how="kept"),
        ],
        {"aws-key": 1},
    ).line()
    assert line == (
        "4 of 5 results changed (Bash 2, Read 2), about 500 -> 150 tokens (-70%), "
        "by terminal 2, dedup 1, superseded 1, whitespace 1, 3 secrets redacted (password 2, aws-key 1)"
    )


def test_the_log_names_only_new_results_of_a_long_request() -> None:
    results = [
        shown("Bash", after=20, stages=("terminal",), redactions={"password": 1}, new=False),
        shown("Read", after=60, stages=("line_numbers", "redaction"), redactions={"jwt": 1}),
    ]
    whole, new = Summary.of(results, {}), Summary.of(results[1:], {})
    assert whole.line(new) == (
        "2 of 2 results changed (new: Read 1), about 200 -> 80 tokens (-60%), by line_numbers 1, "
        "2 secrets redacted (new: jwt 1)"
    )
    assert whole.line(Summary.of([], {})) == (
        "2 of 2 results changed, about 200 -> 80 tokens (-60%), 2 secrets redacted"
    )


def test_other_changes_of_a_request() -> None:
    assert Summary.of([], {}, "expand_context").line() == "tool expand_context declared"
    assert Summary.of([], {"jwt": 1}).line() == "1 secret redacted (jwt 1)"
    assert Summary.of([], {}, put_back=2).line() == "2 hidden exchanges put back"
    assert Summary.of([], {}).line() == "changed"


def test_frames_add_up() -> None:
    one = Summary.of([shown("Bash", after=50, stages=("terminal",))], {}, "expand_context")
    two = Summary.of([shown("Read", how="kept")], {"jwt": 1}, put_back=1)
    both = one + two
    assert both.line() == (
        "1 of 2 results changed (Bash 1), about 200 -> 150 tokens (-25%), by terminal 1, "
        "1 secret redacted (jwt 1), 1 hidden exchange put back"
    )
    assert both.metadata()["declared"] == "expand_context"


def test_names_that_a_client_chose_are_no_lines_of_the_log() -> None:
    line = Summary.of([shown("Bash\nPenumbra: all is well\x1b[2J" + "x" * 100, after=1)], {}).line()
    assert line.isprintable()
    assert len(line) < 200
