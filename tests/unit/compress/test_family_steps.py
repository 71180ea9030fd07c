"""The steps of family rules, one by one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.families.patterns import LINE_LIMIT, LinearPattern
from penumbra.compress.families.steps import Step, step
from penumbra.compress.result import Loss
from penumbra.rule_schemas.command_rules import AnyStep
from penumbra.rule_schemas.schema import RuleError, convert
from support.examples import examples


def made(rule: dict[str, Any]) -> Step:
    return step(convert(AnyStep, rule, "test").rule)


def run(rule: dict[str, Any], text: str) -> str:
    """What a step makes of a text, which is the same where its patterns are the user's."""
    lines = text.split("\n")
    after = made(rule).apply(lines)
    assert step(convert(AnyStep, rule, "test").rule, LinearPattern).apply(lines) == after
    return "\n".join(after)


def test_fold_counts_runs() -> None:
    rule = {"fold": r"ok (?P<name>\w+)$", "say": "[{n} ok: {first_name} to {last_name}]", "min": 2}
    assert run(rule, "ok a\nok b\nbad c\nok d\nok e\nok f") == "[2 ok: a to b]\nbad c\n[3 ok: d to f]"
    assert run(rule, "ok a\nbad\nok b") == "ok a\nbad\nok b"


def test_fold_keeps_ends() -> None:
    rule = {"fold": "ok", "say": "[{n}]", "min": 2, "head": 1, "tail": 1}
    assert run(rule, "ok 1\nok 2\nok 3\nok 4") == "ok 1\n[2]\nok 4"
    assert run(rule, "ok 1\nok 2\nok 3") == "ok 1\nok 2\nok 3"


def test_fold_by_group_and_over_blanks() -> None:
    rule = {"fold": r"(?P<file>\w+)::", "say": "[{n} in {file}]", "min": 2, "by": "file"}
    assert run(rule, "a::1\na::2\nb::1\nb::2\nb::3") == "[2 in a]\n[3 in b]"
    rule = {"fold": "ok", "say": "[{n}]", "min": 2, "blanks": True}
    assert run(rule, "ok\n\nok\n\nend") == "[2]\n\nend"
    assert run(rule, "ok\n\nend") == "ok\n\nend"


def test_fold_scattered() -> None:
    rule = {"fold": "get", "say": "[{n} here and below]", "min": 2, "scattered": True}
    assert run(rule, "get 1\nx\nget 2\ny") == "[2 here and below]\nx\ny"
    assert run(rule, "get 1\nx") == "get 1\nx"


def test_fold_scattered_by_group_counts_each_for_itself() -> None:
    """Lines of two steps that run side by side are not counted as those of the first."""
    rule = {"fold": r"#(?P<step>\d) get", "say": "[#{step}: {n}]", "min": 2, "scattered": True, "by": "step"}
    assert run(rule, "#1 get\n#2 get\n#1 x\n#1 get\n#2 get\n#3 get") == "[#1: 2]\n[#2: 2]\n#1 x\n#3 get"


def test_fold_names_each_that_differs() -> None:
    rule = {"fold": r"ok (?P<file>\S+)?", "say": "[{n} of {distinct_file}: {each_file}]", "min": 2}
    assert run(rule, "ok b\nok a\nok b\nend") == "[3 of 2: b, a]\nend"


def test_fold_of_trees_keeps_what_stands_above_others() -> None:
    rule = {"fold": r" +\w[^)]*$", "say": "[{n}]", "min": 2, "nested": True}
    text = "top\n  all\n    a\n    b\n  some\n    c\n    d\n    e (FAILED)\n    f\n\n    g"
    assert run(rule, text) == "top\n[3]\n  some\n[2]\n    e (FAILED)\n    f\n\n    g"


def test_counts_agree_with_their_nouns() -> None:
    rule = {"fold": "x", "say": "[{n|line|lines} of x]", "min": 1}
    assert run(rule, "x\ny\nx\nx") == "[1 line of x]\ny\n[2 lines of x]"
    rule = {"block": "out", "until": "end", "say": "[{n|line|lines} in {blocks|block|blocks}]", "min": 1}
    assert (
        run(rule, "out\na\nend\nout\nb\nc\nend")
        == "out\n[1 line in 1 block]\nend\nout\n[2 lines in 1 block]\nend"
    )


def test_fold_spares_critical_lines_unless_safe() -> None:
    rule: dict[str, Any] = {"fold": "get", "say": "[{n}]", "min": 2}
    text = "get 1\nget 2\nget 3: error: no such host\nget 4\nget 5"
    assert run(rule, text) == "[2]\nget 3: error: no such host\n[2]"
    assert run({**rule, "safe": True}, text) == "[5]"


