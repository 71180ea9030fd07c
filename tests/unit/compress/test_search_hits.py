"""Search hits stand under their own file, and are counted as they are."""

from __future__ import annotations

import re

import pytest

from penumbra.compress import windows
from penumbra.compress.calls.classify import classify
from penumbra.compress.size import encode
from penumbra.compress.stages import grouping, new_facts, search_hits

LABELLED = 'Found 40 matches for pattern "keel" in path ".":\n---\n' + "".join(
    f"File: boats/b{n}.py\nL{n}- def b{n}():\nL{n + 1}:     return keel({n}, mast={n * n})\nL{n + 2}- \n---\n"
    for n in range(40)
)


def test_hits_below_labelled_names_stay_below_them() -> None:
    shown = search_hits.sample(LABELLED, 3_000) or ""
    assert shown.startswith("[40 hits in 40 files; ")
    assert 'Found 40 matches for pattern "keel"' in shown
    hits = re.findall(
        r"^boats/b([0-9]+)\.py:(?: 1 hit)?\n(?:L[0-9]+- .*\n)?L([0-9]+):     return keel", shown, re.M
    )
    assert hits
    assert all(int(line) == int(file) + 1 for file, line in hits)
    assert len(hits) == shown.count("return keel")


@pytest.mark.parametrize(("mark", "root"), [("/", "/home/ann/sea/"), ("\\", "C:\\sea\\")])
def test_a_file_of_two_spellings_is_one_file(mark: str, root: str) -> None:
    names = [mark.join(["boats", f"b{n}.py"]) for n in range(12)]
    text = "".join(
        f"{root}{name}-{n}-def a():\n{name}:{n + 1}:    keel({n})\n{root}{name}-{n + 2}-    mast()\n--\n"
        for name in names
        for n in (10, 20)
    )
    grouped = grouping.group(text)
    shown = search_hits.sample(grouped or "", 2_000) or ""
    assert shown.startswith("[24 hits in 12 files; ")
    assert sum(line.startswith((root, "boats")) for line in shown.split("\n")) == 12


def test_a_file_that_is_searched_twice_is_counted_once() -> None:
    hits = "".join(f"src/a{n}.py:\n" + "".join(f"{k}:keel({n}, {k})\n" for k in range(9)) for n in range(9))
    shown = search_hits.sample(hits + hits.replace("src/", "./src/"), 1_000) or ""
    assert shown.startswith("[81 hits in 9 files]")


def test_names_that_only_end_alike_are_of_two_files() -> None:
    text = "/x/y/a.py:\n1:keel\n/z/y/a.py:\n1:mast\na.py:\n1:rope\ny/a.py:\n1:knot\n"
    assert (search_hits.sample(text, 600) or "").startswith("[4 hits in 4 files]")


def test_lines_around_hits_that_are_cut_away_are_no_hits() -> None:
    text = "src/a.py:\n" + "".join(f"{n}-rope {n}\n" for n in range(20)) + "src/b.py:\n7:keel\n"
    shown = search_hits.sample(text, 600) or ""
    assert shown.startswith("[1 hit in 2 files; of the lines around them only some]")


def test_a_line_is_not_cut_for_less_than_the_marker() -> None:
    just_over = "7:" + "keel " * 48
    shown = search_hits.sample(f"boats/b.py:\n{just_over}\n9:{'mast ' * 90}", 3_000) or ""
    assert just_over in shown
    assert re.search(r"\[[0-9]+ characters left out\]$", shown, re.M)


def test_hits_of_a_mixed_output_stand_below_their_own_file() -> None:
    names = ("bow", "mast", "stern")
    groups = [
        f"sea/{names[n % 3]}.yaml:\n{n + 1}:{names[n % 3]}: hull_{n * 7919}.frames\n{n + 2}:more of it"
        for n in range(300)
    ]
    text = "\n".join([*(f"quay-{n}" for n in range(200)), *groups])
    data = encode(text)
    lines = new_facts.Lines.of(data, {}, search_hits.headings(text))
    for room in (1_500, 4_000, 8_000):
        spans = lines.choose(room, [])
        assert sum(end - start for start, end in spans) <= room
        shown = windows.assemble(data, spans, lambda start, end: f"[{end - start} bytes]")
        file, hits = "", 0
        for line in shown.split("\n"):
            file = line if line.endswith(":") else file
            if hit := re.match("[0-9]+:([a-z]+): ", line):
                assert file == f"sea/{hit[1]}.yaml:"
                hits += 1
        assert hits


def test_more_is_said_only_where_something_is_shown() -> None:
    text = "".join(f"boats/b{n}.py:{n + 1}:    return keel({n}, {'mast ' * 20})\n" for n in range(60))
    shown = search_hits.sample(grouping.group(text) or text, 3_000) or ""
    alone = re.findall(r"^boats/b\d+\.py: 1 hit\n(\[.*\])$", shown, re.M)
    assert alone
    assert all(re.fullmatch(r"\[1 left out: line \d+\]", line) for line in alone)


def test_hits_of_what_was_asked_for_come_before_others() -> None:
    names = [f"fetchPart{n}" for n in range(40)]
    hits = [f"{n}:  {name}({n})" for n, name in enumerate(names, 1)]
    others = [f"{n}:  otherThing{n}.run(cfg{n}.txt)" for n in range(100, 400)]
    said = dict.fromkeys(names, 1.0)
    text = "src/a.ts:\n" + "\n".join([*others, *hits])
    found = search_hits.sample(text, 2_500, said, frozenset(names))
    assert found is not None
    assert all(f"  {name}(" in found for name in names)
    without = search_hits.sample(text, 2_500, said)
    assert without is not None
    assert not all(f"  {name}(" in without for name in names)


def test_what_a_search_looks_for() -> None:
    for tool, arguments in (
        ("Bash", {"command": "cd a && rg -n 'getUser|setUser' src"}),
        ("Grep", {"pattern": "getUser|setUser", "path": "src"}),
    ):
        asked = search_hits.asked(classify(tool, arguments), arguments)
        assert {"getUser", "setUser"} <= asked
