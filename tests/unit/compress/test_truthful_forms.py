"""The form of a result states nothing false, and names or counts the omitted parts."""

import json
import re

import pytest

from penumbra.compress.calls.classify import classify
from penumbra.compress.calls.envelope import with_cut_noted
from penumbra.compress.calls.log_files import is_data, is_unedited
from penumbra.compress.facts import TextFacts
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Loss, Mode, Policy, Redacted, Shortened, ToolOutput
from penumbra.compress.selection import Units
from penumbra.compress.size import LEAST_CUT, cut, line_count
from penumbra.compress.stages import binary, json_prune, row_sample
from penumbra.compress.stages.terminal import render
from support.results import PREFIX, shortened


def weighed(units: Units) -> TextFacts:
    return TextFacts.of(units.texts(), {})


def run(text: str, tool: str = "Bash", /, **arguments: object) -> Shortened:
    return shortened(text, tool, arguments, overhead=PREFIX)


# Sizes
def test_an_excerpt_says_how_many_lines_there_were() -> None:
    """A line end at the end of a text begins no further line, neither in the heading nor in the store."""
    for end in ("", "\n"):
        text = "\n".join(f"{n} a line of its own, {n * 7919 % 1000}" for n in range(3000)) + end
        assert f"; {len(text)} bytes, lines 1 to 3000]" in run(text, command="cat numbers").text
        assert f"; {len(text)} bytes, 3000 lines]" in run(text, command="./numbers").text
    assert [line_count(text) for text in ("", "\n", "a", "a\n", "a\n\n", "a\nb")] == [0, 1, 1, 1, 2, 2]


def test_one_line_with_escaped_line_ends_is_not_counted_as_one_line() -> None:
    text = json.dumps({"title": "a report", "body": "\n".join(f"{n} of its lines" for n in range(2_000))})
    heading = run(text, command="gh issue view 7 --json title,body").text.split("\n")[0]
    assert heading.startswith(f"[JSON in part; {len(text)} bytes")
    assert "line" not in heading


@pytest.mark.parametrize("first", [1, 1_201])
def test_a_page_of_a_file_is_described_by_its_line_numbers(first: int) -> None:
    """A page of a file does not show the number of lines in the file."""
    page = "\n".join(f"{n}\tdef f{n}(): return {n * 7919}  # {'x' * 30}" for n in range(first, first + 1_000))
    heading = run(page, "Read", file_path="/a/b.py", offset=first, limit=1_000).text.split("\n")[0]
    assert heading.endswith(f"lines {first} to {first + 999}; counts below are of its shortened form]")


def test_in_an_excerpt_no_marker_counts_a_line_that_is_left_out() -> None:
    lines = [f"step {n % 7} of the ride with keel {n * 7919 % 97} and mast" for n in range(900)]
    repeated = [line for line in lines for _ in range(1 + 5 * (len(line) % 2))]
    shown = run("\n".join(repeated), command="./ride").text.split("\n")
    marks = [at for at, line in enumerate(shown) if line.startswith("[the line above")]
    assert marks
    assert all(not shown[at - 1].startswith("[") for at in marks)


# Cuts within lines
@pytest.mark.parametrize("length", [61, 75, 99, 100, 140, 300, 4_000])
@pytest.mark.parametrize("last", [0, 20])
@pytest.mark.parametrize("word", ["rope ", "keel_of_mast/", "xyz", "élève "])
def test_a_cut_hides_at_least_the_length_of_its_mark_and_splits_no_word(
    length: int, last: int, word: str
) -> None:
    text = (word * length)[:length]
    shown = cut(text, 60, last)
    if shown == text:
        assert length - 60 - last < LEAST_CUT
        return
    first, count, end = re.fullmatch(r"(.*) \[([0-9]+) characters left out\] ?(.*)", shown).groups()  # type: ignore[union-attr]
    assert len(first) + int(count) + len(end) == length
    assert int(count) >= LEAST_CUT
    assert text.startswith(first)
    assert text.endswith(end)
    assert len(shown) < length
    if " " in word:
        assert text[len(first)] == " "
        assert not end or text[-len(end) - 1] == " "


