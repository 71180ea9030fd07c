"""Command families: the examples in rules/commands, the choice of a family, and its steps."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import rules
from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.command_match import family_of
from penumbra.compress.calls.family_rules import families
from penumbra.compress.calls.shell import parse
from penumbra.compress.critical_lines import CriticalLines
from penumbra.compress.families.examples import call_of, problems
from penumbra.compress.families.examples import examples as rule_examples
from penumbra.compress.families.patterns import LINE_LIMIT, LinearPattern
from penumbra.compress.families.several_outputs import MAX_ANNOUNCEMENTS
from penumbra.compress.families.shorten import apply
from penumbra.compress.families.steps import Step, step
from penumbra.compress.result import Loss
from penumbra.compress.size import size
from penumbra.compress.token_estimate import estimate
from penumbra.rule_schemas.command_rules import AnyStep, CommandExample, FamilyRule
from penumbra.rule_schemas.schema import RuleError, broken_patterns, convert, patterns
from support.examples import examples
from support.filled import load
from support.results import shortened

EXAMPLES = list(rule_examples())
RULES = [rule for file in rules.load_folder("commands") for rule in file.content["families"]]
CHANGED = [example for example in EXAMPLES if example.gives is not None]


def name_of(example: CommandExample) -> str:
    return f"{example.family}: {example.call}"[:60]


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_example(example: CommandExample) -> None:
    assert list(problems(example)) == []


def test_an_example_that_does_not_hold_is_noticed() -> None:
    good = next(example for example in CHANGED if example.lossy)
    wrong = {
        "family: ": msgspec.structs.replace(good, family="table"),
        "gives: the text was shortened": msgspec.structs.replace(good, gives=None),
        "gives: line 1: ": msgspec.structs.replace(good, gives="x"),
        "gives: the text was left alone": msgspec.structs.replace(good, text="x"),
        "loss: ": msgspec.structs.replace(good, loss="none" if good.loss != "none" else "lossy"),
        "as: ": msgspec.structs.replace(good, shortened_by="table"),
    }
    for beginning, example in wrong.items():
        assert [problem[: len(beginning)] for problem in problems(example)] == [beginning]


def test_every_family_has_an_example() -> None:
    assert {name for e in EXAMPLES for name in (e.family, e.shortened_by)} >= set(families())


def test_names_are_unique() -> None:
    assert sorted(rule["name"] for rule in RULES) == sorted(families())


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
@pytest.mark.parametrize("lossy", [False, True])
def test_an_example_never_grows_and_counts_its_losses(example: CommandExample, lossy: bool) -> None:
    result = apply(example.text, call_of(example.call), lossy=lossy)
    if result is None:
        return
    assert size(result.text) <= size(example.text)
    assert estimate(result.text) < estimate(example.text)
    assert lossy or result.loss < Loss.LOSSY
    if result.loss is Loss.LOSSY:
        assert any(line.strip().startswith("[") for line in result.text.split("\n"))


STEPS = [(rule["name"], step) for rule in RULES for step in rule.get("steps", ())]
MARKERS = [(name, step) for name, step in STEPS if "say" in step]


@pytest.mark.parametrize("step", [one for one in MARKERS if one[1].get("scattered")], ids=str)
def test_a_marker_that_counts_other_places_says_so(step: tuple[str, dict[str, Any]]) -> None:
    """A reader takes a line below a heading for a part of the group with this heading."""
    _, rule = step
    is_of_one = bool(rule.get("by")) and f"{{{rule['by']}}}" in rule["say"]
    assert is_of_one or "here and below" in rule["say"]
    # Otherwise the heading of the first block would be above the count of all blocks.
    assert "block" not in rule or rule.get("head") == 0


@pytest.mark.parametrize("step", MARKERS, ids=str)
def test_a_count_that_may_be_one_has_both_nouns(step: tuple[str, dict[str, Any]]) -> None:
    _, rule = step
    may_be_one = "member" in rule or rule.get("min", 3) == 1 or (rule.get("safe") and "block" in rule)
    counts = ["n", "blocks"] if may_be_one else ["blocks"]
    assert not re.search(rf"\{{(?:{'|'.join(counts)})\}} \w+s\b", rule["say"])


@pytest.mark.parametrize("example", CHANGED, ids=name_of)
def test_line_ends_of_windows(example: CommandExample) -> None:
    """Line ends do not influence which lines stay."""
    result = apply(example.text.replace("\n", "\r\n"), call_of(example.call), lossy=example.lossy)
    assert result is not None
    assert [line.rstrip() for line in result.text.split("\n")] == [
        line.rstrip() for line in example.gives.split("\n")
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_another_commands_output_is_left_alone(example: CommandExample) -> None:
    """The text is prose and does not have the shape of the family."""
    prose = "".join(
        f"Paragraph {number} of a letter that no program wrote, dear reader.\n" for number in range(30)
    )
    result = apply(prose, call_of(example.call), lossy=True)
    assert result is None


@pytest.mark.parametrize("example", CHANGED, ids=name_of)
def test_nothing_is_left_to_do(example: CommandExample) -> None:
    """A text that was shortened once stays unchanged."""
    assert apply(example.gives, call_of(example.call), lossy=example.lossy) is None


@pytest.mark.parametrize(
    "example", [e for e in CHANGED if not families()[e.family].rule.hides_blocks], ids=name_of
)
def test_errors_anywhere_survive(example: CommandExample) -> None:
    lines = example.text.split("\n")
    for period in (1, 5):
        text = "".join(
            line + "\n" + (f"error: {number} went wrong\n" if number % period == 0 else "")
            for number, line in enumerate(lines)
        )
        result = apply(text, call_of(example.call), lossy=True)
        kept = text if result is None else result.text
        wanted = [f"error: {number} went wrong" for number in range(0, len(lines), period)]
        assert [line.strip() for line in kept.split("\n") if "went wrong" in line] == wanted


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_patterns_need_no_backtracking(rule: dict[str, Any]) -> None:
    """RE2 accepts every pattern, since no pattern has lookarounds or backreferences."""
    found = [pattern for _, pattern in patterns(FamilyRule, rule)]
    assert found or not rule.get("steps")
    assert list(broken_patterns(FamilyRule, rule)) == []
    assert [pattern for pattern in found if pattern.startswith("^")] == []


def family(line: str) -> str:
    return classify("Bash", {"command": line}).family


CALLS = {
    line: name
    for file in rules.load_folder("commands")
    for line, name in file.content.get("calls", {}).items()
}


@pytest.mark.parametrize("line", CALLS)
def test_families_of_lines(line: str) -> None:
    assert family(line) == (CALLS[line] or "")


def test_every_match_finds_its_family() -> None:
    """A rule would never be used if another rule matched all its commands."""
    shadowed = []
    for rule, _ in families().values():
        for line in rule.match:
            sample = " ".join(word.split("|")[0] for word in line.split()).replace("*", "x")
            parts = parse(sample)
            found = {family_of(part.argv) for part in parts}
            if parts and rule.name not in found and parts[0].argv[0] == sample.split()[0]:
                shadowed.append((rule.name, line, found))
    assert shadowed == []


DIFF = "diff --git a/package-lock.json b/package-lock.json\n@@ -1 +1 @@\n" + "+ added\n" * 80
LOCK = "diff --git a/package-lock.json b/package-lock.json\n[changes of this generated file left out: hunks 1, lines added 80, removed 0]\n"
STATUS = "".join(f"?? src/api/{name}.py\n" for name in range(40))
SHORT = "?? src/api/\n" + "".join(f" {name}.py\n" for name in range(40))


def test_seams() -> None:
    call = classify("Bash", {"command": "git status -s; echo '--- diff ---'; git diff | cat"})
    assert call.mixed
    result = apply(STATUS + "--- diff ---\n" + DIFF, call, lossy=True)
    assert result is not None
    assert result.text == SHORT + "--- diff ---\n" + LOCK.rstrip("\n")
    assert (result.loss, result.family) == (Loss.LOSSY, "git-status+git-diff")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("git status -s; git diff", STATUS + DIFF),
        ("git status -s; echo $x; git diff", STATUS + "1\n" + DIFF),
        ("git status -s; echo ---; git diff", STATUS + DIFF),
        ("git status -s; echo ---; git diff", "---\n" + STATUS + "---\n" + DIFF),
    ],
)
def test_unclear_seams_leave_all_as_it_is(line: str, text: str) -> None:
    assert apply(text, classify("Bash", {"command": line}), lossy=True) is None


FILE = "".join(f"def f{n}(a,  b):\n    return a + {n} - b\n\n" for n in range(60))
RUN = (
    "============================= test session starts ==============================\n"
    + "".join(f"tests/test_{n // 20}.py::test_case_{n} PASSED [{n // 3:3}%]\n" for n in range(300))
    + "============================= 300 passed in 1.23s ==============================\n"
)
LOG = "".join(f"step {n} of this run did {n * 7} things with item{n * 3}\n" for n in range(500))


@pytest.mark.parametrize(
    ("line", "files", "outputs"),
    [
        ("cat a.py; pytest -v", [FILE], "{0}{run}"),
        ("cat a.py && pytest -v | cat", [FILE], "{0}{run}"),
        ("pytest -v; cat a.py", [FILE], "{run}{0}"),
        ("cat a.py; pytest -v; sed -n 1,200p b.py", [FILE, FILE[:-9]], "{0}{run}{1}"),
        ("cat a.py; echo ---; pytest -v; echo ---; cat b.py", [FILE, FILE[:-9]], "{0}---\n{run}---\n{1}"),
        ("cat a.py; echo ---; ./run.sh", [FILE], "{0}---\n{log}"),
        ("./run.sh; echo == b ==; cat b.py", [FILE], "{log}== b ==\n{0}"),
    ],
    ids=lambda value: value if isinstance(value, str) and ";" in value else None,
)
def test_only_files_are_quoted_in_the_output_of_a_chain_of_commands(
    line: str, files: list[str], outputs: str
) -> None:
    text = outputs.format(*files, run=RUN, log=LOG)
    made = shortened(text, "Bash", {"command": line}).text
    assert all(file in made for file in files)
    assert size(made) < size("".join(files)) + size(text.replace(FILE, "")) // 2
    assert "300 passed in 1.23s" in made or "[command output in part;" in made


@pytest.mark.parametrize(
    "line",
    [
        "docker ps; cat a.py",
        "cat a.py; git status",
        "cat a.py; make",
        "pytest -q; cat a.py; pytest -q",
        "cat a.py; git diff; pytest -q",
    ],
)
def test_where_a_file_may_have_such_lines_all_of_it_is_quoted(line: str) -> None:
    text = f"{FILE}rm  a.o\n  modified:   a.py\nNAME   STATUS   AGE\n{FILE}2 passed in 0.1s\n"
    assert apply(text, classify("Bash", {"command": line}), lossy=True) is None


def test_announcements() -> None:
    text = (
        "\n> shop@1.0.0 check\n> git status -s && git diff\n\n\n> shop@1.0.0 status\n> git status -s\n\n"
        + STATUS
    )
    result = apply(text, classify("Bash", {"command": "npm run check"}), lossy=False)
    assert result is not None
    assert result.text == text.replace(STATUS, SHORT)


def test_too_many_announcements_are_none() -> None:
    text = ("> git status -s\n" + STATUS) * (MAX_ANNOUNCEMENTS + 1)
    assert apply(text, classify("Bash", {"command": "npm run check"}), lossy=True) is None


def test_an_envelope_stays_as_it_is() -> None:
    text = "Exit code: 0\nWall time: 0.1 seconds\nOutput:\n" + STATUS
    result = apply(text, classify("shell_command", {"command": "git status -s"}), lossy=False)
    assert result is not None
    assert result.text == text.replace(STATUS, SHORT)


def test_without_a_family_nothing_happens() -> None:
    assert apply(STATUS, classify("Bash", {"command": "mytool"}), lossy=True) is None
    assert apply(STATUS, classify("Read", {"file_path": "x"}), lossy=True) is None
    assert apply(STATUS, Call(), lossy=True) is None


def test_filtered_lines_need_a_family_that_allows_it() -> None:
    assert apply(STATUS, classify("Bash", {"command": "git status -s | grep api"}), lossy=False) is not None
    assert apply(DIFF, classify("Bash", {"command": "git diff | grep -v x"}), lossy=True) is None


ONELINE = "".join(f"{number:07x} Change number {number}\n" for number in range(30))
TRACE = (
    "Traceback (most recent call last):\n"
    + "".join(f'  File "/srv/app/mod{n}.py", line {n}, in f{n}\n    g{n}()\n' for n in range(1, 14))
    + "KeyError: 'k'\n"
)
JAVA = (
    'Exception in thread "main" java.lang.IllegalStateException: no cart\n'
    + "".join(f"\tat com.example.shop.Cart.m{n}(Cart.java:{n})\n" for n in range(9))
    + "Caused by: java.io.IOException: disk full\n"
    + "".join(f"\tat com.example.shop.Disk.m{n}(Disk.java:{n})\n" for n in range(9))
)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("git log --oneline -30", ONELINE),
        ("git status", "On branch main\nChanges to be committed:\n\tnew file:   a.py\n\tnew file:   b.py\n\n"),
        ("git checkout -b logging-fix", "Switched to a new branch 'logging-fix'\n"),
        ("git show HEAD:docs/catalog.md", "# Catalog\n\nThe changelog is elsewhere.\n" * 20),
        ("git -C /srv/blog rev-parse HEAD", "910f777314b52a021e9a569078bbe0d1a9e209a2\n"),
        ("git blame src/status.py", "4c454f6b (Ann 2026-01-01 11:00:00 +0000 1) a = 1\n5fa4bee2 (Bob 2026-01-02 11:00:00 +0000 2) b = 2\n"),
        ("python app.py", TRACE),
        ("java -jar shop.jar", JAVA),
        ("go run main.go", "".join(f"row {n}: skipped error column\n" for n in range(40)) + "total: 42\n"),
        ("python manage.py migrate", "".join(f"  Applying shop.{n:04d}_step... OK\n" for n in range(40)) + "done\n"),
        ("npm run dev", "> vite\n\n  Local: http://localhost:5173/errors\n" + "".join(f"hmr update /src/a{n}.ts\n" for n in range(30))),
        ("grep -rn foo src", "".join(f"src/a.py:{n}: x = '/build/ .min. foo'\n" for n in range(1, 30))),
        ("find /srv/shop -name x", "".join(f"/srv/shop/d{n}/x\n" for n in range(150))),
        ("rg -c foo", "".join(f"src/m{n}.py:{n}\n" for n in range(30))),
        ("make check", "".join(f"checking that option {n} is no secret\n" for n in range(30))),
        ("cargo run", "".join(f"answer {n} = {n * n}\n" for n in range(30))),
        ("docker logs web", "".join(f"2026-01-05T10:00:{n:02d} ERROR no such order {n}\n" for n in range(40))),
        ("git push origin changelog", "To github.com:acme/shop\n * [new branch]      changelog -> changelog\n"),
        ("echo done", "done\n"),
        ("true", ""),
    ],
)  # fmt: skip
def test_texts_that_look_like_the_output_of_a_family_are_left_alone(line: str, text: str) -> None:
    assert apply(text, classify("Bash", {"command": line}), lossy=True) is None


def any_hides_blocks(rule: FamilyRule) -> bool:
    """Return whether a family, or a family in its `fallback`, may omit lines of other programs."""
    return rule.hides_blocks or any(families()[name].rule.hides_blocks for name in rule.fallback)


NAMES = list(families())
KEEPS_ERRORS = {name for name, (rule, _) in families().items() if not any_hides_blocks(rule)}
PRINTED = [
    "PASSED", "ok", "✓ a", "test a ... ok", "=== RUN   TestA", "--- PASS: TestA (0.00s)", "src/a/b.py",
    "a.py:1:2: x", "diff --git a/go.sum b/go.sum", "@@ -1 +1 @@", "+a", " b", "error: x", "", "\r", "\x00",
    "é" * 30, "x" * 3000, "On branch main", "commit " + "a" * 40, "Author: A", "web-1 | x",
    "-rw-r--r-- 1 a b 1 x", "> tsc", "$ eslint .", "[INFO] ", "Collecting x", "#1 ...", "stdout | a",
    " Test Files  1 passed (1)", "Ran 1 test in 0.1s", "\ud800",
]  # fmt: skip
FRAGMENTS = st.lists(st.sampled_from(PRINTED), max_size=40)


@settings(max_examples=examples(300))
@given(st.sampled_from(NAMES), FRAGMENTS, st.sampled_from(["\n", "\r\n", ""]), st.booleans())
def test_any_text(name: str, fragments: list[str], end: str, lossy: bool) -> None:
    """A family never raises, never grows a text, is deterministic, keeps errors, and loses only what it
    may."""
    text = end.join(fragments)
    result = apply(text, Call(category="bash", family=name, shell=True), lossy=lossy)
    assert result == apply(text, Call(category="bash", family=name, shell=True), lossy=lossy)
    if result is None:
        return
    assert size(result.text) <= size(text)
    assert lossy or result.loss < Loss.LOSSY
    if name in KEEPS_ERRORS:
        assert result.text.count("error: x") == text.count("error: x")


def made(rule: dict[str, Any]) -> Step:
    return step(convert(AnyStep, rule, "test").rule)


def run(rule: dict[str, Any], text: str) -> str:
    """Return the text after a step. The step of a user's rule must give the same text."""
    lines = text.split("\n")
    after = made(rule).apply(lines, CriticalLines())
    assert step(convert(AnyStep, rule, "test").rule, LinearPattern).apply(lines, CriticalLines()) == after
    return "\n".join(after)


