"""JSON that a few lines stand around, and several values behind each other: each record stays whole."""

from __future__ import annotations

import json

import pytest

from penumbra.compress.stages.json_minify import among_lines, minify
from penumbra.compress.stages.json_table import to_tables
from support.results import PREFIX, shortened

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
def test_records_behind_and_before_lines_stay_whole(indent: int | None, end: str) -> None:
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


def test_what_a_file_holds_is_left_alone() -> None:
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


def test_values_behind_each_other_are_lines_of_json() -> None:
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
