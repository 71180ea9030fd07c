"""A request's rewriting: what is decided, in which order, and that a decision is final."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from penumbra.apis import recognise
from penumbra.compress.result import Mode, Redacted
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings
from penumbra.conversation import rewrite
from penumbra.conversation.back_references import expand
from penumbra.conversation.line_index import LineIndexes
from penumbra.redaction import RedactionError
from penumbra.wire.document import Document

SCOPE = b"s" * 32
LOG = "\n".join(f"2026-01-01 00:00:{second % 60:02d} INFO worker idle, nothing to do" for second in range(60))
PRETTY = json.dumps({"items": [{"id": number, "name": f"item {number}"} for number in range(60)]}, indent=4)
SAME = "building\n" * 200 + "done in 3.1s"


def redact(text, hint=""):
    return Redacted(
        text.replace("hunter2", "[REDACTED:test:abcdef]"),
        {"test": text.count("hunter2")} if "hunter2" in text else {},
    )


def api(name):
    return next(entry for entry in recognise.apis() if entry.id == name)


def use(call_id, name="Bash", **arguments):
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": call_id, "name": name, "input": arguments}],
    }


def answer(call_id, content, **more):
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call_id, "content": content, **more}],
    }


def body(*messages, **more):
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}, *messages], **more}


def go(
    body,
    known=None,
    settings=None,
    name="anthropic-messages",
    shadows=None,
    redact=redact,
    line_indexes=None,
    **more,
):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = rewrite.read(Document(data), api(name), settings or Settings(), SCOPE, **more)
    return rewrite.rewrite(request, known or {}, redact, shadows, line_indexes or LineIndexes())


def contents(rewritten):
    found = []
    for message in json.loads(rewritten.body)["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_result":
                found.append(block["content"])
    return found


def how(rewritten):
    return [entry.facts.how for entry in rewritten.shown]


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
    for number, text in enumerate([SAME, PRETTY, LOG, "hunter2 " + LOG, SAME, PRETTY]):
        messages += [use(f"toolu_{number}", command="x"), answer(f"toolu_{number}", text)]
        rewritten = go(body(*messages), known=known)
        known.update(rewritten.decisions)
        assert rewritten.body.startswith(previous)
        assert len(rewritten.body) < len(json.dumps(body(*messages)))
        previous = rewritten.body.removesuffix(b"]}")
    assert how(rewritten)[4:] == ["duplicate", "duplicate"]


def test_the_later_of_two_identical_results_names_the_earlier():
    messages = [use("toolu_1"), answer("toolu_1", LOG), use("toolu_2", "Other"), answer("toolu_2", LOG)]
    rewritten = go(body(*messages), settings=Settings(mode=Mode.SAFE))
    assert contents(rewritten) == [LOG, "[Duplicate of toolu_1 (Bash); see earlier result]"]
    assert contents(go(body(*messages), settings=Settings(mode=Mode.SAFE, dedup=False))) == [LOG, LOG]
    assert contents(go(body(*messages), settings=Settings(mode=Mode.DISABLED))) == [LOG, LOG]


def test_a_reference_whose_referent_has_gone_is_replaced_by_the_text():
    messages = [use("toolu_1"), answer("toolu_1", LOG), use("toolu_2"), answer("toolu_2", LOG)]
    safe = Settings(mode=Mode.SAFE)
    first = go(body(*messages), settings=safe)
    compacted = go(
        body(*messages[2:], use("toolu_3"), answer("toolu_3", "x")), known=first.decisions, settings=safe
    )
    assert contents(compacted) == [LOG, "x"]
    again = go(body(*messages[2:]), known={**first.decisions, **compacted.decisions}, settings=safe)
    assert contents(again) == [LOG]


SOURCE = "\n".join(f"    value_{number} = compute({number}, other={number * 7})" for number in range(80))
EDITED = SOURCE.replace("compute(40,", "compute_differently(40,")


def reads(*texts):
    messages = []
    for number, text in enumerate(texts):
        messages += [use(f"toolu_{number}", "Read", file_path="a.py"), answer(f"toolu_{number}", text)]
    return messages


def test_what_stands_earlier_is_said_by_reference():
    rewritten = go(body(*reads(SOURCE, EDITED)))
    first, second = contents(rewritten)
    assert first == SOURCE
    assert "compute_differently(40," in second
    assert "same as in result toolu_0" in second
    assert len(second) < len(SOURCE) / 3
    assert expand(second, {"result toolu_0": first}) == EDITED
    for off in (Settings(mode=Mode.SAFE), Settings(dedup=False)):
        assert contents(go(body(*reads(SOURCE, EDITED)), settings=off)) == [SOURCE, EDITED]


WRITE = [use("toolu_w", "Write", file_path="a.py", content=SOURCE), answer("toolu_w", "ok")]


def test_a_file_that_the_agent_has_written_is_read_by_reference():
    messages = [*WRITE, *reads(EDITED)]
    first = go(body(*messages))
    read = contents(first)[1]
    assert "same as in call toolu_w]" in read
    assert expand(read, {"call toolu_w": SOURCE}) == EDITED
    assert contents(go(body(*messages, *reads("x")[:0]), known=first.decisions)) == contents(first)
    # Without the call, or with another text in it, the lines are nowhere else.
    assert contents(go(body(*messages[2:]), known=first.decisions)) == [EDITED]
    other = [use("toolu_w", "Write", file_path="a.py", content="x"), *messages[1:]]
    assert contents(go(body(*other), known=first.decisions)) == ["ok", EDITED]


def test_what_is_decided_by_reference_to_a_call_is_not_asked_for_again():
    messages = body(*WRITE, *reads(EDITED))
    settings = Settings(adopt="compress")
    read = rewrite.read(Document(json.dumps(messages).encode()), api("anthropic-messages"), settings, SCOPE)
    known = go(messages, settings=settings).decisions
    assert any(decision.facts.referents for decision in known.values())
    assert len(rewrite.undecided(read, {})) == 2
    assert rewrite.undecided(read, known) == []


def test_long_ids_are_named_by_their_end():
    one, two = "toolu_01AAAAAAAAAAAAAAbbbbbbb1", "toolu_01AAAAAAAAAAAAAAbbbbbbb2"
    said = []
    for later in (two, "toolu_01CCCCCCCCCCCCCCbbbbbbb1"):
        messages = [use(one, "Read"), answer(one, SOURCE), use(later, "Read"), answer(later, EDITED)]
        said.append(contents(go(body(*messages)))[1])
    assert "same as in result …bbbbbbb1]" in said[0]
    assert f"same as in result {one}]" in said[1]


def test_a_restatement_ends_with_its_referent():
    first = go(body(*reads(SOURCE, EDITED)))
    assert contents(go(body(*reads(SOURCE, EDITED)[2:]), known=first.decisions)) == [EDITED]
    with_more = go(body(*reads(SOURCE, EDITED, "x")), known=first.decisions)
    assert contents(with_more)[:2] == contents(first)


def runs(*texts):
    messages = []
    for number, text in enumerate(texts):
        messages += [use(f"toolu_{number}", "Bash", command="./run"), answer(f"toolu_{number}", text)]
    return messages


RUN = "\n".join(
    f"building module_{number} from src/module_{number}.c with all its parts" for number in range(40)
)


def test_what_a_shortened_result_shows_is_said_by_reference_too():
    texts = [
        RUN + "\n" + "\n".join(f"{end} {n} and {n * n} of it" for n in range(400)) for end in ("one", "two")
    ]
    settings = Settings(dedup=True)
    rewritten = go(body(*runs(*texts)), settings=settings, shadows=Shadows())
    first, second = contents(rewritten)
    assert first.startswith("<<<SHADOW:")
    assert second.startswith("<<<SHADOW:")
    assert "left out" in first
    assert "same as in result toolu_0]" in second
    # What it refers to is shown there, line by line.
    lines = first.split("\n")
    count = int(re.search(r"\[(\d+) lines: same as in result toolu_0\]", second)[1])
    place = lines.index(RUN.split("\n")[0])
    assert lines[place + 1 : place + 1 + count] == RUN.split("\n")[1 : count + 1]
    # What is decided anew might show other lines: what refers to it is decided anew as well.
    known = dict(rewritten.decisions)
    keys = [shown.item.key for shown in rewritten.shown]
    data = body(*runs(*texts))
    assert not go(data, known, settings, shadows=Shadows()).decisions
    again = go(data, {keys[1]: known[keys[1]]}, settings, shadows=Shadows())
    assert set(again.decisions) == set(keys)
    assert contents(again) == [first, second]
    # Once another form has taken its place, nothing refers to it any more.
    key = keys[0]
    known[key] = replace(known[key], text="gone", facts=replace(known[key].facts, how="recovered"))
    again = contents(go(body(*runs(*texts)), known, settings, shadows=Shadows()))
    assert again[0] == "gone"
    assert "same as in result" not in again[1]


def test_what_is_known_of_a_conversation_changes_the_cost_only():
    texts = [
        SOURCE,
        EDITED,
        EDITED.replace("value_7 ", "worth_7 "),
        PRETTY,
        SOURCE + "\n# end",
        PRETTY + "\n",
    ]
    line_indexes, kept, fresh = LineIndexes(), {}, {}
    for count in range(1, len(texts) + 1):
        data = body(*reads(*texts[:count]))
        with_shelves = go(data, known=kept, line_indexes=line_indexes)
        without = go(data, known=fresh)
        assert with_shelves.body == without.body
        kept.update(with_shelves.decisions)
        fresh.update(without.decisions)
    assert sum("restate" in entry.facts.stages for entry in with_shelves.shown) >= 2


def test_ids_that_occur_twice_are_no_referents():
    messages = [
        use("toolu_1"),
        answer("toolu_1", LOG),
        use("toolu_1"),
        answer("toolu_1", PRETTY),
        use("toolu_2"),
        answer("toolu_2", LOG),
    ]
    assert "duplicate" not in how(go(body(*messages), settings=Settings(mode=Mode.SAFE)))


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

    monkeypatch.setattr(rewrite.pipeline, "shorten", fail)
    assert contents(go(body(use("toolu_1"), answer("toolu_1", "x hunter2")))) == ["x [REDACTED:test:abcdef]"]


def test_skipped_tools_keep_their_results():
    for skip in ("bash", "Bash"):
        settings = Settings(skip_tools=frozenset({skip}))
        assert contents(go(body(use("toolu_1"), answer("toolu_1", SAME)), settings=settings)) == [SAME]
    assert contents(
        go(body(use("toolu_1"), answer("toolu_1", SAME)), settings=Settings(skip_tools=frozenset({"read"})))
    ) != [SAME]


def answered(*results):
    """A history in which every result has been answered already."""
    messages = []
    for number, text in enumerate(results):
        messages += [use(f"toolu_{number}"), answer(f"toolu_{number}", text)]
    return [*messages, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "next"}]


LONG = SAME * 4
MARKED = [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]


def test_what_the_provider_has_seen_raw_stays_raw():
    cached = body(*answered(LONG), system=MARKED)
    assert how(go(cached)) == ["adopted"]
    assert how(go(body(*answered(LONG)))) == ["shortened"]
    assert how(go(body(*answered(LONG)), settings=Settings(adopt="raw"))) == ["adopted"]
    assert how(go(cached, settings=Settings(adopt="compress"))) == ["shortened"]
    assert how(go(body(*answered("x\n\n\n\n" * 9), system=MARKED))) == ["kept"]


def test_results_in_front_of_thinking_stay_raw():
    thinking = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "a"}],
    }
    history = [use("toolu_1"), answer("toolu_1", LONG), thinking, {"role": "user", "content": "next"}]
    tail = [use("toolu_2"), answer("toolu_2", LONG + "!")]
    assert how(go(body(*history))) == ["adopted"]
    assert how(go(body(*history, *tail))) == ["adopted", "shortened"]


def test_adopted_results_stay_adopted():
    history = answered(LONG)
    first = go(body(*history, system=MARKED))
    second = go(body(*history, system=MARKED), known=first.decisions, settings=Settings(adopt="compress"))
    assert how(second) == ["adopted"]
    assert second.decisions == {}


def test_a_text_that_the_client_changed_in_a_history_of_ours_is_new():
    messages = [use("toolu_1"), answer("toolu_1", LOG), use("toolu_2"), answer("toolu_2", "b")]
    first = go(body(*messages, system=MARKED))
    messages[1] = answer("toolu_1", "[trimmed by the client] hunter2 " + SAME)
    changed = go(
        body(
            *messages, {"role": "assistant", "content": "a"}, {"role": "user", "content": "n"}, system=MARKED
        ),
        known=first.decisions,
    )
    assert how(changed) == ["shortened", "kept"]
    assert "hunter2" not in contents(changed)[0]


def test_chat_histories_are_taken_for_cached_once_they_are_long():
    def chat(text):
        calls = [
            {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"command":"make"}'}}
        ]
        messages = [
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": text},
        ]
        return {
            "model": "m",
            "messages": [*messages, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}],
        }

    assert how(go(chat("x \n" * 2000), name="openai-chat")) == ["adopted"]
    assert how(go(chat("same line\n" * 100), name="openai-chat")) == ["shortened"]


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
        request = rewrite.read(Document(data.encode()), api("anthropic-messages"), Settings(), scope)
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


class Shadows:
    def ref(self, original):
        return f"shadow_{len(original):032x}"

    def prefix(self, ref):
        return f"<<<SHADOW:{ref}>>>\n"

    def overhead(self):
        return self.prefix(self.ref(""))


def test_what_lost_something_is_marked_and_its_original_is_kept():
    text = "\n".join(f"line {number} of a file without end {number * number}" for number in range(9000))
    rewritten = go(
        body(use("toolu_1", command="cat x"), answer("toolu_1", text + "hunter2")), shadows=Shadows()
    )
    (sent,) = contents(rewritten)
    ref = rewritten.shown[0].facts.ref
    assert sent.startswith(f"<<<SHADOW:{ref}>>>\n")
    assert len(sent.encode()) < 70_000
    assert rewritten.originals == {ref: text + "[REDACTED:test:abcdef]"}


def test_the_same_bytes_in_every_process():
    script = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "import test_rewrite as t\n"
        "print(t.go(t.body(t.use('toolu_1'), t.answer('toolu_1', t.SAME), t.use('toolu_2'), t.answer('toolu_2', t.PRETTY), t.use('toolu_3'), t.answer('toolu_3', t.LOG))).body)"
    )
    folders = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "..", "..", "..", "addon")]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, *folders],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_what_does_not_look_like_the_api_is_nobodys():
    assert (
        rewrite.read(Document(b'{"model":"m","messages":{}}'), api("anthropic-messages"), Settings(), SCOPE)
        is None
    )