STEP_EXAMPLES: dict[str, Any] = load(__file__)


def test_steps_turn_texts_into_the_forms_of_their_examples() -> None:
    for name, examples_of_steps in STEP_EXAMPLES.items():
        for example in examples_of_steps:
            gives = {text: run(example["rule"], text) for text in example["gives"]}
            assert gives == example["gives"], name


def test_joined_names_stay() -> None:
    for example in STEP_EXAMPLES["join"]:
        assert [run(example["rule"], rows) for rows in example["gives"].values()] == [
            *example["gives"].values()
        ]


def test_group_takes_long_lines() -> None:
    rule = {"group": r"(?P<key>[^:]+):(?P<rest>\d+:)"}
    long = "x" * (LINE_LIMIT * 2)
    assert run(rule, f"a:1:{long}\na:2:y") == f"a\n 1:{long}\n 2:y"


@pytest.mark.parametrize(
    "line",
    [
        *("ls a; echo MIDDLE; ls b", "ls a && ls b", "for d in a b; do echo $d; ls $d; done"),
        *("ls a || echo MISSING", "ls a; echo rc=$?; ls b", "ls a; nproc; ls b"),
        "ls a | head -20",
    ],
)
def test_names_are_in_rows_only_if_one_command_printed_all_of_them(line: str) -> None:
    text = "".join(f"a{n}.py\n" for n in range(20))
    assert apply(text, classify("Bash", {"command": line}), lossy=False) is None
    assert apply(text, classify("Bash", {"command": "cd src && ls"}), lossy=False) is not None