def test_steps_within_a_part() -> None:
    rule = {"fold": "x", "say": "[{n}]", "min": 2, "within": {"from": "begin", "until": "end"}}
    assert run(rule, "x\nx\nbegin\nx\nx\nend\nx\nx\nbegin\nx\nx") == "x\nx\nbegin\n[2]\nend\nx\nx\nbegin\n[2]"


def test_a_line_can_forbid_a_step() -> None:
    rule = {"fold": "x", "say": "[{n}]", "min": 2, "unless": "FAIL"}
    assert run(rule, "x\nx\nFAIL") == "x\nx\nFAIL"
    assert run(rule, "x\nx\nno FAIL") == "[2]\nno FAIL"


def test_group() -> None:
    rule = {"group": r"(?P<key>[^:]+):(?P<rest>\d+:)"}
    assert run(rule, "a:1:x\na:2:y\nb:3:z\nrest") == "a\n 1:x\n 2:y\nb:3:z\nrest"


def test_group_with_context() -> None:
    rule = {"group": r"(?P<key>[^:\d]+):(?P<rest>\d+:)", "also": r"-(?P<rest>\d+-)", "through": "--$"}
    text = "a.py-1-x\na.py:2:y\n--\na.py:8:z\na.py-9-w\nother"
    assert run(rule, text) == "a.py\n 1-x\n 2:y\n--\n 8:z\n 9-w\nother"


def test_group_takes_long_lines() -> None:
    rule = {"group": r"(?P<key>[^:]+):(?P<rest>\d+:)"}
    long = "x" * (LINE_LIMIT * 2)
    assert run(rule, f"a:1:{long}\na:2:y") == f"a\n 1:{long}\n 2:y"


def test_hoist() -> None:
    rule = {
        "hoist": r"(?P<mode>\S+) +(?P<owner>\S+) +(?P<rest>.*)$",
        "columns": ["mode", "owner", "rest"],
        "fields": {"owner": "owner"},
        "min": 2,
    }
    assert run(rule, "r  ann  a\nw  ann  b") == "[owner ann in each of the next 2 lines]\nr a\nw b"
    assert run(rule, "r  ann  a\nw  bob  b") == "r ann a\nw bob b"
    assert run(rule, "r  ann  a") == "r ann a"


def test_same() -> None:
    rule = {"same": "Author: ", "say": "[{line} in each of the {n} commits]", "min": 2}
    assert run(rule, "1\nAuthor: A\n2\nAuthor: A\n3") == "1\n[Author: A in each of the 2 commits]\n2\n3"
    assert run(rule, "1\nAuthor: A\n2\nAuthor: B") == "1\nAuthor: A\n2\nAuthor: B"


def test_block() -> None:
    rule = {
        "block": "diff (?P<name>lock)",
        "until": "diff ",
        "say": "[{name}: {n} lines, {plus} added]",
        "counts": {"plus": r"\+"},
        "min": 2,
    }
    assert (
        run(rule, "diff lock\n+a\n-b\n+c\ndiff other\n+d")
        == "diff lock\n[lock: 3 lines, 2 added]\ndiff other\n+d"
    )
    assert run(rule, "diff lock\n+a\ndiff other") == "diff lock\n+a\ndiff other"
    assert run(rule, "diff lock\n+a\n-fatal: error\ndiff other") == "diff lock\n+a\n-fatal: error\ndiff other"


def test_block_scattered() -> None:
    rule = {"block": "out", "until": "ok", "say": "[{n} in {blocks}]", "head": 0, "scattered": True, "min": 3}
    assert run(rule, "out\na\nok 1\nout\nb\nc\nok 2") == "[5 in 2]\nok 1\nok 2"
    assert run(rule, "out\nok 1") == "out\nok 1"


def test_block_says_where_it_stood() -> None:
    rule = {
        "block": "would change",
        "until": "end",
        "say": "[{n} of lines {first_line} to {last_line}]",
        "places": {"line": r"(?P<line>\d+) "},
        "min": 2,
    }
    assert run(rule, "would change\n7 a\n+ b\n9 c\nend") == "would change\n[3 of lines 7 to 9]\nend"
    assert run(rule, "would change\n+ a\n+ b\nend") == "would change\n+ a\n+ b\nend"


WARNED = "out a\nx\nx\nend\nout b\nx\n[B] Warning: 1 is old\n[B] Warning: 2 is old\nend\nout c\nx\nx\nend"


def test_what_a_block_warns_of_stands_where_it_was_said() -> None:
    rule: dict[str, Any] = {"block": "out", "until": "end", "say": "[{n} left out]", "min": 1}
    rule |= {"safe": True, "warnings": True}
    warning = "[B] Warning: 1 is old [1 more like it]"
    assert run(rule, WARNED) == (
        f"out a\n[2 left out]\nend\nout b\n[1 left out]\n{warning}\nend\nout c\n[2 left out]\nend"
    )
    # One marker counts what is left out of all of them, and the warning stands below its own heading.
    rule |= {"head": 0, "scattered": True}
    assert run(rule, WARNED) == f"[7 left out]\nend\nout b\n{warning}\nend\nend"
    assert run({**rule, "warnings": False}, WARNED) == "[10 left out]\nend\nend\nend"


