"""The rewriting of a request: its decisions, their order, and that each decision is final."""

import json

import pytest

from penumbra.compress import pipeline
from penumbra.compress.result import Mode
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings
from penumbra.conversation import read
from penumbra.redaction import RedactionError
from penumbra.wire.document import Document
from support.messages_requests import (
    LOG,
    PRETTY,
    SAME,
    SCOPE,
    References,
    answer,
    api,
    body,
    contents,
    go,
    how,
    use,
)


def test_a_large_result_shrinks_and_nothing_else_changes():
    original = body(
        use("toolu_1", command="make"),
        answer("toolu_1", SAME, is_error=True),
        system="s",
        tools=[{"name": "Bash"}],
    )
    rewritten = go(original)
    (text,) = contents(rewritten)
    assert len(text) < len(SAME) / 5
    assert "199 more times" in text
    # Values that are kept don't hold the bytes and lines of a `Text`.
    kept = [*(made.text for made in rewritten.decisions.values()), *rewritten.originals.values()]
    assert {*map(type, kept)} == {str}
    assert text.endswith("done in 3.1s")
    expected = json.loads(json.dumps(original))
    expected["messages"][2]["content"][0]["content"] = text
    assert json.loads(rewritten.body) == expected
    assert rewritten.body.index(b'"is_error": true')


def test_nothing_to_do_is_the_same_object():
    data = json.dumps(body(use("toolu_1"), answer("toolu_1", "ok"))).encode()
    assert go(data).body is data


def test_a_decision_is_final_whatever_the_settings_say_later():
    turn = [use("toolu_1", command="make"), answer("toolu_1", SAME)]
    first = go(body(*turn))
    later = body(*turn, use("toolu_2"), answer("toolu_2", PRETTY))
    for mode in (Mode.SAFE, Mode.AGGRESSIVE, Mode.DISABLED):
        second = go(later, known=first.decisions, settings=Settings(mode=mode))
        assert contents(second)[0] == contents(first)[0]
        assert [entry.new for entry in second.shown] == [False, True]
    kept = go(body(*turn), settings=Settings(mode=Mode.DISABLED))
    assert contents(go(later, known=kept.decisions))[0] == SAME


def test_a_growing_conversation_keeps_its_prefix_to_the_byte():
    messages, known, previous = [], {}, b""
    for number, text in enumerate([SAME, PRETTY, LOG, "hunter2 " + LOG, LOG, PRETTY]):
        messages += [use(f"toolu_{number}", command="x"), answer(f"toolu_{number}", text)]
        rewritten = go(body(*messages), known=known)
        known.update(rewritten.decisions)
        assert rewritten.body.startswith(previous)
        assert len(rewritten.body) < len(json.dumps(body(*messages)))
        previous = rewritten.body.removesuffix(b"]}")
    assert how(rewritten)[4:] == ["duplicate", "duplicate"]


def test_secrets_leave_even_where_nothing_else_is_done():
    secret = "password is hunter2, do not tell"
    for settings in (
        Settings(mode=Mode.DISABLED),
        Settings(skip_tools=frozenset({"bash"})),
        Settings(strategy="passthrough"),
        Settings(),
    ):
        rewritten = go(body(use("toolu_1"), answer("toolu_1", secret)), settings=settings)
        assert contents(rewritten) == ["password is [REDACTED:test:abcdef], do not tell"]
        assert rewritten.shown[0].facts.redactions == {"test": 1}
    off = go(body(use("toolu_1"), answer("toolu_1", secret)), settings=Settings(redact_secrets=False))
    assert contents(off) == [secret]