def test_losses() -> None:
    assert made({"fold": "x", "say": ""}).loss is Loss.LOSSY
    assert made({"group": "(?P<key>x)(?P<rest>)"}).loss is Loss.REVERSIBLE
    assert made({"drop": "x"}).loss is Loss.NONE
    assert made({"rewrite": "x", "to": "", "loss": "lossy"}).loss is Loss.LOSSY


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"rewrite": "x", "to": "y"}, "loss: missing, allowed: none or reversible or lossy"),
        ({"fold": "x"}, "say: missing, allowed: a text"),
        ({"fold": "x", "say": "y", "mim": 4}, "mim: unknown key, did you mean min?"),
        ({"fold": "x", "say": "y", "min": 0}, "min: got 0, allowed: a whole number from 1"),
        ({"fold": "x", "say": "y", "within": {"until": "z"}}, "within.from: missing, allowed: a pattern of RE2 or a list of them"),
        ({"nothing": "x"}, "got nothing, allowed: exactly one of drop, rewrite, group, hoist, join, nest, same, fold, block, member, context"),
    ],
)  # fmt: skip
def test_incomplete_rules_are_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(RuleError) as caught:
        made(rule)
    assert str(caught.value) == f"test: {message}"


def test_a_broken_pattern_is_refused() -> None:
    with pytest.raises(re.error):
        made({"fold": "(", "say": ""})