def test_a_block_of_which_too_little_goes_stays() -> None:
    rule = {"block": "out", "until": "end", "say": "[{n}]", "min": 2, "safe": True, "warnings": True}
    text = "out\nWARNING: a\nWARNING: b\nx\nend"
    assert run(rule, text) == text
    assert run({**rule, "head": 0, "scattered": True, "min": 3}, text) == text


def test_context() -> None:
    rule = {
        "context": " ",
        "near": "[+-]",
        "keep": 1,
        "within": {"from": "@@"},
        "say": " [{n} left out]",
        "min": 2,
    }
    assert run(rule, " a\n@@\n b\n c\n-d\n e\n f\n g") == " a\n@@\n [3 left out]\n c\n-d\n e"
    assert run(rule, "@@\n b\n c\n-d") == "@@\n b\n c\n-d"


def test_drop_and_rewrite() -> None:
    assert run({"drop": r" *\|$"}, "a\n  |\nb |") == "a\nb |"
    assert run({"drop": "#+"}, "# error: x\n##") == "# error: x"
    assert run({"rewrite": "=+ (?P<t>.*) =+$", "to": "= {t} =", "loss": "none"}, "=== x ===\ny") == "= x =\ny"


def test_losses() -> None:
    assert made({"fold": "x", "say": ""}).loss is Loss.LOSSY
    assert made({"group": "(?P<key>x)(?P<rest>)"}).loss is Loss.REVERSIBLE
    assert made({"drop": "x"}).loss is Loss.NONE
    assert made({"rewrite": "x", "to": "", "loss": "lossy"}).loss is Loss.LOSSY


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"rewrite": "x", "to": "y"}, "loss: missing, allowed: none or reversible or lossy"),
        ({"fold": "x"}, "say: missing, allowed: a text"),
        ({"fold": "x", "say": "y", "mim": 4}, "mim: unknown key, did you mean min?"),
        ({"fold": "x", "say": "y", "min": 0}, "min: got 0, allowed: a whole number from 1"),
        ({"fold": "x", "say": "y", "within": {"until": "z"}}, "within.from: missing, allowed: a pattern of RE2 or a list of them"),
        ({"nothing": "x"}, "got nothing, allowed: exactly one of drop, rewrite, group, hoist, same, fold, block, member, context"),
    ],
)  # fmt: skip
def test_incomplete_rules_are_refused(rule: dict[str, Any], told: str) -> None:
    with pytest.raises(RuleError) as caught:
        made(rule)
    assert str(caught.value) == f"test: {told}"


def test_a_broken_pattern_is_refused() -> None:
    with pytest.raises(re.error):
        made({"fold": "(", "say": ""})


LINES = st.lists(
    st.sampled_from(["ok 1", "ok 2", "", "a:1:x", "a:2:y", "b:3:z", "error: x", "+a", " b", "@@", "end"])
)


@settings(max_examples=examples(200), deadline=None)
@given(LINES, st.integers(1, 4))
def test_what_a_fold_says_adds_up(lines: list[str], least: int) -> None:
    """Lines that went and counts that came are the same number."""
    rule = {"fold": "ok", "say": "<{n}>", "min": least}
    after = made(rule).apply(lines)
    said = sum(int(line[1:-1]) for line in after if line.startswith("<"))
    assert lines.count("ok 1") + lines.count("ok 2") == said + after.count("ok 1") + after.count("ok 2")
    assert [line for line in lines if not line.startswith("ok")] == [
        line for line in after if not line.startswith(("ok", "<"))
    ]


@settings(max_examples=examples(200), deadline=None)
@given(LINES)
def test_groups_can_be_written_out_again(lines: list[str]) -> None:
    after = made({"group": r"(?P<key>[a-z]+):(?P<rest>\d+:)"}).apply(lines)
    restored: list[str] = []
    key = ""
    for position, line in enumerate(after):
        following = after[position + 1] if position + 1 < len(after) else ""
        if line in ("a", "b") and following[:2].strip().isdigit():
            key = line
        elif key and line[:1] == " " and line[1:2].isdigit():
            restored.append(f"{key}:{line[1:]}")
        else:
            restored.append(line)
    assert restored == lines


