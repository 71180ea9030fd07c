"""Every refusal of the rule file, by its own examples."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.conversation import adoption
from penumbra.conversation.planner import Need
from penumbra.retry.refusals import MAX_BODY_BYTES, Cause, Refusal, classify, error_objects, need, table
from penumbra.wire.document import Document
from support.examples import examples

EXAMPLES = {
    f"{rule['id']}-{number}": (rule, example)
    for rule in table()["refusals"]
    for number, example in enumerate(rule["examples"])
}
NOTHING = [*(example for rule in table()["deny"] for example in rule["examples"]), *table()["nothing"]]


def read(example):
    return classify(
        example["status"], example["body"].encode(), example.get("host", ""), example.get("tokens", 0)
    )


@pytest.mark.parametrize(("rule", "example"), EXAMPLES.values(), ids=list(EXAMPLES))
def test_a_refusal_is_read_with_its_numbers(rule, example):
    refusal = read(example)
    kind = example.get("kind", rule["kind"])
    if kind == "none":
        assert refusal is None
        return
    assert refusal is not None
    assert (refusal.kind, refusal.rule) == (kind, rule["id"])
    assert (refusal.have, refusal.limit) == (example.get("have"), example.get("limit"))
    if "over" in example:
        assert refusal.over == example["over"]
    if refusal.have and refusal.limit:
        assert refusal.over == refusal.have - refusal.limit


@pytest.mark.parametrize("example", NOTHING, ids=lambda example: example["body"][:60])
def test_similar_errors_are_no_refusals(example):
    assert read(example) is None


def test_every_rule_has_an_example_and_an_id_of_its_own():
    entries = [*table()["refusals"], *table()["deny"]]
    assert all(entry["examples"] for entry in entries)
    assert len({entry["id"] for entry in entries}) == len(entries)


ANTHROPIC = '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 201 tokens > 200 maximum"}}'


@pytest.mark.parametrize(
    "wrap",
    [
        lambda body: f"[{body}]",
        lambda body: json.dumps({"error": {"message": body, "code": 400}}),
        lambda body: json.dumps({"error": {"message": "x", "metadata": {"raw": body}}}),
        lambda body: json.dumps({"error": {"message": f"Error from provider: {body}"}}),
        lambda body: json.dumps(
            {"error": {"message": f"litellm.BadRequestError: AnthropicException - b'{body}'"}}
        ),
        lambda body: json.dumps({"error": {"message": f"Error code: 400 - {body}"}}),
    ],
    ids=["list", "message", "metadata", "after words", "literal of bytes", "after a code"],
)
def test_wrappers_are_peeled_also_twice(wrap):
    for body in (wrap(ANTHROPIC), wrap(wrap(ANTHROPIC)) if "b'" not in wrap("x") else wrap(ANTHROPIC)):
        refusal = classify(400, body.encode())
        assert refusal is not None
        assert (refusal.kind, refusal.have, refusal.limit) == (Cause.INPUT, 201, 200)


def test_prose_in_metadata_raw_counts():
    body = {
        "error": {
            "message": "Provider returned error",
            "metadata": {"raw": "prompt is too long: 9 tokens > 8 maximum"},
        }
    }
    assert classify(400, json.dumps(body).encode()).over == 1


def test_numbers_beyond_all_sense_are_no_numbers():
    body = {"error": {"message": f"prompt is too long: {'9' * 40} tokens > 8 maximum"}}
    refusal = classify(400, json.dumps(body).encode())
    assert (refusal.have, refusal.limit, refusal.over) == (None, 8, None)


def test_a_huge_answer_is_none():
    assert classify(400, ANTHROPIC.encode() + b" " * MAX_BODY_BYTES) is None


def test_nesting_ends_somewhere():
    body = ANTHROPIC
    for _ in range(12):
        body = json.dumps({"error": {"message": body}})
    assert len(list(error_objects(body.encode()))) < 10
    assert classify(400, body.encode()) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "metadata", "raw", "code", "type", "response", "base_resp", "detail"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=examples(150))
@given(_JSON, st.sampled_from([200, 400, 413, 429, 500]))
def test_no_shape_of_answer_raises(value, status):
    refusal = classify(status, json.dumps(value).encode(), "openrouter.ai")
    assert refusal is None or status == 413 or refusal.rule == "openrouter-raw-error"


BETA = "thinking-binding-controls-2026-08-01"
BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "So."}]


def body(**more: Any) -> Document:
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": BLOCKS}]
    return Document(json.dumps({"model": "m", "messages": messages, **more}).encode())


@pytest.mark.parametrize(
    ("host", "betas", "needs", "asks"),
    [
        ("api.anthropic.com", "", BETA, True),
        ("api.anthropic.com", "a", f"a,{BETA}", True),
        ("gateway.example", BETA, "", True),
        ("gateway.example", "a", "", False),
        ("notanthropic.com", "", "", False),
    ],
)
def test_unavailable_members_are_left_out(host: str, betas: str, needs: str, asks: bool) -> None:
    document = body(thinking={"type": "adaptive"})
    assert adoption.drop(document, {"anthropic-beta": betas}, host, False) == needs
    made = json.loads(document.render())
    assert made["messages"][1]["content"] == (BLOCKS if asks else BLOCKS[1:])
    assert ("block_binding" in made["thinking"]) is asks


def test_dropped_tokens_are_not_demanded_twice() -> None:
    document = body(thinking={"type": "adaptive"})
    assert adoption.drop(document, {"anthropic-beta": BETA}, "api.anthropic.com", True) == ""
    assert not document.edits


def test_other_apis_and_other_wishes_are_left_alone() -> None:
    assert adoption.may_drop("anthropic", body())
    assert not adoption.may_drop("openai_chat", body())
    wish = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    assert not adoption.may_drop("anthropic", body(thinking=wish))


# Limits that a refusal names


def test_numbers_of_a_refusal_are_measured_in_our_tokens():
    refusal = Refusal(Cause.INPUT, "x", have=400, limit=200, over=200)
    first, second = (need(refusal, 1000, 4000, resend).tokens for resend in (0, 1))
    assert first == 1000 * (400 - 170) // 400
    assert second > first
    assert need(refusal, 1000, 4000, 2) is None


@pytest.mark.parametrize(
    ("refusal", "needed"),
    [
        (Refusal(Cause.INPUT, "x"), Need(tokens=350)),
        (Refusal(Cause.INPUT, "x", limit=900), Need(tokens=1000 - 765)),
        (Refusal(Cause.INPUT, "x", limit=9000), Need(tokens=350)),
        (Refusal(Cause.BYTES, "x", limit=2000), Need(bytes=2300)),
        (Refusal(Cause.BYTES, "x"), Need(bytes=1400)),
        (Refusal(Cause.FIELD, "x", limit=512), Need(most=512)),
        (Refusal(Cause.RESERVE, "x", have=1200, limit=1000, over=200), Need(tokens=1000 * 350 // 1200)),
        (Refusal(Cause.RESERVE, "x", leave=True), None),
    ],
    ids=["input", "limit", "wide limit", "bytes", "bytes alone", "field", "reserve", "leave"],
)
def test_the_size_that_a_refusal_demands(refusal, needed):
    assert need(refusal, 1000, 4000, 0) == needed


def test_with_a_history_at_the_provider_only_the_excess_is_removed() -> None:
    """The new messages are a small part of what counts, and nothing else can be shortened."""
    refusal = Refusal(Cause.INPUT, "anthropic-prompt", have=201_000, limit=200_000, over=1_000)
    assert need(refusal, 9_000, 30_000, 0, elsewhere=True) == Need(tokens=1_500)
    assert need(refusal, 9_000, 30_000, 1, elsewhere=True) == Need(tokens=2_000)
    assert need(refusal, 1_200, 30_000, 1, elsewhere=True) == Need(tokens=1_200)
    unknown = Refusal(Cause.INPUT, "openrouter-names")
    assert need(unknown, 10_000, 30_000, 0, elsewhere=True) == Need(tokens=5_250)
    assert need(unknown, 10_000, 30_000, 1, elsewhere=True) == Need(tokens=10_000)
    assert need(unknown, 10_000, 30_000, 2, elsewhere=True) is None
