"""Smaller forms of sent texts: the occasion, the order, and that the forms are final."""

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress import token_estimate
from penumbra.conversation import adoption
from penumbra.conversation.planner import Need, Planner, SentText, fitted
from penumbra.store.conversations import ConversationState, LearnedLimits
from support import refused, talks
from support.examples import examples
from support.talks import CACHED, REFERENCES, THOUGHT, unredacted


def prose(seed: int, lines: int = 150) -> str:
    return refused.prose(seed, lines)


def Talk(**settings: Any) -> talks.Talk:
    return talks.Talk(more={"system": CACHED}, **{"supersede": "priced", **settings})


STALE = {"file_path": "a.py"}
EDITED = {"file_path": "a.py", "old_string": "x", "new_string": "y"}


def test_a_stale_read_near_the_end_becomes_a_shadow_once_its_edit_is_read():
    talk = Talk()
    for n in range(20):
        talk.call("Grep", prose(n + 2, 30), pattern=str(n))
        talk.send()
    talk.call("Read", prose(77), **STALE)
    whole = talk.send()[-1]
    talk.call("Edit", "ok", **EDITED)
    before = talk.send()
    assert before[20].startswith("<<<SHADOW:"), talk.line
    assert "[tool_compaction] Tool result compacted for tool=Read" in before[20]
    assert "[The file was written later: " in before[20]
    assert len(before[20]) < len(whole) / 5
    assert "rewrote 1 results" in talk.line
    ref = before[20][10:].split(">>>")[0]
    assert talk.originals[ref] == prose(77)
    talk.call("Bash", "done", command="true")
    assert talk.send()[:22] == before
    assert talk.line == ""


def test_a_superseded_result_before_many_cached_tokens_stays():
    talk = Talk()
    talk.call("Read", prose(77), **STALE)
    talk.send()
    for n in range(30):
        talk.call("Grep", prose(n + 2, 60), pattern=str(n))
        first = talk.send()
    talk.call("Edit", "ok", **EDITED)
    assert talk.send()[:31] == first
    assert talk.line.startswith("kept 1 results")
    cold = talk.call("Bash", "done", command="true").send(ConversationState(idle=3600.0))
    assert cold[0].startswith("<<<SHADOW:")
    assert "cold" in talk.line
    assert (
        talk.call("Bash", "done again", command="false").send(ConversationState(idle=1.0))[: len(cold)]
        == cold
    )


@pytest.mark.parametrize(
    ("drop", "model", "is_bound"),
    [("keep", "claude-x", True), ("drop", "claude-x", True), ("keep", "claude-opus-4-6", False)],
    ids=["kept", "not asked to drop", "another model"],
)
def test_bound_reasoning_is_never_broken_unasked(drop, model, is_bound):
    talk = Talk(bound_thinking=drop)
    talk.more["model"] = model
    talk.call("Read", prose(77), **STALE)
    talk.send()
    talk.call("Edit", "ok", lead=THOUGHT, **EDITED)
    assert talk.send()[0].startswith("<<<SHADOW:") is not is_bound
    assert ("bound" in talk.line) is is_bound


@pytest.mark.parametrize("example", adoption.table()["examples"], ids=lambda example: example["model"])
def test_models_with_bound_thinking(example):
    assert adoption.binds(example["format"], example["model"]) == example["bound"]


@pytest.mark.parametrize(
    ("chosen", "references"),
    [
        ({"supersede": "off"}, REFERENCES),
        ({}, None),
        ({"lossy": "off"}, REFERENCES),
        ({"skip_tools": frozenset({"read"})}, REFERENCES),
    ],
    ids=["off", "no way back", "nothing may be left out", "skipped tool"],
)
def test_switched_off_or_without_a_way_back_nothing_happens(chosen, references):
    talk = Talk(**chosen)
    talk.references = references
    first = talk.call("Read", prose(77), **STALE).send()[0]
    assert talk.call("Edit", "ok", **EDITED).send()[0] == first


def test_a_referent_of_a_later_result_stays():
    talk = Talk()
    talk.call("Read", prose(77), **STALE)
    talk.send()
    talk.call("Bash", prose(77), command="cat b.py")
    assert "Duplicate of" in talk.send()[1]
    talk.call("Edit", "ok", **EDITED)
    assert not talk.send()[0].startswith("<<<SHADOW:")


def test_the_unread_tail_is_never_touched():
    talk = Talk()
    talk.call("Bash", prose(5), command="make")
    talk.call("Bash", prose(6), command="make")
    # The newest turn has two results of one call. The model has read neither.
    talk.messages[-1]["content"].append(
        {"type": "tool_result", "tool_use_id": "toolu_x", "content": prose(7)}
    )
    talk.messages[-2]["content"].append(
        {"type": "tool_use", "id": "toolu_x", "name": "Bash", "input": {"command": "make"}}
    )
    talk.send()
    request = talk.request()
    made = Planner(request, talk.known, unredacted, REFERENCES, 3600.0).superseded_results()
    assert list(made.decisions) == [request.items[0].key]


# Budgets, and limits that were learned


def test_an_aggregate_budget_takes_the_largest_old_results_once():
    talk = Talk(aggregate_budget_bytes=14_000)
    for n in range(4):
        talk.call("Grep", prose(n + 2, 100), pattern=str(n))
        first = talk.send()
    assert not any("omitted" in text for text in first)
    talk.call("Grep", prose(50, 420), pattern="x")
    cut = talk.send()
    assert sum(len(text.encode()) for text in cut) <= 14_000
    assert "omitted" not in cut[-1]
    assert "to fit" in talk.line
    talk.call("Grep", prose(51, 40), pattern="y")
    assert talk.send()[: len(cut)] == cut


