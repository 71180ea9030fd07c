"""Forms of a result in few bytes, and what is shortened first."""

from __future__ import annotations

import json
import re
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress import token_estimate
from penumbra.conversation import shrink_to_fit
from penumbra.conversation.shrink_to_fit import Need, Text, excess
from penumbra.retry import refusals
from penumbra.retry.refusals import Kind, Refusal
from support.examples import examples

LOG = "\n".join(f"line {n}: everything is as it should be" for n in range(400))
ERROR = "ERROR in worker.py:88: the queue is closed"
OMITTED = re.compile(r"\[omitted (\d+) chars due to provider limits\]")


def missing(form):
    return sum(int(count) for count in OMITTED.findall(form))


def test_plain_text_keeps_head_tail_and_the_error_and_counts_what_is_missing():
    text = LOG[:8000] + "\n" + ERROR + "\n" + LOG[8000:]
    form = shrink_to_fit.shorten(text, 1000)
    assert len(form.encode()) <= 1000
    assert form.startswith("line 0:")
    assert form.endswith(text[-30:])
    assert ERROR in form
    kept = OMITTED.sub("", form)
    # Each marker stands on a line of its own; its line ends may be its own or the text's.
    assert (
        0
        <= len(text) - missing(form) - len(kept) + 2 * len(OMITTED.findall(form))
        <= 4 * len(OMITTED.findall(form))
    )


@pytest.mark.parametrize("limit", [60, 100, 239, 240, 512, 4000])
def test_no_form_is_larger_than_its_limit(limit):
    for text in (LOG, "ü" * 6000, "😀" * 3000, json.dumps({"result": LOG}), json.dumps([LOG] * 9)):
        form = shrink_to_fit.shorten(text, limit)
        assert form is None or len(form.encode()) <= limit


def test_a_json_object_keeps_its_keys_and_the_end_of_its_text():
    text = json.dumps({"status": "failed", "result": LOG + "\n" + ERROR, "exit": 1})
    form = json.loads(shrink_to_fit.shorten(text, 1000))
    assert list(form) == ["status", "result", "exit", "truncated", "originalLength"]
    assert (form["status"], form["exit"], form["truncated"], form["originalLength"]) == (
        "failed",
        1,
        True,
        len(text),
    )
    assert form["result"].endswith(ERROR)
    assert OMITTED.search(form["result"])


def test_an_object_whose_fat_value_is_no_text_says_how_much_is_missing():
    rows = [{"id": n, "name": f"row {n}"} for n in range(200)]
    text = json.dumps({"rows": rows, "next": None})
    form = json.loads(shrink_to_fit.shorten(text, 512))
    assert form == {
        "rows": f"[omitted {len(json.dumps(rows))} chars due to provider limits]",
        "next": None,
        "truncated": True,
        "originalLength": len(text),
    }


def test_an_object_of_numbers_keeps_their_spelling():
    text = '{"rate": 1.10, "big": 12345678901234567890123, "result": "' + "x" * 2000 + '"}'
    form = shrink_to_fit.shorten(text, 400)
    assert '"rate":1.10' in form
    assert "12345678901234567890123" in form


def test_what_fits_once_its_escapes_are_gone_is_not_said_to_be_cut():
    form = shrink_to_fit.shorten(json.dumps({"text": "0" * 17 + "\x1f" * 47 + "Ķ" * 40}), 492)
    assert form is None or OMITTED.search(form)


def test_an_array_keeps_its_first_items_and_its_last():
    text = json.dumps([{"n": n} for n in range(300)])
    form = json.loads(shrink_to_fit.shorten(text, 512))
    assert form[0] == {"n": 0}
    assert form[-1] == {"n": 299}
    (marker,) = (item for item in form if isinstance(item, str))
    gone = json.loads(text)[form.index(marker) : -1]
    assert missing(marker) == sum(len(json.dumps(item)) for item in gone)


def test_an_object_with_truncated_of_its_own_keeps_it():
    text = json.dumps({"truncated": "no", "output": LOG})
    form = json.loads(shrink_to_fit.shorten(text, 600))
    assert form["truncated"] == "no"
    assert "originalLength" not in form


def test_small_texts_have_no_smaller_form():
    assert shrink_to_fit.shorten("short", 512) is None
    assert shrink_to_fit.shorten("x" * 30, 20) is None
    assert shrink_to_fit.shorten(json.dumps({"output": "x" * 40}), 50) is None


@settings(max_examples=examples(150), deadline=None)
@given(
    st.one_of(
        st.text(max_size=3000),
        st.dictionaries(st.text(max_size=9), st.text(max_size=900), max_size=6).map(json.dumps),
        st.lists(st.integers() | st.text(max_size=300), max_size=20).map(
            lambda items: json.dumps(items, ensure_ascii=False)
        ),
    ),
    st.integers(min_value=-5, max_value=1500),
)
def test_a_form_fits_and_shrinks_and_json_objects_stay_json(text, limit):
    form = shrink_to_fit.shorten(text, limit)
    if form is not None:
        size = len(form.encode("utf-8", "surrogatepass"))
        assert size <= limit
        assert size < len(text.encode("utf-8", "surrogatepass"))
        assert OMITTED.search(form)
        try:
            before = json.loads(text)
        except ValueError:
            return
        if isinstance(before, (dict, list)) and before:
            assert type(json.loads(form)) is type(before)


# The order