def test_json_is_cut_between_words_and_stays_json() -> None:
    words = [f"keel{n}" for n in range(900)]
    rows = [
        {"id": f"r-{n}", "note": {"by": "x", "text": " ".join(words[n:]), "at": f"p/{n}.py"}}
        for n in range(30)
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    for text in (json.dumps(rows), json.dumps(rows[0] | {"all": rows}), lines):
        shown = run(text, command="./report --json").text
        assert set(re.findall(r"keel[0-9]*", shown)) <= set(words)
        assert re.search(r"(?:characters|bytes|lines?) left out\]", shown)


# Records
def test_names_of_records_stay_and_derived_addresses_go() -> None:
    api = "https://api.example.com/users/7"
    user = {f"{name}_url": f"{api}/{name}" for name in ("keys", "gists", "events", "teams", "orgs")}
    user |= {"follow_url": f"{api}/follow{{/other}}", "url": api, "html_url": "https://example.com/ada"}
    user |= {"id": 7, "login": "ada", "is_admin": False}
    record = {"body": "tide and keel " * 40, "user": user, "path": "src/a.py", "id": 4711}
    pruned = json.loads(json_prune.prune(json.dumps(record, separators=(",", ":")), 500, weighed) or "")
    assert (pruned["id"], pruned["path"]) == (4711, "src/a.py")
    assert pruned["user"] == {
        "url": api,
        "html_url": "https://example.com/ada",
        "id": 7,
        "login": "ada",
        "is_admin": False,
        "[more keys]": 6,
    }
    deep = json.dumps(
        {"a": {"b": {"c": {"d": {"text": "x y " * 99, "name": "deep", "id": 9}}}}, "z": "y " * 999}
    )
    assert '"name":"deep","id":9' in (json_prune.prune(deep, 200) or "")


def test_a_row_of_json_omits_members_of_the_row_above() -> None:
    """The rows can't be a table, because their messages have different members."""
    same = {"cwd": "/home/ada/projects/quay", "session": "7f3a" * 8, "version": "2.1.1", "kind": "external"}
    lines = [
        json.dumps(
            {
                **same,
                "id": f"turn-{n}",
                "message": {f"shape-{n}": "tide and keel " * 40, "file": f"src/{n}.py"},
            }
        )
        for n in range(20)
    ]
    found = row_sample.rows("\n".join(["The log:", *lines, "cut here"]), 5_000)
    assert found is not None
    shown = "\n".join(found[0])
    assert shown.count("/home/ada/projects/quay") == 1
    assert all(f'"turn-{n}"' in shown and f"src/{n}.py" in shown for n in range(1, 20))


def test_a_long_string_in_an_object_keeps_its_beginning() -> None:
    """Prose has few facts, but the most information."""
    notes = {
        "hunk": "\n".join(f"+value_{n} = {n * 7919}" for n in range(900)),
        "body": "we agree to this " * 30,
    }
    assert '"body":"we agree' in (json_prune.prune(json.dumps(notes), 3_000, weighed) or "")


# Python 3.11 reads JSON down to its recursion limit of 1,000 frames. The tests themselves take some frames.
@pytest.mark.parametrize("depth", [100, 700])
def test_members_in_great_depth_are_counted(depth: int) -> None:
    pruned = json_prune.prune('{"a":1,"b":' * depth + json.dumps(["x y" * 9] * 900) + "}" * depth, 2_000)
    assert pruned is not None
    assert pruned.rstrip("}").endswith('"b":{"[more keys]":2')


def test_each_of_a_few_records_keeps_its_name() -> None:
    hits = [
        {
            "url": f"https://example.com/{n}-{n * 7919}",
            "text": " ".join(f"keel_{n}_{k * 7919}" for k in range(400)),
            "title": f"Keel {n}",
        }
        for n in range(5)
    ]
    shown = run(json.dumps(hits), command="./search --json keel").text
    assert [n for n in range(5) if f"\tKeel {n}" not in shown] == []
    assert [n for n in range(5) if f"{n}-{n * 7919}\t" not in shown] == []


def test_records_on_a_line_each_stay_json() -> None:
    log = [
        {
            "time": f"2026-01-02T03:04:{n % 60:02}",
            "msg": f"the keel of {n} is laid",
            "session_id": f"s-{n * 7919}",
        }
        | {f"part_{k}_{n}": f"{k * n} of the mast and the rope" for k in range(20)}
        for n in range(60)
    ]
    shown = run("\n".join(map(json.dumps, log)), command="tail -60 ride.log").text
    rows = [line for line in shown.split("\n") if line.startswith("{")]
    assert len(rows) > 9
    for row in map(json.loads, rows):
        left_out = row.pop("[more keys]")
        (record,) = (record for record in log if record["time"] == row["time"])
        assert row.items() <= record.items()
        assert len(row) + left_out == len(record)


# Binaries
def test_lines_that_can_be_read_stay_beside_those_that_cannot() -> None:
    garbled = "\ufffd\x01\x02\ufffd" * 100
    text = f"=== RUN TestA\n--- FAIL: TestA (0.01s)\n{garbled}\n\n{garbled}\nFAIL\tpkg/a\t0.2s\n"
    size = len(f"{garbled}\n\n{garbled}".encode())
    assert binary.suppress(text) == (
        f"=== RUN TestA\n--- FAIL: TestA (0.01s)\n[Binary output suppressed: {size} bytes]\nFAIL\tpkg/a\t0.2s\n"
    )
    assert "--- FAIL" in run(text, command="go test ./...").text


def test_a_garbled_failure_stays() -> None:
    failure = "--- FAIL: TestNames got \ufffd\ufffd\ufffd\ufffd\ufffd want M\u00fcller"
    text = "\n".join(["\ufffd\x01\x02" * 100, failure, "\ufffd\x01\x02" * 100])
    assert failure in (binary.suppress(text) or "").split("\n")


# Terminal
def test_a_shorter_text_ends_the_longer_one_that_it_overwrites() -> None:
    assert render("Compiling src/exports/VPN.c\rAll passed!\nok\n") == (
        "Compiling src/exports/VPN.c\nAll passed!\nok\n"
    )
    # Only the text that covers the other text is visible.
    assert render("Compiling src/VPN.c\rAll passed!            \n") == "All passed!            \n"
    assert render("10 left\r9 left\r8 left\rdone\n") == "10 left\n8 left\ndone\n"


def test_two_texts_that_differ_in_colours_alone_keep_them() -> None:
    text = "Comparison of colours:\n- \x1b[31mfoo\x1b[39m\n+ foo\n"
    assert render(text) == text
    assert render("\x1b[31m- foo\x1b[39m\n\x1b[32m+ bar\x1b[39m\n") == "- foo\n+ bar\n"


def test_colours_that_tell_something_stay() -> None:
    text = "a \x1b[31mold\x1b[m\x1b[32mnew\x1b[m b\n" * 3
    assert run(text, command="git diff --color-words").text == text
    assert "\x1b" not in run(text, command="git diff --color").text


def test_every_character_of_a_file_is_content() -> None:
    text = "printf '\x1b[1mbold\x1b[0m'\rx\n" * 3
    assert run(text, command="cat a.sh").text == text
    assert run(text, "Read", file_path="a.sh").text == text
    assert "\x1b" not in run(text, "Read", file_path="build.log").text


# Numbers
ROWS = [f"the content of row {n} which is one of many in the table" for n in range(60)]


@pytest.mark.parametrize("separator", ["|", "\t", ": "])
@pytest.mark.parametrize(
    "command", ["sqlite3 a.db 'select * from t'", "cat ids.txt", "ss -tlnp", "psql -c 'select 1'"]
)
def test_keys_are_no_line_numbers(separator: str, command: str) -> None:
    text = "\n".join(f"{n}{separator}{row}" for n, row in enumerate(ROWS, 1))
    assert "line_numbers" not in run(text, command=command).stages


@pytest.mark.parametrize(
    "command", ["cat -n a.py", "nl -ba a.py | sed -n '1,60p'", "cat a.py | nl -ba", "open a.py 30"]
)
def test_numbers_that_the_call_puts_there_are(command: str) -> None:
    text = "\n".join(f"{n:>6}\t{row}" for n, row in enumerate(ROWS, 1))
    assert "line_numbers" in run(text, command=command).stages


def test_a_read_is_numbered_from_where_it_was_asked_for() -> None:
    text = "\n".join(f"{n}\t{row}" for n, row in enumerate(ROWS, 1001))
    assert "line_numbers" not in run(text, "Read", file_path="ids.txt").stages
    assert "line_numbers" in run(text, "Read", file_path="a.py", offset=1001).stages
    assert "line_numbers" in run(text, "view", path="a.py", view_range=[1001, 1060]).stages


@pytest.mark.parametrize("sign", [": ", "\t", "| ", ":"])
def test_numbers_that_a_file_may_hold_itself_stay(sign: str) -> None:
    """Numbers are a tool's if the tool writes this form, if tags name the file, or if blanks pad the numbers."""
    text = "\n".join(f"{n}{sign}{row}" for n, row in enumerate(ROWS, 1))
    for tool in ("read_file", "read", "mcp__fs__read_text_file"):
        assert run(text, tool, path="notes/list.txt").text == text
    assert ("line_numbers" in run(text, "Read", file_path="a.py").stages) is (sign == "\t")
    tagged = f"<path>a.py</path>\n<type>file</type>\n<content>{text}\n</content>"
    assert "line_numbers" in run(tagged, "read", filePath="a.py").stages
    own = tagged.replace("<path>a.py</path>\n", "")
    assert run(own, "read", filePath="a.py").text == own
    padded = "\n".join(f"{n:>6}{sign}{row}" for n, row in enumerate(ROWS, 1))
    assert "line_numbers" in run(padded, "read_file", path="a.py").stages


# Files and logs
@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.py' -exec cat {} +", "find src -name a.py -exec sed -n '1,50p' {} \\;",
        "git ls-files | xargs cat", "base64 -d <<< x", "base64 --decode a.b64",
        "curl -s https://raw.githubusercontent.com/a/b/main/x", "curl -sL https://example.org/install.sh",
        "python3 -c \"print(open('a.py').read())\"",
    ],
)  # fmt: skip
def test_every_command_that_prints_a_file_is_a_read(command: str) -> None:
    assert classify("Bash", {"command": command}).is_quoted
    text = "def a():\n    pass   \n\n\n\n\ndef b():\n    pass\n" * 20
    assert run(text, command=command).text == text


