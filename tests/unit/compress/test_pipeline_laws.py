"""Laws that hold for every text, every call and every mode."""

import json
import re
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penumbra import redact, rules
from penumbra.compress.calls.tools import category
from penumbra.compress.critical_lines import is_critical
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Loss, Mode, Policy, Redacted, Shortened, ToolOutput
from penumbra.compress.size import size
from penumbra.compress.stages.line_numbers import LEGEND
from support import markers
from support.examples import examples
from support.outputs import NAMES, missing, read
from support.results import PREFIX, shortened

LINES = (
    *("./deploy --all", "pytest -q", "git diff HEAD~3", "git log --stat", "rg -n TODO src", "npm install"),
    *("cargo build --message-format=json", "kubectl get pod x -o yaml", "docker compose logs", "npx tsc"),
    *("terraform plan", "cat a.py", "git status; echo ---; npm test"),
)
CALLS: list[tuple[str, object]] = [
    *(("Bash", {"command": line}) for line in LINES),
    ("Read", {"file_path": "/a/b.py"}),
    ("Grep", {"pattern": "x", "output_mode": "content"}),
    ("WebFetch", {"url": "https://example.com"}),
    ("mcp__thing__query", {"q": 1}),
    ("", None),
]


def run(text: str, call: tuple[str, object], mode: Mode, lossy: bool = True, **policy: object) -> Shortened:
    tool, arguments = call
    more = {"min_bytes": 32, **policy}
    return shortened(
        text, tool, arguments or {}, mode=mode, lossy=lossy, overhead=PREFIX if lossy else "", **more
    )


ROWS = '[{"id": 1, "v": "long value here"}, {"id": 2, "v": "other"}, {"id": 3, "v": "third"}]'
PRINTED = st.sampled_from(
    [
        "",
        "    indented = code(1)  ",
        "error: cannot find thing",
        "FAILED tests/a.py::test_b - assert 1 == 2",
        "=========== 3 failed, 7 passed in 1.20s ===========",
        "src/a.py:12:    import os",
        "src/a.py-13-    import re",
        "diff --git a/x.py b/x.py",
        "@@ -1,3 +1,4 @@",
        "+added line of code",
        "-removed line of code",
        "commit 0123456789abcdef0123456789abcdef01234567",
        " 42→    return value",
        "2026-01-02T03:04:05Z INFO worker 7 did the job 1234",
        "| a | b |",
        "|---|---|",
        '{"id": 1, "name": "x"}',
        ROWS,
        "progress 10%\rprogress 90%\r",
        "\x1b[32mgreen\x1b[0m text",
        "Ошибка подключения 数据库 🎉",
        "lone \ud800 surrogate",
        "crlf line\r",
        "x" * 300,
        "[the line above 3 more times]",
        "[Tool output capped: 5 bytes removed]",
        LEGEND,
        "~A 1 2",
    ]
)
TEXTS = st.lists(st.tuples(PRINTED, st.integers(1, 12)), max_size=25).map(
    lambda parts: "\n".join(line for line, count in parts for _ in range(count))
)


ODD = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\n\r\t\x1b\x08\x0b\x0c\x1c\x85\u2028\u2029\ufeff\u200b\ud800é🎉界|\"'\\[]{}:-+@0"),
    ),
    max_size=300,
)
REPEATED = st.tuples(ODD, st.integers(1, 30), st.sampled_from(["", "\n", "\r\n"])).map(
    lambda parts: (parts[0] + parts[2]) * parts[1]
)


def hold(text: str, call: tuple[str, object], mode: Mode = Mode.STANDARD, lossy: bool = True) -> None:
    """Assert that a text never grows, that a second call changes nothing, that the result is deterministic, and
    that only permitted lines are lost."""
    result = run(text, call, mode, lossy)
    in_front = PREFIX if lossy and result.loss is Loss.LOSSY else ""
    assert size(result.text) + size(in_front) <= size(text)
    assert run(text, call, mode, lossy) == result
    assert run(result.text, call, mode, lossy).text == result.text
    assert result.original == text
    # Binary output is named in every mode.
    assert lossy or result.loss < Loss.LOSSY or "binary" in result.stages
    if mode is Mode.DISABLED or not result.stages:
        assert result.text == text