LINES = st.lists(
    st.sampled_from(["ok 1", "ok 2", "", "a:1:x", "a:2:y", "b:3:z", "error: x", "+a", " b", "@@", "end"])
)


@settings(max_examples=examples(200))
@given(LINES, st.integers(1, 4))
def test_counts_of_a_fold_add_up(lines: list[str], least: int) -> None:
    """The counts in the markers add up to the number of omitted lines."""
    rule = {"fold": "ok", "say": "<{n}>", "min": least}
    after = made(rule).apply(lines, CriticalLines())
    said = sum(int(line[1:-1]) for line in after if line.startswith("<"))
    assert lines.count("ok 1") + lines.count("ok 2") == said + after.count("ok 1") + after.count("ok 2")
    assert [line for line in lines if not line.startswith("ok")] == [
        line for line in after if not line.startswith(("ok", "<"))
    ]


@settings(max_examples=examples(200))
@given(LINES)
def test_groups_can_be_written_out_again(lines: list[str]) -> None:
    after = made({"group": r"(?P<key>[a-z]+):(?P<rest>\d+:)"}).apply(lines, CriticalLines())
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


def test_a_begun_item_is_counted_only_with_its_end() -> None:
    """Several items may run at the same time. Lines that begin no item are simply counted."""
    rule = {"fold": r"ok|(?P<of>t\w+)$", "ended": r"ok (?P<of>t\w+)", "say": "[{n}]", "min": 2}
    assert run(rule, "t1\nt2\nok t2\nok t1\nt3") == "[4]\nt3"
    assert run(rule, "t1\nt2\nok t1\nok") == "t1\nt2\n[2]"
    for step_rule in ({"drop": "a", "ended": "(?P<of>b)"}, {"drop": "(?P<of>a)", "ended": "b"}):
        with pytest.raises(ValueError, match="no group of"):
            made(step_rule)


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


@given(
    st.lists(
        st.sampled_from(
            [
                "out | a", "err | b", "", "x", "retry 1", "error: no 1", "error: no 2",
                "    at f (a.js:1:2)", "end",
            ]
        ),
        max_size=40,
    ),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(300))
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
