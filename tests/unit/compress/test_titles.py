"""A detail is not read without its title, and no hit under another file's name."""

from __future__ import annotations

import re

from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Mode, Policy, Redacted, ToolOutput
from penumbra.compress.stages import new_facts, titles
from support.cases import each


def shown(tool: str, arguments: dict[str, object], text: str) -> str:
    output = ToolOutput(text, tool, arguments, "call_7")
    return shorten(output, Policy(Mode.STANDARD, lossy=True), Redacted, lambda text: "").text


@each(
    "title",
    [
        "**Zero the key when it fails.**",
        "## Keys",
        "2. **Zero the key**:",
        "<summary>Keys</summary>",
        "=== a.ts ===",
    ],
)
def test_what_is_a_title(title: str) -> None:
    text = f"first\n\n{title}\nits detail\n\nmore of it"
    assert titles.above(text) == {3: 2, 5: 2}


@each("line", ["a **bold** word in it", "# ", "**", "x == y", "-- a b"])
def test_what_is_none(line: str) -> None:
    assert titles.above(f"{line}\nbelow") == {}


def test_a_finding_keeps_its_title() -> None:
    findings = [
        f"**Finding number {n} of the review.**\n\nNothing is said here that is new, as before.\n"
        f"In src/area{n}/file_{n}.ts, `handle{n}` keeps retryLimit={n * 7919}.\n"
        for n in range(200)
    ]
    lines = shown("mcp__host__review", {"id": 7}, "\n".join(findings)).split("\n")
    told = [at for at, line in enumerate(lines) if re.match(r"In src/area\d+/", line)]
    assert len(told) > 10
    for at in told:
        number = re.findall(r"area(\d+)/", lines[at])[0]
        assert f"**Finding number {number} of the review.**" in lines[max(0, at - 4) : at]


def test_hits_of_a_very_long_output_stand_below_their_file() -> None:
    files = [
        f"src/area{n}/file_{n}.ts:\n"
        + "\n".join(f"{k}:  const value_{n}_{k} = {n * k}" for k in range(1, 60))
        for n in range(200)
    ]
    files[90] += "\n60:  error: broken_90"
    text = "\n".join(["searched in all of it", *files])
    assert len(text) > new_facts.LONGEST
    file = ""
    of_hits = set[str]()
    for line in shown("mcp__code__look", {"id": 7}, text).split("\n"):
        if found := re.fullmatch(r"src/area(\d+)/file_\d+\.ts:", line):
            file = found[1]
        elif found := re.match(r"\d+:  const value_(\d+)_", line):
            assert found[1] == file
            of_hits.add(file)
    assert len(of_hits) > 2