@example("\n" + "\n".join([ROWS] * 6), ("Bash", {"command": "./deploy --all"}), Mode.AGGRESSIVE, False)
@settings(max_examples=examples(180))
@given(TEXTS | REPEATED, st.sampled_from(CALLS), st.sampled_from(Mode), st.booleans())
def test_never_larger_never_again_always_the_same(
    text: str, call: tuple[str, object], mode: Mode, lossy: bool
) -> None:
    hold(text, call, mode, lossy)


def rule_examples() -> Iterator[tuple[str, str]]:
    """Yield (call, text) of every example in rules/commands."""
    for file in rules.load_folder("commands"):
        for one in file.content["examples"]:
            yield one["call"], one["text"]


@pytest.mark.parametrize(("line", "text"), list(rule_examples()), ids=lambda value: value[:50])
def test_examples_through_the_whole_pipeline(line: str, text: str) -> None:
    call = ("Bash", {"command": line}) if category(line) in ("other", "bash") else (line, {})
    hold(text, call)
    assert "\r\r" not in run(text.replace("\n", "\r\n"), call, Mode.STANDARD).text
    kept = run(text, call, Mode.STANDARD, lossy=False)
    assert kept.loss < Loss.LOSSY
    if {"log_patterns", "json_table"} & set(kept.stages):
        return
    for critical in filter(is_critical, text.split("\n")):
        # A common beginning may be written once for several lines. The last word of each line always stays.
        assert re.findall(r"\w+", re.sub(r" \[ *\d+%\]$", "", critical))[-1] in kept.text


@settings(max_examples=examples(50))
@given(TEXTS, st.sampled_from(CALLS), st.sampled_from([Mode.SAFE, Mode.STANDARD]))
def test_without_loss_every_word_stays(text: str, call: tuple[str, object], mode: Mode) -> None:
    result = run(text, call, mode, lossy=False)
    shown = result.text
    for word in ("cannot find thing", "import os", "added line of code", "did the job", "数据库"):
        assert (word in shown) == (word in text)


@settings(max_examples=examples(40))
@given(TEXTS, st.sampled_from(CALLS))
def test_critical_lines_stay_until_the_limits(text: str, call: tuple[str, object]) -> None:
    result = run(text, call, Mode.STANDARD, max_output_bytes=1_000_000)
    if "excerpt" in result.stages or "truncate" in result.stages:
        return
    for line in ("error: cannot find thing", "FAILED tests/a.py::test_b - assert 1 == 2"):
        assert (line in result.text) == (line in text)