@pytest.mark.parametrize(
    "command",
    ["curl -s https://api.example.org/v1/items", "python3 -c 'print(1)'", "base64 a", "find . -exec rm {} +"],
)
def test_a_command_that_prints_no_file_is_no_read(command: str) -> None:
    assert not classify("Bash", {"command": command}).is_quoted


def test_only_outputs_of_known_programs_lose_white_space() -> None:
    text = "first  \n\n\n\n\nsecond  \n" * 60
    assert "whitespace" not in run(text, command="./generate").stages
    assert "whitespace" not in run(text, "Task", prompt="report").stages


@pytest.mark.parametrize(
    "path", ["app.log", "/r/package-lock.json", "rows.csv", "/r/node_modules/a.js", "a.min.js"]
)
def test_logs_and_built_files_are_not_edited(path: str) -> None:
    assert is_unedited(path)
    assert is_data(path) == ("node_modules" not in path)
    assert not classify("Read", {"file_path": path}).is_quoted
    assert not classify("Bash", {"command": f"tail -50 {path}"}).is_quoted
    assert not classify("Bash", {"command": f"head {path} && tail -50 {path}"}).is_quoted
    assert classify("Bash", {"command": f"head {path} && cat src/a.py"}).is_quoted


def test_a_log_that_is_read_folds() -> None:
    text = "waiting for the server to come up\n" * 400
    for call in (("Read", {"file_path": "app.log"}), ("Bash", {"command": "cat app.log"})):
        result = run(text, call[0], **call[1])
        assert "[the line above 399 more times]" in result.text
        assert result.loss is Loss.REVERSIBLE


