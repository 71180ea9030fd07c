"""JSON tables, hits by file, log patterns, dictionaries, web pages."""

import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.stages import logs, markup, search_hits
from penumbra.compress.stages.json_minify import among_lines, minify
from penumbra.compress.stages.json_table import to_tables
from support.examples import examples
from support.results import PREFIX, shortened


# JSON tables
def read_table(text: str) -> list[dict[str, object]]:
    """Return the objects in a text that is one table, by the header of the table."""
    header, *rows = text.split("\n")
    columns = json.loads("[" + header.rsplit("; columns ", 1)[1][:-1] + "]")
    found = re.search(r"; the same in all: (.*?)(?=; \"(?:[^\"\\]|\\.)*\" begins |; columns )", header)
    same = json.loads("{" + found[1] + "}") if found else {}
    begins = dict(re.findall(r'; ("(?:[^"\\]|\\.)*") begins ("(?:[^"\\]|\\.)*")', header))
    prefixes = {json.loads(name): json.loads(prefix) for name, prefix in begins.items()}
    objects: list[dict[str, object]] = []
    for row in rows:
        flat = dict(same)
        for name, cell in zip(columns, row.split("\t"), strict=True):
            if cell:
                flat[name] = read_cell(cell, prefixes.get(name))
        objects.append(nest(flat))
    return objects


def read_cell(cell: str, prefix: str | None) -> object:
    try:
        value = json.loads(cell)
    except ValueError:
        value = cell
    return value if prefix is None else prefix + value


def nest(flat: dict[str, object]) -> dict[str, object]:
    nested: dict[str, object] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        place = nested
        for step in path:
            place = place.setdefault(step, {})  # The names are unique, so this is a dict.
        place[last] = value
    return nested


def test_an_envelope_keeps_its_other_members() -> None:
    items = [
        {"id": n, "name": f"user {n}", "type": "u", "zip": f"0{n}", "home": {"city": "Oslo", "no": n}}
        for n in range(4)
    ]
    text = to_tables(json.dumps({"items": items, "total": 4, "price": 1}))
    assert text == (
        '{"items":"[table 1]","total":4,"price":1}\n'
        '[table 1: 4 objects; the same in all: "type":"u","home.city":"Oslo"; columns "id","name","zip","home.no"]\n'
        '0\tuser 0\t"00"\t0\n1\tuser 1\t"01"\t1\n2\tuser 2\t"02"\t2\n3\tuser 3\t"03"\t3'
    )


def test_spelling_of_numbers_survives_in_cells() -> None:
    text = to_tables(
        '[{"amount":1.10,"b":12345678901234567890123},{"amount":1e5,"b":null},{"amount":-0,"b":2}]'
    )
    assert text is not None
    assert text.split("\n")[1:] == ["1.10\t12345678901234567890123", "1e5\tnull", "-0\t2"]


def test_a_table_of_equal_objects_has_no_columns() -> None:
    assert to_tables(json.dumps([{"state": "ok", "who": "x" * 9}] * 3)) == (
        '[table 1: 3 objects; the same in all: "state":"ok","who":"xxxxxxxxx"]'
    )


def test_long_shared_beginnings_are_written_once() -> None:
    rows = [{"u": f"https://example.com/api/v1/items/{n}x"} for n in range(5)]
    text = to_tables(json.dumps(rows))
    assert text is not None
    assert '"u" begins "https://example.com/api/v1/items/"' in text
    assert text.endswith("0x\n1x\n2x\n3x\n4x")


@pytest.mark.parametrize(
    "text",
    [
        *('[{"a":1,"a":2},{"a":1},{"a":3}]', '[{"a":1},{"b":2},{"c":3}]', "[1,2,3,4]"),
        *('{"a":{"b":1}}', '[{"a":1},{"a":2}]', "[info] not json at all", '[{"a":1},{"a":2},3]'),
    ],
)
def test_no_table(text: str) -> None:
    assert to_tables(text) is None


