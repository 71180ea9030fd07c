"""YAML lists of like mappings as tables."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Loss, Policy, Redacted, ToolOutput
from penumbra.compress.stages.yaml_table import to_tables
from support.examples import examples

POD = """\
kind: Pod
status:
  conditions:
  - lastProbeTime: null
    lastTransitionTime: "2026-01-05T10:00:01Z"
    status: "True"
    type: PodReadyToStartContainers
  - lastProbeTime: null
    lastTransitionTime: "2026-01-05T10:00:00Z"
    status: "True"
    type: Initialized
  - lastProbeTime: null
    lastTransitionTime: "2026-01-05T10:00:09Z"
    message: 'containers with unready status: [price]'
    status: "False"
    type: Ready
  phase: Running
"""
TABLE = """\
kind: Pod
status:
  conditions:
  [list of 3 mappings; the same in all: lastProbeTime: null; keys lastTransitionTime, status, type, message]
  "2026-01-05T10:00:01Z"\t"True"\tPodReadyToStartContainers\t
  "2026-01-05T10:00:00Z"\t"True"\tInitialized\t
  "2026-01-05T10:00:09Z"\t"False"\tReady\t'containers with unready status: [price]'
  phase: Running
"""


def test_a_list_of_like_mappings() -> None:
    assert to_tables(POD) == TABLE
    assert to_tables(TABLE) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n- b\n- c\n",
        "- a: 1\n- a: 2\n- a: 3\n",
        "- a: 1\n  b: 2\n- a: 3\n  b: 4\n",
        "- a: 1\n  b:\n    c: 2\n" * 3,
        "- a: |\n    text\n  b: 1\n" * 3,
        "- a: &x 1\n  b: 2\n" * 3,
        "- a: 1 # why\n  b: 2\n" * 3,
        "- a: 1\n  a: 2\n" * 3,
        "- a: x\n  continued\n  b: 1\n" * 3,
        "- a: 1\n  b: 2\n" * 3,
    ],
)
def test_anything_else_stays(text: str) -> None:
    assert to_tables(text) is None


HEADER = re.compile(r"( *)\[list of [0-9]+ mappings(?:; the same in all: (.*?))?; keys (.*)\]")


def read_back(text: str) -> object:
    """The document that a table stands for."""
    lines: list[str] = []
    keys: list[str] = []
    same = ""
    for line in text.split("\n"):
        found = HEADER.fullmatch(line)
        if found:
            same, keys = found[2] or "", found[3].split(", ")
        elif (keys and "\t" in line) or (len(keys) == 1 and line):
            cells = zip(keys, line.split("\t"), strict=True)
            pairs = [f"{key}: {value}" for key, value in cells if value] + (same.split(", ") if same else [])
            lines.append("- {" + ", ".join(pairs) + "}")
        else:
            lines.append(line)
    return yaml.safe_load("\n".join(lines))


KEYS = st.sampled_from(["name", "image", "port", "a.b/c"])
VALUES = st.sampled_from(["1", "'x y'", '"True"', "null", "some words", "http://x:80/y", "-5", "2026-01-05"])


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.dictionaries(KEYS, VALUES, min_size=2), min_size=3, max_size=8))
def test_nothing_is_lost(rows: list[dict[str, str]]) -> None:
    text = "".join("- " + "\n  ".join(f"{key}: {value}" for key, value in row.items()) + "\n" for row in rows)
    table = to_tables(text)
    if table is not None:
        assert read_back(table) == yaml.safe_load(text)


def test_rows_that_are_told_in_part_have_their_head() -> None:
    rows = "".join(f"- id: {n}\n  state: s{n % 3}\n  total: {n * 7919 % 100_003}\n" for n in range(500))
    steps = "\n".join(f"log line {n * 104_729 % 1_000_003} of the run" for n in range(120))
    text = f"{steps}\nitems:\n{rows}tail: end\n"
    output = ToolOutput(text, "Bash", {"command": "./run"})
    done = shorten(output, Policy(lossy=True), Redacted, lambda _: "shadow_1")
    lines = done.text.split("\n")
    assert "excerpt" in done.stages
    first = next(n for n, line in enumerate(lines) if "\t" in line)
    assert "[list of 500 mappings; keys id, state, total]" in lines[:first]


def test_in_the_pipeline_for_commands_but_not_for_files() -> None:
    names = ["cart", "price", "stock-sync", "mailer", "search", "old-orders", "tax", "report"]
    listed = "".join(
        f"- name: {name}\n  image: shop/{name[::-1]}\n  restart: never\n"
        for name in [*names, *(name[1:] for name in names)]
    )
    done = shorten(
        ToolOutput(listed, "Bash", {"command": "kubectl get pods -o yaml"}), Policy(), Redacted, str
    )
    assert done.text.startswith(
        "[list of 16 mappings; the same in all: restart: never; keys name, image]\ncart\t"
    )
    assert (done.stages, done.loss) == (("yaml_table",), Loss.NONE)
    read = shorten(ToolOutput(listed, "Bash", {"command": "cat jobs.yaml"}), Policy(), Redacted, str)
    assert read.text == listed
