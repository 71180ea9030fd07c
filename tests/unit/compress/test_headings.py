"""A detail is shown with its title, and a hit with the name of its file."""

import re
from typing import Any

import pytest

from penumbra import rules
from penumbra.compress import facts
from penumbra.compress.line_flags import LineFlags
from penumbra.compress.stages import headings
from support.results import shortened


def of(text: str) -> LineFlags:
    return LineFlags(text.split("\n"))


LINTED = "\n\n".join(
    f"/srv/shop/src/area{n}/file_{n}.js\n"
    + "\n".join(f"  {k}:{n + 1}  error  'value_{n}_{k}' is not defined  no-undef" for k in range(1, 9))
    for n in range(120)
)


def shown(tool: str, arguments: dict[str, object], text: str) -> str:
    return shortened(text, tool, arguments).text


@pytest.mark.parametrize("flag", rules.table("lines.yaml")["flags"])
def test_examples_of_a_flag_have_it(flag: Any) -> None:
    rule = rules.table("lines.yaml")["flags"][flag]
    lines = [*rule["examples"], *rule["others"]]
    assert [lines[at] for at in LineFlags(lines)[flag]] == rule["examples"]
    assert [at for at in range(len(lines)) if LineFlags(lines).has(at, flag)] == [
        *range(len(rule["examples"]))
    ]


def test_a_title_heads_the_lines_below_it() -> None:
    assert headings.above(of("first\n\n## Keys\nits detail\n\nmore of it")) == {3: 2, 5: 2}


def test_hits_of_a_very_long_output_stand_below_their_file() -> None:
    files = [
        f"src/area{n}/file_{n}.ts:\n"
        + "\n".join(f"{k}:  const value_{n}_{k} = {n * k}" for k in range(1, 60))
        for n in range(200)
    ]
    files[90] += "\n60:  error: broken_90"
    text = "\n".join(["searched in all of it", *files])
    assert len(text) > facts.LONGEST
    file = ""
    of_hits = set[str]()
    for line in shown("mcp__code__look", {"id": 7}, text).split("\n"):
        if found := re.fullmatch(r"src/area(\d+)/file_\d+\.ts:", line):
            file = found[1]
        elif found := re.match(r"\d+:  const value_(\d+)_", line):
            assert found[1] == file
            of_hits.add(file)
    assert len(of_hits) > 2


def test_a_finding_is_shown_with_its_title_and_a_title_with_its_place() -> None:
    findings = [
        f"**Finding {n}: handle{n} keeps retryLimit={n * 7919}.**\n\n"
        f"`src/area{n}/file_{n}.ts`, line {n + 3}: nothing is said here that is new, as it was before.\n"
        f"In value_{n} of it {n * 31} is kept.\n"
        for n in range(200)
    ]
    lines = shown("mcp__host__review", {"id": 7}, "\n".join(findings)).split("\n")
    numbers = {kind: [at for at, line in enumerate(lines) if line.startswith(kind)] for kind in ("**", "In ")}
    assert 10 < len(numbers["**"]) < 200
    assert numbers["In "]
    for at in numbers["**"]:
        number = re.findall(r"\d+", lines[at])[0]
        assert lines[at + 2].startswith(f"`src/area{number}/file_{number}.ts`, line ")
    for at in numbers["In "]:
        number = re.findall(r"value_(\d+)", lines[at])[0]
        assert any(line.startswith(f"**Finding {number}:") for line in lines[max(0, at - 4) : at])


@pytest.mark.parametrize(
    "place",
    ["src/a.ts:40: it", "`src/a.ts`, line 40", "In `a.py` (lines 3 to 9)", "see lib/b.rs#L12", "b.go L12"],
)
def test_lines_with_a_place(place: str) -> None:
    text = f"## Keys\n\n{place}\nmore"
    assert headings.places(of(text), headings.above(of(text))) == {0: 2}