def test_redaction_fails_closed_and_everything_else_open(monkeypatch):
    def broken(text, hint=""):
        raise RedactionError("no")

    with pytest.raises(RedactionError):
        go(body(use("toolu_1"), answer("toolu_1", SAME)), redact=broken)

    def fail(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(pipeline, "shorten", fail)
    assert contents(go(body(use("toolu_1"), answer("toolu_1", "x hunter2")))) == ["x [REDACTED:test:abcdef]"]


def test_skipped_tools_keep_their_results():
    for skip in ("bash", "Bash"):
        settings = Settings(skip_tools=frozenset({skip}))
        assert contents(go(body(use("toolu_1"), answer("toolu_1", SAME)), settings=settings)) == [SAME]
    assert contents(
        go(body(use("toolu_1"), answer("toolu_1", SAME)), settings=Settings(skip_tools=frozenset({"read"})))
    ) != [SAME]


def test_forge_is_taken_out_and_honoured():
    messages = [use("toolu_1"), {**answer("toolu_1", SAME), "_forge": {"tool_status": "ok"}}]
    rewritten = go(body(*messages, _forge={"tool_output_compression": "off", "debug": {}}))
    assert contents(rewritten) == [SAME]
    assert b"_forge" not in rewritten.body
    with pytest.raises(OverrideError, match="must be a string or object"):
        go(body(*messages, _forge={"tool_output_compression": True}))
    with pytest.raises(OverrideError, match="<= 1048576"):
        go(
            b'{"model":"m","messages":[],"_forge":{"tool_output_compression":{"max_output_bytes":123456789012345678901234567890}}}'
        )


def test_a_threshold_is_honoured():
    assert contents(go(body(use("toolu_1"), answer("toolu_1", SAME)), threshold="off")) == [SAME]
    assert contents(go(body(use("toolu_1"), answer("toolu_1", SAME)), threshold="1k")) == [SAME]
    assert contents(go(body(use("toolu_1"), answer("toolu_1", SAME)), threshold="0")) != [SAME]


def test_callers_and_conversations_have_keys_of_their_own():
    def keys(scope=SCOPE, opening="go", call_id="toolu_1", name="Bash", text=SAME):
        data = json.dumps(
            {
                **body(use(call_id, name), answer(call_id, text)),
                "messages": [{"role": "user", "content": opening}, use(call_id, name), answer(call_id, text)],
            }
        )
        request = read.read(Document(data.encode()), api("anthropic-messages"), Settings(), scope)
        return {item.key for item in request.items}

    base = keys()
    assert keys() == base
    for other in (
        keys(scope=b"t" * 32),
        keys(call_id="toolu_2"),
        keys(name="Run"),
        keys(text="x"),
        keys(opening="stop"),
    ):
        assert other.isdisjoint(base)
    long = "toolu_0123456789abcdefghijk"
    assert keys(call_id=long) == keys(call_id=long, opening="another beginning")


def test_string_and_list_shapes_of_the_same_text_are_one_decision():
    as_string = go(body(use("toolu_1"), answer("toolu_1", SAME)))
    as_list = go(
        body(
            use("toolu_1"),
            answer("toolu_1", [{"type": "text", "text": SAME, "cache_control": {"type": "ephemeral"}}]),
        ),
        known=as_string.decisions,
    )
    (blocks,) = contents(as_list)
    assert blocks == [
        {"type": "text", "text": contents(as_string)[0], "cache_control": {"type": "ephemeral"}}
    ]


def test_a_cut_result_is_marked_and_its_original_is_kept():
    text = "\n".join(f"line {number} of a file without end {number * number}" for number in range(9000))
    rewritten = go(
        body(use("toolu_1", command="cat x"), answer("toolu_1", text + "hunter2")), references=References()
    )
    (sent,) = contents(rewritten)
    ref = rewritten.shown[0].facts.ref
    assert sent.startswith(f"<<<SHADOW:{ref}>>>\n")
    assert len(sent.encode()) < 70_000
    assert rewritten.originals == {ref: text + "[REDACTED:test:abcdef]"}


def test_a_body_of_another_shape_is_no_request():
    assert (
        read.read(Document(b'{"model":"m","messages":{}}'), api("anthropic-messages"), Settings(), SCOPE)
        is None
    )