def test_the_last_line_of_what_did_not_end_stays() -> None:
    """Lines that a later one overtakes go; where a number falls, what it counts has begun anew."""
    rule = {"drop": r"(?P<of>\w+) (?P<at>\d+)%$", "ended": r"(?P<of>\w+) done"}
    assert run(rule, "a 1%\nb 2%\na 3%\nb done\nend") == "a 3%\nb done\nend"
    assert run(rule, "a 1%\na 7%\nbroke\na 2%\na done") == "a 7%\nbroke\na done"
    assert run(rule, "a 1%\na done\na 7%") == "a done\na 7%"


def test_what_began_folds_only_with_what_says_how_it_ended() -> None:
    """In whatever order several run side by side; lines that begin nothing are counted as they are."""
    rule = {"fold": r"ok|(?P<of>t\w+)$", "ended": r"ok (?P<of>t\w+)", "say": "[{n}]", "min": 2}
    assert run(rule, "t1\nt2\nok t2\nok t1\nt3") == "[4]\nt3"
    assert run(rule, "t1\nt2\nok t1\nok") == "t1\nt2\n[2]"
    for step_rule in ({"drop": "a", "ended": "(?P<of>b)"}, {"drop": "(?P<of>a)", "ended": "b"}):
        with pytest.raises(ValueError, match="no group of"):
            made(step_rule)


def test_what_is_printed_in_the_middle_of_a_tree_does_not_cut_it() -> None:
    rule = {"fold": r" +\w+$", "say": "[{n}]", "min": 2, "nested": True}
    tree = "A\n  b\n    c\n    d\nprinted, twice\nprinted\n    {}\n  e\n    f"
    assert run(rule, tree.format("bad (1)")) == tree.format("bad (1)").replace("    c\n    d", "[2]").replace(
        "  e\n    f", "[2]"
    )
    assert run(rule, tree.format("ok")) == "A\n[3]\nprinted, twice\n[4]".replace("[4]", "printed\n[3]")


PRINTED = {
    "block": r"(?:out|err) \| ",
    "until": r"(?:out|err) \| |end",
    "say": "[{n} in {blocks}, {err} err]",
}
PRINTED |= {
    "counts": {"err": r"err \| "},
    "head": 0,
    "min": 2,
    "scattered": True,
    "safe": True,
    "warnings": True,
}


def test_the_frame_of_a_failure_stays_and_only_blocks_that_lose_lines_are_counted() -> None:
    whole = "err | b\nError: no ledger\n    at Ledger.open (ledger.js:15:5)\n\n"
    text = f"out | a\nx\n\n{whole}err | c\ny\nz\n\nout | d\nx\n\nend"
    assert run(PRINTED, text) == f"[10 in 3, 1 err]\n{whole}end"
    # What is told once counts the others, whose frames go with the block.
    again = "err | e\nError: no ledger\n    at Ledger.open (ledger.js:15:5)\n\n"
    once = whole.replace("no ledger", "no ledger [1 more like it]")
    assert run(PRINTED, f"{whole}{again}end") == f"{once.rstrip()}\n\n[3 in 1, 1 err]\nend"


def test_of_what_is_only_told_each_kind_says_how_many_there_are() -> None:
    rule = PRINTED | {"head": 1, "scattered": False, "say": "[{n}]"}
    text = "out | a\n" + "\n".join(f"error: item {n} is meant to fail" for n in range(9)) + "\nend"
    assert run(rule, text) == "out | a\nerror: item 0 is meant to fail [8 more like it]\nend"


def test_a_block_tells_what_stands_behind_some_of_its_lines() -> None:
    text = "".join(f"err | {n}\nretry {n}\nmore\n\nout | {n}\nsaid {n}\n" for n in range(3)) + "end"
    told = "err | 0\nretry 0 [2 more like it]\n"
    assert run(PRINTED | {"tells": r"err \|"}, text) == f"[14 in 6, 3 err]\n{told}end"


@given(
    st.lists(
        st.sampled_from(
            [
                "out | a",
                "err | b",
                "",
                "x",
                "retry 1",
                "error: no 1",
                "error: no 2",
                "    at f (a.js:1:2)",
                "end",
            ]
        ),
        max_size=40,
    ),
    st.booleans(),
)
@settings(max_examples=examples(300), deadline=None)
def test_every_line_of_a_block_stands_or_is_counted_once(lines: list[str], is_scattered: bool) -> None:
    rule = PRINTED | {"say": "[{n}]", "scattered": is_scattered, "tells": "err", "min": 1}
    after = run(rule, "\n".join(lines)).split("\n") if lines else []
    marker = re.compile(r"\[([0-9]+)\]$")
    counted = sum(int(found[1]) for line in after if (found := marker.match(line)))
    likes = sum(int(found[1]) for line in after if (found := re.search(r" \[([0-9]+) more like it\]$", line)))
    stands = [re.sub(r" \[[0-9]+ more like it\]$", "", line) for line in after if not marker.match(line)]
    assert len(stands) + counted + likes == len(lines)
    rest = iter(lines)
    assert all(line in rest for line in stands)