def test_superseded_then_fattest_then_those_referred_to_then_the_tail():
    texts = [
        text(0, "x" * 10),
        text(1, "x" * 99, unread=True),
        text(2, "x" * 50, referred=True),
        text(3, "x" * 5, superseded=True),
        text(4, "x" * 40),
        text(5, "x" * 40),
    ]
    assert [each.index for each in sorted(texts, key=attrgetter("rank"))] == [3, 4, 5, 0, 2, 1]


def test_a_budget_is_left_in_batches():
    assert excess([60, 40], 100) == 0
    assert excess([60, 41], 100) == 101 - 85
    assert excess([10**9], 0) == 0


def text(index, original, **part):
    return Text(index, original, original, **part)


def test_the_fattest_old_result_goes_first_and_no_more_than_needed():
    texts = [text(0, LOG[:6000]), text(1, LOG), text(2, LOG[:9000]), text(3, LOG * 2, unread=True)]
    assert list(shrink_to_fit.plan(texts, Need(bytes=2000))) == [1]
    assert sorted(shrink_to_fit.plan(texts, Need(bytes=16_000))) == [1, 2]


def test_the_unread_tail_is_last_and_keeps_more():
    texts = [text(0, LOG), text(1, LOG * 3, unread=True)]
    plan = shrink_to_fit.plan(texts, Need(bytes=30_000))
    assert sorted(plan) == [0, 1]
    assert len(plan[0]) < 1100
    assert 12_000 < len(plan[1]) <= 16_000


def test_superseded_results_go_before_a_fatter_one():
    texts = [text(0, LOG[:6000], superseded=True), text(1, LOG)]
    assert list(shrink_to_fit.plan(texts, Need(bytes=1000))) == [0]


def test_the_prefix_counts():
    one = Text(0, LOG, LOG, prefix="<<<SHADOW:shadow_" + "0" * 18 + ">>>\n")
    form = shrink_to_fit.plan([one], Need(most=512))[0]
    assert form.startswith(one.prefix)
    assert len(form) <= 512


def test_only_texts_above_the_most_are_touched_newest_included():
    texts = [text(0, "x" * 512), text(1, "y " * 300), text(2, LOG, unread=True)]
    plan = shrink_to_fit.plan(texts, Need(most=512))
    assert sorted(plan) == [1, 2]
    assert all(len(form) <= 512 for form in plan.values())


def test_all_that_can_be_had_is_had_when_the_need_is_larger():
    plan = shrink_to_fit.plan([text(0, LOG), text(1, LOG, unread=True)], Need(tokens=10**9))
    assert len(plan[0]) <= 400
    assert len(plan[1]) <= 1500


def test_numbers_of_a_refusal_are_measured_in_our_tokens():
    refusal = Refusal(Kind.INPUT, "x", have=400, limit=200, over=200)
    first, second = (refusals.need(refusal, 1000, 4000, resend).tokens for resend in (0, 1))
    assert first == 1000 * (400 - 170) // 400
    assert second > first
    assert refusals.need(refusal, 1000, 4000, 2) is None


@pytest.mark.parametrize(
    ("refusal", "needed"),
    [
        (Refusal(Kind.INPUT, "x"), Need(tokens=350)),
        (Refusal(Kind.INPUT, "x", limit=900), Need(tokens=1000 - 765)),
        (Refusal(Kind.INPUT, "x", limit=9000), Need(tokens=350)),
        (Refusal(Kind.BYTES, "x", limit=2000), Need(bytes=2300)),
        (Refusal(Kind.BYTES, "x"), Need(bytes=1400)),
        (Refusal(Kind.FIELD, "x", limit=512), Need(most=512)),
        (Refusal(Kind.RESERVE, "x", have=1200, limit=1000, over=200), Need(tokens=1000 * 350 // 1200)),
        (Refusal(Kind.RESERVE, "x", leave=True), None),
    ],
)
def test_what_a_refusal_asks_for(refusal, needed):
    assert refusals.need(refusal, 1000, 4000, 0) == needed


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=4000), st.booleans()), max_size=6),
    st.integers(min_value=1, max_value=5000),
)
def test_a_plan_only_ever_shrinks(entries, needed):
    texts = [text(index, original, unread=unread) for index, (original, unread) in enumerate(entries)]
    for index, form in shrink_to_fit.plan(texts, Need(tokens=needed)).items():
        assert len(form.encode("utf-8", "surrogatepass")) < len(
            entries[index][0].encode("utf-8", "surrogatepass")
        )
        assert token_estimate.estimate(form) < token_estimate.estimate(entries[index][0])


def test_of_a_history_elsewhere_only_what_is_too_much_is_asked_for() -> None:
    """The new messages are a small part of what counts, and nothing else can be shortened."""
    refusal = Refusal(Kind.INPUT, "anthropic-prompt", have=201_000, limit=200_000, over=1_000)
    assert refusals.need(refusal, 9_000, 30_000, 0, elsewhere=True) == shrink_to_fit.Need(tokens=1_500)
    assert refusals.need(refusal, 9_000, 30_000, 1, elsewhere=True) == shrink_to_fit.Need(tokens=2_000)
    assert refusals.need(refusal, 1_200, 30_000, 1, elsewhere=True) == shrink_to_fit.Need(tokens=1_200)
    unknown = Refusal(Kind.INPUT, "openrouter-names")
    assert refusals.need(unknown, 10_000, 30_000, 0, elsewhere=True) == shrink_to_fit.Need(tokens=5_250)
    assert refusals.need(unknown, 10_000, 30_000, 1, elsewhere=True) == shrink_to_fit.Need(tokens=10_000)
    assert refusals.need(unknown, 10_000, 30_000, 2, elsewhere=True) is None