cell = (
    st.none()
    | st.booleans()
    | st.integers(-99, 999)
    | st.text(st.sampled_from('a1.,"\\ \té'), max_size=5)
    | st.sampled_from(
        [
            "true", "null", "12", "1e5", "-", " x", "[a", "{b", "https://example.com/some/path/1",
            "https://example.com/some/path/22",
        ]
    )
)  # fmt: skip
record = st.fixed_dictionaries(
    {"id": cell, "name": cell}, optional={"more": cell, "in": st.fixed_dictionaries({"x": cell, "y": cell})}
)


@settings(max_examples=examples(200))
@given(st.lists(record, min_size=3, max_size=8))
def test_tables_can_be_read_back(rows: list[dict[str, object]]) -> None:
    text = to_tables(json.dumps(rows, ensure_ascii=False))
    if text is not None and "columns ]" not in text:
        assert read_table(text) == rows


# Hits
@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        (
            "src/a.py:1:import os\nsrc/a.py-2-import re\n--\nsrc/b.py:7:x = 1\nsrc/b.py:9:y = 2",
            "src/a.py:\n1:import os\n2-import re\n--\nsrc/b.py:\n7:x = 1\n9:y = 2",
        ),
        (
            "/home/me/p/src/a.py-4-before\nsrc/a.py:5:hit\n/home/me/p/src/a.py-6-after\nsrc/a.py:9:2\nsrc/a.py:12:3",
            "/home/me/p/src/a.py:\n4-before\n5:hit\n6-after\n9:2\n12:3",
        ),
        (
            "C:\\w\\a.cs:3:5: one\nC:\\w\\a.cs:4:1: two\nC:\\w\\a.cs:9:1: three",
            "C:\\w\\a.cs:\n3:5: one\n4:1: two\n9:1: three",
        ),
        (
            "Found 3 matches\n/a/b.ts:\n  Line 15: one\n\n  Line 19: two\n\n  Line 200:   three\n\nend",
            "Found 3 matches\n/a/b.ts:\n15: one\n19: two\n200:   three\n\nend",
        ),
    ],
    ids=["two files", "two spellings of a file", "Windows", "a word before numbers"],
)
def test_hits_are_grouped_by_file(text: str, grouped: str) -> None:
    assert search_hits.group(text) == grouped


@pytest.mark.parametrize(
    "text",
    [
        "12:30:01 started\n12:30:02 stopped\n12:30:03 gone\n12:30:04 back",
        "2026-01-02T10:00:01 error\n2026-01-02T10:00:02 warn\n2026-01-02T10:00:03 ok",
        "plain\ntext\nhere\n",
        "a.py:\n1:x\na.py:1:x\na.py:2:y\na.py:3:z",
        "a.py:1:x\na.py:2:y\na.py:3:z\n7:lone",
    ],
)
def test_no_hits_to_group(text: str) -> None:
    assert search_hits.group(text) is None


def ungrouped(text: str) -> list[str]:
    """Return the lines of a grouped text with the file name before every hit."""
    rows = text.split("\n")
    numbers = [re.match(r"[0-9]+([:-])", row) for row in rows]
    lines: list[str] = []
    name = ""
    for row, number, following in zip(rows, numbers, [*numbers[1:], None], strict=True):
        if following and not number and row.endswith(":"):
            name = row[:-1]
        else:
            name = name if number or row == "--" else ""
            lines.append(f"{name}{number[1]}{row}" if name and number else row)
    return lines


hit = st.builds(
    lambda path, number, mark, rest: f"{path}{mark}{number}{mark}{rest}",
    st.sampled_from(["a/x.py", "a/y.py", "/r/a/x.py", "b-1-c.go"]),
    st.integers(1, 99),
    st.sampled_from([":", ":", "-"]),
    st.sampled_from(["code", "", "12:x", "a/x.py:", "- b"]),
)


@settings(max_examples=examples(200))
@given(st.lists(hit | st.sampled_from(["--", "", "note:", "7:lone"]), max_size=25))
def test_grouped_hits_can_be_restored(lines: list[str]) -> None:
    grouped = search_hits.group("\n".join(lines))
    if grouped is not None:
        restored = ungrouped(grouped)
        assert len(restored) == len(lines)
        for before, after in zip(lines, restored, strict=True):
            assert after.endswith(before) or before.endswith(after)