# Pages
def test_markup_that_a_command_prints_stays() -> None:
    text = "<html><body>" + "<form action='/in'><input name='csrf' value='x'></form><p>text</p>" * 80
    assert "web_page" not in run(f"{text}</body></html>", command="curl -s http://localhost:3000/").stages


# Parts that are left out
def test_a_key_with_a_dot_is_not_a_key_within_another() -> None:
    text = json.dumps([{"a.b": n, "a": {"b": n * 7, "c": f"some text {n}"}} for n in range(60)])
    result = run(text, command="./rows")
    assert '"a.b"' in result.text
    assert '"a"' in result.text
    assert "413" in result.text


def test_no_member_of_a_repeated_name_is_dropped() -> None:
    rows = ",".join(f'{{"id":{n},"text":"words {n}","id":{n + 5000}}}' for n in range(400))
    result = run('{"a":{"k":1,"k":2},"list":[' + rows + "]}", command="curl http://x/api")
    assert '"k":1,"k":2' in result.text


def test_a_cut_read_counts_lines_of_the_file_where_the_call_tells() -> None:
    for command, first in (
        ("sed -n '3000,4200p' a.py", 3000),
        ("tail -n +40 a.py", 40),
        ("cat a.py", 1),
        ("cat a.py | tail -50", 0),
        ("cat a.py | grep x", 0),
        ("sed -n '30,90p' a.py | grep -v x", 0),
        ("sed -n '/x/,$p' a.py", 0),
    ):
        assert classify("Bash", {"command": command}).first_line == first
    text = "\n".join(f"def f_{n}(a, b):\n    return a * {n}  # {'x' * 60}" for n in range(900))
    head = "Chunk ID: 9a8ac9\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
    for command, where, around, first in (
        ("sed -n '3000,4800p' a.py", "", "", 3000),
        ("cat a.py | grep x", " of this output", "", 1),
        ("cat a.py | grep x", " of this output", head, 5),
    ):
        shown = shorten(
            ToolOutput(around + text, "Bash", {"command": command}, mentioned=lambda: {"f_300": 1.0}),
            Policy(lossy=True),
            Redacted,
            lambda _: "",
        ).text
        assert re.search(rf"^\[lines \d+ to (\d+){where} left out\]\ndef f_", shown, re.M)
        for number, name in re.findall(rf"\[lines \d+ to (\d+){where} left out\]\ndef f_(\d+)", shown):
            assert int(number) + 1 - first == 2 * int(name)