@pytest.mark.parametrize(
    "line", ["it is in src/a.ts", "version 1.2: 30", "at 12:40 it failed", "e.g. 3 of them"]
)
def test_lines_without_a_place(line: str) -> None:
    text = f"## Keys\n{line}\nsrc/a.ts:4 stands further below"
    assert headings.places(of(text), headings.above(of(text))) == {}


def test_a_diagnostic_keeps_the_file_that_it_is_of() -> None:
    text = shown("mcp__code__lint", {"id": 7}, LINTED)
    lines = text.split("\n[failures in what is left out:]")[0].split("\n")
    found = [at for at, line in enumerate(lines) if "value_" in line]
    assert len(found) > 10
    for at in found:
        number = re.findall(r"value_(\d+)_", lines[at])[0]
        above = [line for line in lines[:at] if line.startswith("/srv/")]
        assert above[-1] == f"/srv/shop/src/area{number}/file_{number}.js"


def test_no_empty_line_stands_alone_between_two_gaps() -> None:
    texts = [f"Chapter {n} tells of port {n * 31} and of value_{n}.\n" + "\nwords\n" * 12 for n in range(180)]
    text = shown("mcp__host__book", {"id": 7}, "\n".join(texts))
    assert text.count(" left out]") > 3
    assert not re.search(r"left out\]\n\n\[", text)