# Logs
def log_lines(count: int) -> str:
    return "\n".join(
        f"2026-01-02T03:04:{n % 60:02}.{n:03}Z INFO [worker-{n % 4}] processed job {1000 + n} of the queue in {n * 7 % 90} ms"
        for n in range(count)
    )


def filled_in(text: str) -> str:
    """Return the log in which every pattern is written in each of its lines."""
    legend, _, body = text.partition("\n[end of patterns]\n")
    patterns = dict(line[1:].split(" ", 1) for line in legend.split("\n")[1:])
    lines = body.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("~"):
            name, *values = line[1:].split(" ")
            parts = zip(patterns[name].split("{}"), [*values, ""], strict=True)
            lines[at] = "".join(part + value for part, value in parts)
    return "\n".join(lines)


def test_patterns_of_a_log_are_written_once() -> None:
    text = log_lines(100) + "\n2026-01-02T03:05:00.000Z ERROR job 7 failed: disk full\n"
    short = logs.factor(text)
    assert short is not None
    assert len(short) < len(text) // 2
    assert short.count("processed job") == 1
    assert "2026-01-02T03:05:00.000Z ERROR job 7 failed: disk full" in short.split("\n")
    assert filled_in(short) == text
    assert logs.factor(short) is None


@pytest.mark.parametrize(
    "text", ["a\n" * 50, "\n".join(f"short {n}" for n in range(50)), "~A 1\n" + log_lines(60), log_lines(20)]
)
def test_no_log(text: str) -> None:
    assert logs.factor(text) is None


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from(range(6)), min_size=12, max_size=80), st.randoms(use_true_random=False))
def test_log_patterns_can_be_filled_in(kinds: list[int], chance: random.Random) -> None:
    shapes = [
        "request {} to /api/v1/users/{} took {} ms in all",
        "2026-02-03T04:05:{:02d}Z connection {} accepted from 10.0.0.{}",
        "commit deadbeef{:08x} by someone at {} with {} files changed",
        "plain line without values in it at all",
        "{{}} braces {} {} {}",
        "short {}{}{}",
    ]
    lines = [shapes[kind].format(*(chance.randrange(60) for _ in range(3))) for kind in kinds]
    short = logs.factor("\n".join(lines))
    if short is not None:
        assert filled_in(short) == "\n".join(lines)
        _each_pattern_is_used(short)


def _each_pattern_is_used(factored: str) -> None:
    legend, _, body = factored.partition("\n[end of patterns]\n")
    names = {line.split(" ")[0] for line in legend.split("\n")[1:]}
    assert names
    assert names <= {line.split(" ")[0] for line in body.split("\n")}


def test_no_pattern_is_written_for_lines_that_stay() -> None:
    failed = [f"2026-01-02T03:05:{n:02}Z ERROR job {n} failed: the disk is full" for n in range(30)]
    short = logs.factor("\n".join([log_lines(60), *failed]))
    assert short is not None
    _each_pattern_is_used(short)
    assert short.split("\n")[-30:] == failed


@pytest.mark.parametrize(
    "marker", ["[the line above {} more times]", "[the 3 lines above {} more times]", "[{} lines of layers]"]
)
def test_a_mark_that_counts_other_lines_is_no_pattern(marker: str) -> None:
    lines = [
        line for n, line in enumerate(log_lines(60).split("\n")) for line in (line, marker.format(n + 2))
    ]
    lines += log_lines(60).split("\n")
    short = logs.factor("\n".join(lines))
    assert short is not None
    assert [line for line in short.split("\n") if line[0] == "["][2:] == lines[1:120:2]
    assert filled_in(short) == "\n".join(lines)