@pytest.mark.parametrize(
    "notice",
    [
        "Warning: truncated output (original token count: 52811)",
        "…42811 tokens truncated…",
        "[... Observation truncated due to length ...]",
        "<response clipped>",
    ],
)
def test_the_mark_of_a_cut_by_the_client_stays(notice: str) -> None:
    rows = [f"row {n * 7919 % 10007} with {n} and words" for n in range(900)]
    text = "\n".join([*rows[:400], notice, *rows[400:]])
    result = run(text, command="./rows")
    assert result.loss is Loss.LOSSY
    assert notice in result.text
    assert "counts are of what the client sent" in result.text


def test_names_of_files_tell_of_no_failure() -> None:
    paths = [f"/the/project/src/errors/NotFoundError{n}/FatalError.ts" for n in range(900)]
    assert "failures in" not in run("\n".join(paths), "Glob", pattern="**").text
    paths[450] = "find: '/the/project/private': Permission denied"
    assert paths[450] in run("\n".join(paths), command="find /the/project").text


def test_instructions_stay_whole() -> None:
    text = "\n".join(f"Step {n}:   do this,  then that.\n\n\n" for n in range(400))
    for tool in ("Skill", "skill", "activate_skill"):
        assert run(text, tool, name="x").text == text


# Small losses
def test_a_small_saving_is_not_worth_a_loss() -> None:
    lines = "\n".join(f"  --option-{n}  what it does, said in some words" for n in range(12))
    frames = "\n".join(f"    at f{n} (node_modules/x/a.js:{n}:1)" for n in range(5))
    result = run(f"{lines}\nTypeError: x\n    at main (src/a.js:1:2)\n{frames}\n", command="node a.js")
    assert result.loss is not Loss.LOSSY


def test_telling_of_the_clients_cut_makes_no_text_longer() -> None:
    whole = "row\n" * 30 + "[900 lines truncated]\n"
    for space, end in ((200, "([900 lines truncated])]"), (80, "had cut before]"), (40, "row")):
        text = with_cut_noted("row\nrow", whole, space)
        assert text.endswith(end)
        assert len(text) <= len("row\nrow") + space


def test_a_test_that_passes_against_its_mark_stays_among_dots() -> None:
    dots = [f"tests/test_part_of_the_shop_{n:02}.py ....s..x....... [{n:3}%]" for n in range(1, 40)]
    dots[20] = "tests/test_surprise.py ....X...           [ 21%]"
    text = "\n".join(["=== test session starts ===", *dots, "=== 500 passed, 1 xpassed in 3.21s ==="])
    sent = run(text, command="pytest").text
    assert "lines of dots, no failure: tests/test_part_of_the_shop_" in sent
    assert dots[20] in sent