def shown_by(command: str, text: str) -> list[str]:
    return shown("Bash", {"command": command}, text).split("\n")


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("docker compose logs", "svc-{part}-1  | took order {number} of customer_{n}"),
        ("docker compose logs", "svc-{part}-1  | {deep}at order_{number} of customer_{n}"),
        (
            "gh run view 12 --log",
            "test ({part})\tRun npm test\t2026-01-05T10:00:00Z has done thing_{n} of {number}",
        ),
    ],
)
def test_grouped_lines_that_are_cut_keep_the_beginning_of_their_group(command: str, line: str) -> None:
    """Lines of five services alternate. Many lines are omitted with the names of their services."""
    lines = [
        line.format(part=n // 7 % 5, number=n * 7919 % 9973, n=n, deep="" if n % 3 else "    ")
        for n in range(900)
    ]
    said = dict[str, str]()
    for one in lines:
        beginning, _, rest = one.rpartition("\t" if "\t" in one else "| ")
        said[rest] = f"{beginning}|" if "\t" not in one else beginning
    beginning, found = "", 0
    for one in shown_by(command, "\n".join(lines)):
        if one.startswith(" "):
            assert said[one[1:]] == beginning
            found += 1
        elif not one.startswith("["):
            beginning = one
    assert 20 < found < 800


def test_shared_columns_are_shown_above_each_line_that_lacks_them() -> None:
    lines = list[str]()
    for n in range(900):
        if n % 9 == 0:
            lines.append(f"-- Boot {n * 7919} --")
        host = f"web-{n // 9 % 4}"
        lines.append(f"Jan 05 10:{n // 60:02}:{n % 60:02} {host} shop[7]: order_{n} took {n * 7919 % 997} ms")
    host, printed = "", 0
    for line in shown_by("journalctl -u shop", "\n".join(lines)):
        if found := re.match(r"\[host (web-\d), unit .* in each of the next", line):
            host = found[1]
        elif found := re.search(r" order_(\d+) ", line):
            printed += 1
            assert host == f"web-{int(found[1]) // 9 % 4}"
    assert 20 < printed < 800


def test_only_long_lists_of_paths_name_each_folder_once() -> None:
    paths = [f"services/shop/backend/area{n // 50}/handler_of_order_{n}.py" for n in range(600)]
    assert shown_by("rg --files", "\n".join(paths[:60])) == paths[:60]
    folder, path = "", []
    for line in shown_by("rg --files", "\n".join(paths)):
        folder = line if line.endswith("/") else folder
        path += [] if line == folder else [folder + line.removeprefix(" ")]
    assert path == paths


def test_names_of_files_are_no_log() -> None:
    parts = [(n // 60, n // 6 % 10, n % 6) for n in range(1_200)]
    paths = [f"src/area{area}/part{part}/file_{area}_{part}_{n}.py" for area, part, n in parts]
    assert "[patterns;" not in "\n".join(shown_by("find src -type f", "\n".join(paths)))


def test_a_failure_in_an_omitted_part_is_shown_with_its_heading() -> None:
    text = shown("Bash", {"command": "npx eslint src"}, f"{LINTED}\n\n✖ 960 problems (960 errors)")
    listed = text.partition("[failures in what is left out:]\n")[2].split("\n")
    printed = [line for line in listed if "value_" in line]
    assert printed
    for line in printed:
        found = re.match(r"/srv/shop/src/area(\d+)/file_\1\.js: \d+:\d+ error 'value_(\d+)_", line)
        assert found is not None
        assert found[1] == found[2]


def test_a_failure_of_a_service_names_the_service() -> None:
    lines = [
        f"svc-{n // 7 % 5}-1  | {'ERROR: order' if n % 31 == 0 else 'took order'} {n * 7919 % 9973} of customer_{n}"
        for n in range(2_000)
    ]
    text = "\n".join(shown_by("docker compose logs", "\n".join(lines)))
    listed = text.partition("[failures in what is left out:]\n")[2].split("\n")
    found = [line for line in listed if "customer_" in line]
    assert found
    for line in found:
        number = int(re.findall(r"customer_(\d+)", line)[0])
        assert line.startswith(f"svc-{number // 7 % 5}-1: ERROR: order ")


def spelled(number: int) -> str:
    """Return a word for a number, so that no two lines differ in numbers alone."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number * 7919))


COMMITS = [
    f"commit {n * 7919:040x}\nAuthor: Ann\n\n    Subject of {spelled(n)}\n\n    Body of module_{spelled(n)}\n"
    for n in range(70)
]
PODS = [
    f"- apiVersion: v1\n  metadata:\n    name: web-{spelled(n)}\n  spec:\n    containers:\n"
    f"    - image: web:{spelled(n)}\n      env:\n      - name: DB\n        value: db_{spelled(n)}\n"
    f"  status:\n    phase: {'Running' if n % 9 else 'Failed'}\n    podIP: 10.0.{n}.7"
    for n in range(90)
]
PLAN = [
    f'  ~ resource "aws_instance" "{spelled(n)}" {{\n      ~ tags = {{\n          ~ "rev" = "{spelled(n)}" -> "1"\n'
    f'          + "team" = "of {spelled(n)}"\n        }}\n        # (12 attributes hidden)\n    }}\n'
    for n in range(90)
]
COMPLAINTS = [
    f"F82{n % 3} Undefined name `{spelled(n)}`\n --> src/area{n % 7}/{spelled(n)}.py:{n + 3}:5\n  |\n{n + 3} | x()\n"
    for n in range(150)
]
RECORDS = [
    f"-[ RECORD {n} ]---\nid    | {n}\nname  | ship {spelled(n)}\nnote  | went to {spelled(n)}"
    for n in range(1, 200)
]


@pytest.mark.parametrize(
    ("command", "blocks", "head"),
    [
        ("git log -70", COMMITS, 0),
        ("kubectl get pods -o yaml", PODS, 2),
        ("terraform plan", PLAN, 0),
        ("ruff check", COMPLAINTS, 0),
        ("psql -x -c 'select 1'", RECORDS, 0),
    ],
)
def test_details_stay_below_their_own_head(command: str, blocks: list[str], head: int) -> None:
    """A line below a head, or in a record, is shown with the head."""
    heads = {block.split("\n")[head]: number for number, block in enumerate(blocks)}
    owners: dict[str, set[int]] = {}
    for number, block in enumerate(blocks):
        for line in block.split("\n")[head + 1 :]:
            owners.setdefault(line, set()).add(number)
    for title in ("", "### Actions\n\n"):
        current, found = -1, 0
        for line in shown_by(command, title + "\n".join(blocks)):
            if line.startswith("[failures in"):
                break
            if line in heads:
                current = heads[line]
            elif len(owners.get(line, ())) == 1:
                found += 1
                assert owners[line] == {current}, line
        assert found > 3


def test_a_failure_keeps_the_place_below_it() -> None:
    text = re.sub("F82[0-9] Undefined", "error: undefined", "\n".join(COMPLAINTS))
    listed = "\n".join(shown_by("cargo check", text)).partition("[failures in what is left out:]\n")[2]
    printed = [line for line in listed.split("\n") if "undefined name" in line]
    assert printed
    for line in printed:
        assert re.match(r"src/area\d/(\w+)\.py:\d+:5: error: undefined name `(\w+)`", line), line
        found = re.findall(r"(\w+)(?:\.py|`)", line)
        assert found[0] == found[1]


def test_a_log_that_names_a_commit_is_none() -> None:
    log = "commit 1a2b3c4\nbuilding the parts of it\n  cc main.c\nall of it was built\n"
    assert headings.opened_above(of(log)) == {}


def test_output_after_a_commit_is_not_its_own() -> None:
    commit = "commit 1a2b3c4\nAuthor: Ann <ann@a.b>\nDate:   now\n\n    Subject\n\n src/a.py | 2 +-\nsrc/b.py"
    text = f"{commit}\nbuilding the parts of it\n  cc main.c\n"
    assert headings.opened_above(of(text)) == dict.fromkeys((1, 2, 4, 6, 7), 0)


def test_a_member_of_a_cut_object_is_shown_with_the_name_of_the_object() -> None:
    """This is also true for a long line. If no other member names an object, an inner object names it."""
    long = "x " * 200
    text = "\n".join(
        [
            "[",
            "  {",
            '    "id": "a-1",',
            f'    "notes": "{long}",',
            '    "of": {',
            '      "kind": 7',
            "    }",
            "  },",
        ]
    )
    above = headings.opened_above(of(text))
    assert (above[3], above[5], above[4]) == (1, 4, 1)
    assert headings.places(of(text), above) == {1: 2}


@pytest.mark.parametrize(
    "verdict", ["✗ an end", "src/a.ts:17:16 lint/useConst", '  File "a.py", line 12, in x']
)
def test_a_verdict_stands_above_its_details(verdict: str) -> None:
    text = f"ran\n{verdict}\n    Input: 7\n    Actual: 8\nok so far"
    assert headings.opened_above(of(text)) == {2: 1, 3: 1}


def test_a_block_is_shown_with_the_comment_above_it() -> None:
    lines = [
        *("x = {", "  # a.b will be created", '  + resource "a" "b" {', "      + id = 1"),
        *("# of no block", "x = 1"),
    ]
    assert headings.opened_above(LineFlags(lines)) == {1: 0, 2: 1, 3: 2}


MANY_HEADINGS = {
    "files without hunks": "diff --git a/{0} b/{0}\n" * 300 + "@@ -1 +1 @@\n+{0}\n" * 300,
    "marks of many lines": "line {0}\n" * 300 + "[the 999 lines above 2 more times]\n" * 300,
    "marks of marks": "[the 3 lines above 2 more times]\n" * 300,
}


@pytest.mark.parametrize("kind", MANY_HEADINGS)
@pytest.mark.parametrize("is_diff", [True, False])
def test_each_line_needs_few_others(kind: str, is_diff: bool) -> None:
    needs = headings.Headings.of(
        of(MANY_HEADINGS[kind]), is_search=False, is_page=False, is_diff=is_diff, is_grouped=False
    ).needs
    for line in needs:
        needed, waiting = set[int](), [line]
        while waiting:
            new = set(needs.get(waiting.pop(), ())) - needed
            needed |= new
            waiting += new
        assert len(needed) < 20