@pytest.mark.parametrize("call", CALLS)
def test_endless_single_lines(call: tuple[str, object]) -> None:
    for unit in ("x", "a b ", "\x1b[1m", "\r", "error ", "[", '"', "é", "src/a.py:1:"):
        text = unit * (80_000 // len(unit))
        result = run(text, call, Mode.AGGRESSIVE)
        assert size(result.text) <= 65_536


def test_ten_megabytes_in_one_line() -> None:
    text = "value=1234 " * 1_000_000
    result = run(text, CALLS[0], Mode.STANDARD)
    assert size(result.text) <= 5_000
    assert result.original == text


def test_counts_of_omitted_lines_are_exact() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(letters[n * k // 7 % 26] for k in range(3, 60)) for n in range(2_000)]
    text = "\n".join(f"{word} says nothing much, {word[::-1]}" for word in words)
    result = run(text, CALLS[0], Mode.STANDARD, lossy=True)
    assert result.stages[-1] == "excerpt"
    gaps = [mark.count for mark in markers.read(result.text)]
    lines = set(text.split("\n"))
    shown = [line for line in result.text.split("\n") if line in lines]
    assert gaps
    assert sum(gaps) + len(shown) == 2_000
    assert len(gaps) + len(shown) + 1 == len(result.text.split("\n"))


def test_a_search_names_every_file_and_counts_every_line() -> None:
    text = "\n".join(
        f"src/module_{n % 20}.py:{n}:    value_{n} = compute(something, {n})"
        for n in sorted(range(900), key=lambda n: n % 20)
    )
    result = run(text, ("Bash", {"command": "rg -n value src"}), Mode.STANDARD)
    assert "; 54119 bytes, 900 lines; " in result.text
    assert all(f"module_{n}.py" in result.text for n in range(20))
    shown = len(re.findall(r"^(?:[0-9]+: |src/)", result.text, re.MULTILINE))
    assert shown + markers.left_out(result.text) == 900 + 20


def test_a_diff_names_every_file_and_counts_every_line() -> None:
    files = []
    for n in range(30):
        hunks = "".join(
            f"@@ -{h * 50 + 1},1 +{h * 50 + 1},3 @@\n context {h}\n"
            + f"+new line {n} {h} of the change\n" * 2
            for h in range(6)
        )
        files.append(f"diff --git a/f{n}.py b/f{n}.py\n--- a/f{n}.py\n+++ b/f{n}.py\n{hunks}")
    text = "".join(files)
    result = run(text, ("Bash", {"command": "./show-changes"}), Mode.STANDARD)
    assert "excerpt" in result.stages
    shown = sum(line[:1] not in ("", "[") for line in result.text.split("\n"))
    assert shown + markers.left_out(result.text) == text.count("\n")
    for n in range(30):
        assert f"f{n}.py" in result.text


def test_a_deep_json_value_shows_its_shape() -> None:
    value = {
        "config": {f"key_{n}": {"list": list(range(400)), "text": "word " * 300} for n in range(12)},
        "n": 7,
    }
    result = run(json.dumps(value), ("mcp__db__get", {}), Mode.STANDARD)
    shape = json.loads(result.text.split("\n", 1)[1])
    assert list(shape["config"]) == [f"key_{n}" for n in range(12)]
    inner = shape["config"]["key_3"]
    items = [re.fullmatch(r"\[(\d+) items left out\]", str(item)) for item in inner["list"]]
    assert sum(int(mark[1]) if mark else 1 for mark in items) == 400
    assert len(inner) == 2
    assert shape["n"] == 7


@pytest.mark.parametrize(
    ("call", "row", "usual", "odd"),
    [
        (CALLS[0], "{n},{v},{c} reading of the sensor", "ok", "broken"),
        (CALLS[0], "{c}-{n}={v}", "up", "down"),
        (CALLS[0], "{c}-{n} {v}", "12 ms", "timeout"),
        (("Grep", {"pattern": "wait"}), "src/{c}_{n}.py:7:    wait = {v}", "30", "0"),
        (("WebFetch", {"url": "https://a.b"}), "| {n} | {v} | {c} |", "up", "down"),
    ],
)
def test_rows_of_any_kind_keep_the_header_and_the_odd_row(
    call: tuple[str, object], row: str, usual: str, odd: str
) -> None:
    rows = [row.format(n=n, v=odd if n == 777 else usual, c="abcdefghij"[n % 10]) for n in range(2_000)]
    result = run("id,state,note\n" + "\n".join(rows) + "\n", call, Mode.STANDARD)
    lines = result.text.split("\n")
    assert lines[1] == "id,state,note"
    assert rows[777] in result.text
    if call == CALLS[0]:
        assert {rows[0], rows[1_999]} <= {*lines}
        assert markers.left_out(result.text) + sum(line in {*rows} for line in lines) == 2_000


def test_an_account_names_its_artifact_where_nothing_else_does() -> None:
    text = "\n".join(f"some line of output {chr(97 + n % 26) * (n % 40)}" for n in range(900))
    settings = Policy(lossy=True)
    result = shorten(
        ToolOutput(text, "Bash", {"command": "./x"}, "call_9"), settings, Redacted, lambda _: "shadow_ab"
    )
    assert "; artifact shadow_ab]" in result.text


def test_a_long_read_keeps_definitions_with_their_numbers() -> None:
    source = "\n".join(
        f"{n:>6}→"
        + (
            f"def function_{n}(x):"
            if n % 40 == 0
            else f"    y_{n} = x + {n}  # some comment to fill the line"
        )
        for n in range(1, 4_001)
    )
    result = run(source, ("Read", {"file_path": "/p/big.py"}), Mode.STANDARD)
    assert result.stages == ("line_numbers", "excerpt")
    assert result.text.startswith("[file /p/big.py in part; ")
    assert "\n3000→def function_3000(x):\n" in result.text
    assert size(result.text) + size(PREFIX) <= 65_536
    assert result.text.endswith("4000→def function_4000(x):")


def test_data_gets_a_smaller_account_than_files() -> None:
    rows = "id,name,town\n" + "".join(f"{n},name_{n},town_{n * 7 % 900}\n" for n in range(1_500))
    result = run(rows, ("Read", {"file_path": "/p/people.csv"}), Mode.STANDARD)
    assert result.text.startswith("[data /p/people.csv in part; ")
    assert "\nid,name,town\n" in result.text
    assert size(result.text) < 9_000
    assert run(rows, ("Read", {"file_path": "/p/people.md"}), Mode.STANDARD).text == rows


STEPS = "".join(f"step {n} of this run did {n * 7} things with item{n * 3}\n" for n in range(500))
SAID = "para {0} about thing{1} and\nmore of it {2}"


@pytest.mark.parametrize(
    ("call", "text", "bare"),
    [
        (("shell", {"command": ["./run.sh"]}), json.dumps({"output": STEPS, "metadata": {"exit_code": 0, "duration_seconds": 1.1}}), STEPS),
        (("shell", {"command": ["./run.sh"]}), f"Exit code: 0\nWall time: 1.0 seconds\nOutput:\n{STEPS}", STEPS),
        (("Bash", {"command": "cat a.py; echo ---; ./run.sh"}), f"a = 1\n---\n{STEPS}", STEPS),
        (
            ("WebFetch", {"url": "https://example.com/a"}),
            "<!DOCTYPE html><html><body>"
            + "".join(f"<p>{SAID.format(n, n * 7, n * 13)}</p>\n" for n in range(600))
            + "</body></html>",
            "".join(f"{SAID.format(n, n * 7, n * 13)}\n".replace("\n", " ", 1) + "\n" for n in range(600))[
                :-1
            ],
        ),
    ],
    ids=["envelope of JSON", "envelope of lines", "file beside it", "web page"],
)  # fmt: skip
def test_a_heading_counts_the_text_of_its_excerpt(call: tuple[str, object], text: str, bare: str) -> None:
    heading = next(line for line in run(text, call, Mode.STANDARD).text.split("\n") if " in part; " in line)
    counts = re.search(r" in part; ([0-9]+) bytes, ([0-9]+) lines[]\\;]", heading)
    assert counts is not None
    assert [int(one) for one in counts.groups()] == [size(bare), bare.count("\n")]
    assert "shortened form" not in heading


WAYS = {"safe": Policy(mode=Mode.SAFE), "lossless": Policy(), "standard": Policy(lossy=True)}


@cache
def sent(name: str, way: str) -> str:
    output = read(name)
    call = ToolOutput(output.text, "Bash", {"command": output.call}, "call_1")
    return shorten(call, WAYS[way], lambda text: Redacted(redact(text)), lambda _: "shadow_1").text


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_in_the_output_itself(name: str) -> None:
    output = read(name)
    assert output.keep
    assert missing(output.text, output.keep + output.may_go) == []
    assert not set(output.keep) & set(output.may_go)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_facts_stay(name: str, way: str) -> None:
    assert missing(sent(name, way), read(name).keep) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_grows(name: str, way: str) -> None:
    assert len(sent(name, way).encode()) <= len(read(name).text.encode())


def test_of_all_that_may_go_most_goes() -> None:
    """At least 30 per cent of the text and half of the useless lines are omitted."""
    outputs = {name: read(name) for name in NAMES}
    texts = {name: sent(name, "standard") for name in NAMES}
    may_go = sum(len(output.may_go) for output in outputs.values())
    gone = sum(len(missing(texts[name], output.may_go)) for name, output in outputs.items())
    assert gone > 0.5 * may_go
    assert sum(map(len, texts.values())) < 0.7 * sum(len(output.text) for output in outputs.values())
