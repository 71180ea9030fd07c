"""Results keep their references to earlier results as long as the request contains these."""

import json
import re

import pytest
from msgspec import structs

from penumbra.compress.result import Mode
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.earlier_texts import EarlierTexts
from penumbra.conversation.line_index import LineIndexes
from penumbra.wire.document import Document
from support.messages_requests import (
    LOG,
    PRETTY,
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
from support.said_again import expand


def test_the_later_of_two_identical_results_names_the_earlier():
    messages = [use("toolu_1"), answer("toolu_1", LOG), use("toolu_2", "Other"), answer("toolu_2", LOG)]
    rewritten = go(body(*messages), settings=Settings(mode=Mode.SAFE))
    assert contents(rewritten) == [LOG, "[Duplicate of Bash; see earlier result]"]
    assert contents(go(body(*messages), settings=Settings(mode=Mode.SAFE, dedup=False))) == [LOG, LOG]
    assert contents(go(body(*messages), settings=Settings(mode=Mode.DISABLED))) == [LOG, LOG]


@pytest.mark.parametrize("step", ["same", "by_reference"])
def test_results_are_shortened_without_references_if_these_fail(step, monkeypatch, caplog):
    def fails(*_, **__):
        raise RecursionError

    messages = [use("toolu_1"), answer("toolu_1", SOURCE), use("toolu_2", "Other"), answer("toolu_2", PRETTY)]
    without = go(body(*messages), settings=Settings(mode=Mode.STANDARD))
    monkeypatch.setattr(EarlierTexts, step, fails)
    rewritten = go(body(*messages), settings=Settings(mode=Mode.STANDARD))
    assert contents(rewritten) == contents(without) != [SOURCE, PRETTY]
    assert "leaves a result of Other as it is: RecursionError" in caplog.text


def test_expand_context_resolves_every_reference():
    messages = [use("toolu_1"), answer("toolu_1", LOG), use("toolu_2"), answer("toolu_2", LOG)]
    rewritten = go(body(*messages), settings=Settings(mode=Mode.SAFE), references=References())
    ref = References().ref(LOG)
    assert contents(rewritten)[1] == f"<<<SHADOW:{ref}>>>\n[Duplicate of Bash; see earlier result]"
    assert rewritten.originals == {ref: LOG}
    edited = go(body(*reads(SOURCE, EDITED)), references=References())
    ref = References().ref(EDITED)
    assert contents(edited)[1].startswith(f"<<<SHADOW:{ref}>>>\n")
    assert edited.originals == {ref: EDITED}
    assert [entry.facts.ref for entry in edited.shown] == ["", ref]


def test_failures_and_short_texts_are_sent_each_time():
    short = "File has not been read yet. Read it first before writing to it."
    for text, more in ((short, {}), (LOG, {"is_error": True}), (f"{LOG}\nExit code: 1", {})):
        messages = [use("toolu_1"), answer("toolu_1", text), use("toolu_2"), answer("toolu_2", text, **more)]
        assert contents(go(body(*messages), settings=Settings(mode=Mode.SAFE)))[1] == text


def test_a_report_of_failures_is_no_duplicate():
    failing = f"{LOG}\nError: the build of src/a.c failed"
    messages = [use("toolu_1"), answer("toolu_1", failing), use("toolu_2"), answer("toolu_2", failing)]
    assert contents(go(body(*messages), settings=Settings(mode=Mode.SAFE)))[1] == failing
    # A file that is read again is a duplicate even if it contains failures.
    assert how(go(body(*reads(failing, failing)), settings=Settings(mode=Mode.SAFE)))[1] == "duplicate"


def test_a_reference_whose_referent_has_gone_is_replaced_by_the_text():
    # Such long ids identify a result after any earlier messages.
    one, two = "toolu_01AbCdEfGhIjKlMnOp2345", "toolu_02AbCdEfGhIjKlMnOp2345"
    messages = [use(one), answer(one, LOG), use(two), answer(two, LOG)]
    safe = Settings(mode=Mode.SAFE)
    first = go(body(*messages), settings=safe)
    compacted = go(
        body(*messages[2:], use("toolu_3"), answer("toolu_3", "x")), known=first.decisions, settings=safe
    )
    assert contents(compacted) == [LOG, "x"]
    again = go(body(*messages[2:]), known={**first.decisions, **compacted.decisions}, settings=safe)
    assert contents(again) == [LOG]
    # The provider has never seen the text, so its form is new, even if the provider's cache may be warm.
    answered = body(*messages[2:], {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"})
    raw = go(answered, known=first.decisions, settings=Settings(mode=Mode.SAFE, adopt="raw"))
    assert how(raw) == ["kept"]


SOURCE = "\n".join(f"    value_{number} = compute({number}, other={number * 7})" for number in range(240))
EDITED = SOURCE.replace("compute(80,", "compute_differently(80,")


def reads(*texts):
    messages = []
    for number, text in enumerate(texts):
        messages += [use(f"toolu_{number}", "Read", file_path="a.py"), answer(f"toolu_{number}", text)]
    return messages


def test_repeated_lines_become_references():
    rewritten = go(body(*reads(SOURCE, EDITED)))
    first, second = contents(rewritten)
    assert first == SOURCE
    assert "compute_differently(80," in second
    assert "same as in Read a.py, lines " in second
    assert len(second) < len(SOURCE) / 2
    assert expand(second, {"Read a.py": first}, is_file=True) == EDITED
    for off in (Settings(mode=Mode.SAFE), Settings(dedup=False)):
        assert contents(go(body(*reads(SOURCE, EDITED)), settings=off)) == [SOURCE, EDITED]


def test_lines_are_those_of_the_file_where_the_call_tells_them():
    asked = {"command": "sed -n '3000,3300p' src/a.py"}
    first = [use("toolu_1", "Bash", **asked)]
    for cut, where in (("", r"lines 3111 to 3238\]"), ("\n…900 tokens truncated…", r"of its output\]")):
        messages = [*first, answer("toolu_1", SOURCE + cut), *reads(EDITED)]
        messages[2]["content"][0]["id"] = messages[3]["content"][0]["tool_use_id"] = "toolu_2"
        messages[2]["content"][0]["input"] = {"file_path": "src/a.py"}
        assert re.search(rf"same as in Bash sed src/a.py, .*{where}", contents(go(body(*messages)))[1])


def test_a_part_of_a_file_that_a_later_call_has_printed_otherwise_is_named_with_its_call():
    """The later result hides lines behind a reference, so its lines have no numbers of the file."""
    texts = [SOURCE, f"import os\n{SOURCE}", f"import os\nimport re\n{SOURCE}"]
    messages = []
    for number, text in enumerate(texts):
        name = f"toolu_{number}"
        messages += [use(name, "Bash", command=f"sed -n '1,{300 + number}p' a.py"), answer(name, text)]
    _, second, third = contents(go(body(*messages)))
    assert re.search(r"same as in Bash sed a\.py, lines [0-9]+ to [0-9]+\]", second)
    assert re.search(r"same as in Bash sed a\.py \(the 1st\), lines [0-9]+ to [0-9]+\]", third)


WRITE = [use("toolu_w", "Write", file_path="a.py", content=SOURCE), answer("toolu_w", "ok")]


def test_a_file_that_the_agent_has_written_is_read_by_reference():
    messages = [*WRITE, *reads(EDITED)]
    first = go(body(*messages))
    read = contents(first)[1]
    assert "same as in what Write a.py was given, lines " in read
    assert expand(read, {"what Write a.py was given": SOURCE}, is_file=True) == EDITED
    assert contents(go(body(*messages, *reads("x")[:0]), known=first.decisions)) == contents(first)
    # Without the call, or with another text in the call, no earlier text has the lines.
    assert contents(go(body(*messages[2:]), known=first.decisions)) == [EDITED]
    other = [use("toolu_w", "Write", file_path="a.py", content="x"), *messages[1:]]
    assert contents(go(body(*other), known=first.decisions)) == ["ok", EDITED]


def test_a_reference_to_a_call_is_decided_once():
    messages = body(*WRITE, *reads(EDITED))
    settings = Settings(adopt="compress")
    request = read.read(Document(json.dumps(messages).encode()), api("anthropic-messages"), settings, SCOPE)
    known = go(messages, settings=settings).decisions
    assert any(decision.facts.referents for decision in known.values())
    assert len(rewrite.undecided(request, {})) == 2
    assert rewrite.undecided(request, known) == []


def test_a_reference_ends_with_its_referent():
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


def test_references_name_lines_of_shortened_results():
    texts = [
        RUN + "\n" + "\n".join(f"one {n} and {n * n} of it" for n in range(400)),
        "\n".join([*RUN.split("\n")[:10], "that was it"]),
    ]
    settings = Settings(dedup=True)
    rewritten = go(body(*runs(*texts)), settings=settings, references=References())
    first, second = contents(rewritten)
    assert first.startswith("<<<SHADOW:")
    assert second.startswith("<<<SHADOW:")
    assert "left out" in first
    assert "same as in Bash ./run, lines " in second
    # The first result shows each line that the reference stands for.
    lines = first.split("\n")
    count = int(re.search(r"\[(\d+) lines: same as in Bash ./run, ", second)[1])
    place = lines.index(RUN.split("\n")[0])
    assert lines[place + 1 : place + 1 + count] == RUN.split("\n")[1 : count + 1]
    # A new decision about a result may show other lines, so references to the result are also decided again.
    known = dict(rewritten.decisions)
    keys = [shown.item.key for shown in rewritten.shown]
    data = body(*runs(*texts))
    assert not go(data, known, settings, references=References()).decisions
    again = go(data, {keys[1]: known[keys[1]]}, settings, references=References())
    assert set(again.decisions) == set(keys)
    assert contents(again) == [first, second]
    # After another form has replaced the result, no reference names the result.
    key = keys[0]
    known[key] = structs.replace(
        known[key], text="gone", facts=structs.replace(known[key].facts, how="recovered")
    )
    again = contents(go(body(*runs(*texts)), known, settings, references=References()))
    assert again[0] == "gone"
    assert "same as in " not in again[1]


def test_a_kept_line_index_changes_the_cost_only():
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
        with_index = go(data, known=kept, line_indexes=line_indexes)
        without = go(data, known=fresh)
        assert with_index.body == without.body
        kept.update(with_index.decisions)
        fresh.update(without.decisions)
    assert sum("back_references" in entry.facts.stages for entry in with_index.shown) >= 2


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


def test_references_to_a_result_whose_id_comes_again_stay():
    safe = Settings(mode=Mode.SAFE)
    for messages, settings in (
        ([use("toolu_1"), answer("toolu_1", LOG), use("toolu_2"), answer("toolu_2", LOG)], safe),
        (reads(SOURCE, EDITED), None),
        ([*WRITE, *reads(EDITED)], None),
    ):
        first = go(body(*messages), settings=settings)
        assert any(decision.facts.referents for decision in first.decisions.values())
        call_id = messages[0]["content"][0]["id"]
        again = [*messages, use(call_id, "Other"), answer(call_id, "x")]
        rewritten = go(body(*again), known=first.decisions, settings=settings)
        assert contents(rewritten) == [*contents(first), "x"]
        # Later results do not refer to it.
        more = [*again, use("toolu_9"), answer("toolu_9", LOG)]
        assert "duplicate" not in how(go(body(*more), known=first.decisions, settings=safe))[-1:]


def test_new_lines_of_a_screen_stay():
    def screen(first, last):
        words = ("wrote", "reads", "moves", "checks", "drops")
        return [
            f"{words[n % 5]} {words[n % 3]}-{n * n} of out/part-{n}.bin {'x' * (n % 9)}"
            for n in range(first, last)
        ]

    before, new = screen(0, 100), screen(900, 906)
    again = "\n".join([*before[40:], *new[:3], *before[:45], *new[3:]])
    messages = []
    for number, text in enumerate(("\n".join(before), again)):
        asked = use(f"toolu_{number}", "Bash", command=f"./watch {number}")
        messages += [asked, answer(f"toolu_{number}", text)]
    alone = contents(go(body(*messages[2:]), references=References()))[0]
    second = contents(go(body(*messages), references=References()))[1]
    assert all(line in second for line in new)
    assert len(second) < len(alone) / 2


def test_numbers_of_the_file_itself_are_part_of_its_lines():
    """The file has new codes: only the number of each line has changed."""
    names = [f"status_{n * 7919}_of_the_machine" for n in range(80)]
    old, new = ("\n".join(f"{first + n}: {name}" for n, name in enumerate(names)) for first in (1, 301))
    shell = {"command": "cat codes.yaml"}
    for tool, arguments in (("Bash", shell), ("read_file", {"path": "codes.yaml"})):
        messages = [
            *(use("toolu_1", tool, **arguments), answer("toolu_1", old)),
            *(use("toolu_2", tool, **arguments), answer("toolu_2", new)),
        ]
        assert contents(go(body(*messages)))[1] == new, tool
        same = [*messages[:3], answer("toolu_2", f"{old}\n{new}")]
        assert "same as in" in contents(go(body(*same)))[1], tool