# Web pages
def test_a_page_becomes_text() -> None:
    page = (
        "<!doctype html><html><head><title>A &amp; B</title><style>p{}</style></head><body><script>var x</script>"
        '<h1>Top</h1><p>Some <b>bold</b> text, <a href="https://x.y/z">a link</a>.</p><ul><li>one<li>two</ul>'
        "<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table><pre>x = 1\n  y = 2</pre>"
        '<img alt="a plot"><div hidden>secret</div><a href="#top">up</a></body></html>'
    )
    text = markup.to_text(page)
    assert text is not None
    for wanted in (
        "# A & B\n",
        "# Top\n",
        "Some bold text, [a link](https://x.y/z).",
        "- one\n- two\n",
        "k | v\n1 | 2\n",
    ):
        assert wanted in text
    assert "x = 1\n  y = 2" in text
    assert "[image: a plot]" in text
    for unwanted in ("var x", "p{}", "secret", "#top"):
        assert unwanted not in text


@pytest.mark.parametrize(
    "text", ["plain", "<div>part of a page</div>", "<html>" + "<div>" * 600, "see <html> tag"]
)
def test_no_page(text: str) -> None:
    assert markup.to_text(text) is None


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        # The label has two rows, and one head has no name.
        (
            (
                "<tr><th></th><th>2025</th><th>2026</th></tr><tr><th rowspan=2>Costs</th><td>3</td><td>4</td></tr>"
                "<tr><td>5</td><td>6</td></tr><tr><td></td><td>7</td><td>8</td></tr>"
            ),
            ["| 2025 | 2026", "Costs | 3 | 4", "Costs | 5 | 6", "| 7 | 8"],
        ),
        # A head spans two columns, a value spans three rows, and some rows lack their last cells.
        (
            (
                "<tr><th colspan=2>Crew</th><th>Home</th></tr><tr><td>1</td><td>2</td><td rowspan=3>quay</td></tr>"
                "<tr><td>4</td><td>5</td></tr><tr><td>6</td></tr><tr><td>7</td></tr>"
            ),
            ["Crew | | Home", "1 | 2 | quay", "4 | 5 | quay", "6 | | quay", "7"],
        ),
        # Cells hold paragraphs, lines and lists.
        (
            (
                "<tr><td><p>Name</p></td><td><div>3</div><div>4</div></td></tr>"
                "<tr><td>a<br>b</td><td><ul><li><a href='/x'>x</a></li></ul></td></tr>"
            ),
            ["Name | 3 4", "a b | - [x](/x)"],
        ),
        # The label also spans an empty row.
        ("<tr><td rowspan=2>a</td><td>1</td></tr><tr></tr><tr><td>b</td></tr>", ["a | 1", "a", "b"]),
        # The outer table is layout.
        ("<tr><td></td><td><table><tr><td>in</td><td>ner</td></tr></table></td></tr>", ["in | ner"]),
    ],
)
def test_each_row_of_a_table_keeps_its_label_and_its_columns(rows: str, lines: list[str]) -> None:
    text = markup.to_text(f"<!doctype html><html><body><table>{rows}</table></body></html>")
    assert text is not None
    assert [line for line in text.split("\n") if line] == lines


def test_cells_that_span_very_many_make_no_page_large() -> None:
    cells = "".join(f"<td rowspan=1000>{'x y ' * 58}</td>" for _ in range(300))
    tall = f"<html><body><table><tr><th>a</th></tr><tr>{cells}</tr>{'<tr><td>b</td></tr>' * 1000}</table></body></html>"
    wide = f"<html><body><table><tr><th>a</th>{'<td colspan=1000>b</td>' * 4000}</tr></table></body></html>"
    assert markup.to_text(tall) is None
    assert markup.to_text(wide) is None


@pytest.mark.parametrize(
    ("inner", "lines"),
    [
        ("<ul><li><p>one</p><p>more</p></li><li><p>two</p></li></ul>", ["- one", "", "more", "- two"]),
        ("<ul><li><div><div>one</div></div></li></ul>", ["- one"]),
        ("<ul><li><div></div>one</li><li></li><li>two</li></ul>", ["- one", "- two"]),
        ("<ul><li><ul><li><p>one</p></li></ul></li></ul>", ["- one"]),
        ("<h2><div>Top</div></h2><p>x</p>", ["## Top", "", "x"]),
        ("<h2><div></div></h2><p>x</p>", ["x"]),
        ("<ol><li><h3>Top</h3>x</li></ol>", ["- ### Top", "x"]),
    ],
    ids=[
        *("paragraph", "blocks in blocks", "empty block", "list", "heading", "empty heading"),
        "heading in item",
    ],
)
def test_an_item_or_a_heading_keeps_its_mark_whatever_block_it_begins_with(
    inner: str, lines: list[str]
) -> None:
    text = markup.to_text(f"<!doctype html><html><body>{inner}</body></html>")
    assert text is not None
    assert text.strip().split("\n") == lines