def test_a_learned_limit_is_kept_before_sending():
    talk = Talk()
    for n in range(12):
        talk.call("Grep", prose(n + 2, 60), pattern=str(n))
        talk.send()
    large = len(talk.sent)
    talk.call("Grep", prose(99, 60), pattern="z")
    talk.send(ConversationState(1.0, LearnedLimits(tokens=5_000)))
    assert len(talk.sent) < large * 0.7
    talk.call("Grep", prose(100, 60), pattern="zz")
    assert max(map(len, talk.send(ConversationState(1.0, LearnedLimits(most=512))))) <= 512
    talk.call("Grep", prose(101, 60), pattern="zzz")
    talk.send(ConversationState(1.0, LearnedLimits(bytes=4_000)))
    assert len(talk.sent) < 12_000


def test_by_default_only_a_long_pause_changes_sent_forms():
    talk = talks.Talk(supersede="idle")
    talk.call("Read", prose(77), **STALE)
    first = talk.send()
    talk.call("Edit", "ok", **EDITED)
    assert talk.send()[:1] == first
    assert talk.send(ConversationState(idle=5.0))[:1] == first
    after = talk.send(ConversationState(idle=3600.0))
    assert after[0].startswith("<<<SHADOW:")
    talk.call("Bash", "done", command="true")
    assert talk.send(ConversationState(idle=1.0))[: len(after)] == after


def _texts(value: Any, seen: set[int]) -> Iterator[str | bytes]:
    """Yield all texts within containers and dataclasses."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, str | bytes):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key, seen)
            yield from _texts(inner, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _texts(inner, seen)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _texts(getattr(value, one.name, None), seen)


def test_no_module_keeps_arguments_of_calls() -> None:
    given = "a-file-that-no-other-test-reads.txt"
    talk = Talk()
    for seed in (7, 8, 9):
        talk.call("Read", prose(seed), file_path=given).send()
    kept = [
        name
        for name, module in list(sys.modules.items())
        if name.startswith("penumbra.")
        for value in list(vars(module).values())
        if any(given in text for text in _texts(value, set()) if isinstance(text, str))
    ]
    assert kept == []


# The order

LOG = "\n".join(f"line {n}: everything is as it should be" for n in range(400))


def test_the_order_is_superseded_largest_referred_to_unread():
    texts = [
        text(0, "x" * 10),
        text(1, "x" * 99, unread=True),
        text(2, "x" * 50, referred=True),
        text(3, "x" * 5, superseded=True),
        text(4, "x" * 40),
        text(5, "x" * 40),
    ]
    assert [each.index for each in sorted(texts, key=attrgetter("rank"))] == [3, 4, 5, 0, 2, 1]


def text(index, original, **part):
    return SentText(index, original, original, **part)


OLD_ONES = [text(0, LOG[:6000]), text(1, LOG), text(2, LOG[:9000]), text(3, LOG * 2, unread=True)]


@pytest.mark.parametrize(
    ("texts", "need", "sizes"),
    [
        (OLD_ONES, Need(bytes=2_000), {1: (1, 4_000)}),
        (OLD_ONES, Need(bytes=16_000), {1: (1, 4_000), 2: (1, 4_000)}),
        ([text(0, LOG), text(1, LOG * 3, unread=True)], Need(bytes=30_000), {0: (1, 1_100), 1: (12_000, 16_000)}),
        ([text(0, LOG[:6000], superseded=True), text(1, LOG)], Need(bytes=7_000), {0: (1, 400), 1: (1_000, 4_000)}),
        ([text(0, "x" * 512), text(1, "y " * 300), text(2, LOG, unread=True)], Need(most=512), {1: (1, 512), 2: (1, 512)}),
        ([text(0, LOG), text(1, LOG, unread=True)], Need(tokens=10**9), {0: (1, 400), 1: (1, 1_500)}),
    ],
    ids=["the largest old one first", "no more than needed", "unread ones last, and less", "superseded ones most",
         "only those above the most", "all that is possible"],
)  # fmt: skip
def test_texts_are_cut_in_order_and_as_far_as_needed(
    texts: list[SentText], need: Need, sizes: dict[int, tuple[int, int]]
) -> None:
    forms = fitted(texts, need)
    assert sorted(forms) == sorted(sizes)
    assert all(least <= len(forms[index]) <= most for index, (least, most) in sizes.items())


def test_the_prefix_counts():
    one = SentText(0, LOG, LOG, prefix="<<<SHADOW:shadow_" + "0" * 18 + ">>>\n")
    form = fitted([one], Need(most=512))[0]
    assert form.startswith(one.prefix)
    assert len(form) <= 512


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.text(max_size=4000), st.booleans()), max_size=6),
    st.integers(min_value=1, max_value=5000),
)
def test_a_plan_only_ever_shrinks(entries, needed):
    texts = [text(index, original, unread=unread) for index, (original, unread) in enumerate(entries)]
    for index, form in fitted(texts, Need(tokens=needed)).items():
        assert len(form.encode("utf-8", "surrogatepass")) < len(
            entries[index][0].encode("utf-8", "surrogatepass")
        )
        assert token_estimate.estimate(form) < token_estimate.estimate(entries[index][0])