MODES = [Mode.SAFE, Mode.STANDARD, Mode.AGGRESSIVE]


def run_call(
    text: str, tool: str, arguments: object, mode: Mode = Mode.STANDARD, **policy: object
) -> Shortened:
    return shortened(text, tool, arguments, mode=mode, overhead=PREFIX, **policy)


def shell(line: str, text: str, mode: Mode = Mode.STANDARD, **policy: object) -> str:
    return run_call(text, "Bash", {"command": line}, mode, **policy).text


def test_a_history_is_not_cut_at_ten_and_hashes_are_whole() -> None:
    hashes = [f"{n * 7919:040x}" for n in range(14)]
    text = "".join(
        f"commit {found}\nAuthor: Ann <ann@example.com>\nDate:   Mon Jan 5 10:00:00 2026\n\n    Change {found[-4:]}\n\n"
        for found in hashes
    )
    assert re.findall(r"commit ([0-9a-f]+)", shell("git log", text)) == hashes


@pytest.mark.parametrize("count", [3, 10, 11, 60])
def test_hits_of_a_search_are_all_there_or_counted(count: int) -> None:
    text = "".join(f"src/a.py:{n}:    path = '/build/x.min.js'  # {n}\n" for n in range(1, count + 1))
    shown = shell("grep -rn path src", text, min_bytes=16)
    assert "more" not in shown
    assert len(re.findall(r"^(?:src/a\.py:)?[0-9]+:", shown, re.MULTILINE)) == count


@pytest.mark.parametrize(("command", "is_one"), [("nl -ba a.py |", True), ("cat a.py |", False)])
def test_hits_in_numbered_lines_keep_one_number(command: str, is_one: bool) -> None:
    lines = [f"{n}{':-'[n % 2]}  {n}\t    value_{n} = {n * 7}" for n in range(700, 760)]
    once = [re.sub(r"([:-])  \d+\t", r"\1", line) for line in lines]
    assert shell(f"{command} grep -n value -A1", "\n".join(lines)).split("\n") == (once if is_one else lines)


def test_lines_around_hits_stay() -> None:
    text = "".join(
        f"src/m{n}.py-{n}-before {n}\nsrc/m{n}.py:{n + 1}:hit {n}\nsrc/m{n}.py-{n + 2}-after {n}\n--\n"
        for n in range(1, 30)
    )
    shown = shell("grep -rn -C1 hit src", text, max_output_bytes=100_000)
    for n in range(1, 30):
        for word in (f"before {n}\n", f"hit {n}\n", f"after {n}\n"):
            assert word in shown


def test_paths_that_were_asked_for_by_a_glob_stay() -> None:
    text = "\n".join(f"/srv/shop/vendor/lib{n}/dist/index.min.js" for n in range(40))
    assert run_call(text, "Glob", {"pattern": "vendor/**"}).text == text


@pytest.mark.parametrize("mode", MODES)
def test_an_error_in_the_middle_of_a_long_log_is_shown(mode: Mode) -> None:
    lines = [
        f"2026-01-05 10:00:{n % 60:02} INFO worker {n % 7} did job {n * 7919} of batch {n}"
        for n in range(4_000)
    ]
    lines[2_000] = "2026-01-05 10:33:20 ERROR payment 4711 refused: card expired"
    text = "\n".join(lines)
    assert len(text) > 200_000
    shown = shell("./serve", text, mode)
    assert "ERROR payment 4711 refused: card expired" in shown.replace("[timestamp]", "2026-01-05 10:33:20")


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_invented_about_an_empty_output(mode: Mode) -> None:
    for line in ("git log", "git status", "git diff", "npm test", "find . -name x", "grep x y"):
        assert shell(line, "", mode) == ""
        assert shell(line, "\n", mode) in ("\n", "")


def test_a_table_in_json_keeps_null_and_empty_apart() -> None:
    rows = [{"id": n, "note": None if n % 2 else "", "name": f"n{n}"} for n in range(30)]
    shown = shell("curl -s localhost", json.dumps(rows))
    header, *cells = shown.split("\n")
    note = header.split("columns ")[1].rstrip("]").split(",").index('"note"')
    assert {row.split("\t")[note] for row in cells} == {"null", '""'}