RECORDS = [
    {
        "id": n,
        "path": f"/srv/tide/{n}.json",
        "status": "ok",
        "error": None if n % 7 else f"ETIMEDOUT 10.0.0.{n}",
    }
    for n in range(60)
]
TABLE = '[table 1: 60 objects; the same in all: "status":"ok"; columns "id","path","error"]'


def sent(text: str, tool: str = "Bash", **arguments: object) -> str:
    return shortened(text, tool, arguments, overhead=PREFIX).text


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_records_between_lines_stay_whole(indent: int | None, end: str) -> None:
    value = json.dumps(RECORDS, indent=indent).replace("\n", end)
    before = f"npm warn Unknown user config{end}[sync] connected to db-1:5432{end}"
    behind = f"{end}Synced 60 records, 9 failed{end}TypeError: x{end}    at f (src/sync.js:3:1){end}"
    text = sent(before + value + behind, command="node sync.js")
    assert text.startswith(f"{before}{TABLE}\n0\t/srv/tide/0.json\tETIMEDOUT 10.0.0.0\n")
    assert text.endswith(f"59\t/srv/tide/59.json\tnull{behind}")


def test_lines_of_json_below_a_line_are_a_table() -> None:
    lines = "\n".join(json.dumps(record) for record in RECORDS)
    text = sent(f"Starting\n{lines}\nDone\n", command="docker logs web")
    assert text.startswith(
        'Starting\n[60 lines of JSON; the same in all: "status":"ok"; columns "id","path","error"]\n'
    )
    assert text.endswith("\n59\t/srv/tide/59.json\tnull\nDone\n")


def test_the_text_of_a_file_is_left_alone() -> None:
    text = f"// settings\n{json.dumps(RECORDS, indent=2)}\n"
    assert sent(text, "Read", file_path="src/settings.json5") == text


@pytest.mark.parametrize(
    "text",
    [
        "[INFO][main] step\n" * 200,
        "{\n" * 400,
        "[\n" * 400,
        "a line of its own\n" * 200 + json.dumps(RECORDS),
        json.dumps(RECORDS) + "\na line of its own" * 200,
        'a\n{"a":1}\nb\n',
        f"{json.dumps(RECORDS)[:-9]}\n",
    ],
)
def test_no_json_among_lines(text: str) -> None:
    assert among_lines(text) == ("", text, "")


def test_consecutive_values_are_lines_of_json() -> None:
    printed = "\n".join(json.dumps(record, indent=2) for record in RECORDS)
    assert minify(printed) == "\n".join(json.dumps(record, separators=(",", ":")) for record in RECORDS)
    assert minify('{"a": 1}{"a": 2} [3]\n') == '{"a":1}\n{"a":2}\n[3]\n'
    assert minify('{"a": 1}{"a": 2') is None
    assert sent(printed, command="jq '.[]' a.json").startswith("[60 lines of JSON; ")


def test_pages_have_tables_of_their_own() -> None:
    pages = "".join(json.dumps({"total": 60, "runs": RECORDS[at : at + 30]}) for at in (0, 30))
    shells = '{"total":60,"runs":"[table 1]"}\n{"total":60,"runs":"[table 2]"}\n'
    tables = to_tables(pages)
    assert tables is not None
    assert tables.startswith(f"{shells}[table 1: 30 objects; ")
    assert "\n[table 2: 30 objects; " in tables
    alone = to_tables("".join(json.dumps(RECORDS[at : at + 30]) for at in (0, 30)))
    assert alone == tables.removeprefix(shells)
