"""A long output keeps the lines, hits and rows with facts that no other line, hit or row has."""

import json
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress import facts
from penumbra.compress.facts import TextFacts
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Mode, Policy, Redacted, ShownBefore, ToolOutput
from penumbra.compress.selection import Selection, Units
from penumbra.linear import utf8
from support.examples import examples
from support.results import shortened

STANDARD = Policy(mode=Mode.STANDARD, lossy=True)


def run(tool: str, arguments: dict[str, object], text: str) -> str:
    return shortened(text, tool, arguments).text


def test_a_long_string_in_json_uses_the_limit() -> None:
    body = " ".join(f"word{n}" for n in range(3_000))
    short = run("mcp__tracker__get", {}, json.dumps({"title": "a", "body": body}))
    assert 3_000 < len(short) < 9_000


def test_the_limit_grows_with_the_text() -> None:
    def output(lines: int) -> str:
        return "\n".join(f"{n}: handled order {n * 7919 % 100_003} of shop-{n % 97}" for n in range(lines))

    sizes = [len(run("Bash", {"command": "./x"}, output(lines))) for lines in (400, 1_200, 3_600)]
    assert sizes[0] < sizes[1] < sizes[2] < 40_000


def screen(first: int, last: int) -> list[str]:
    words = ("wrote", "reads", "moves", "checks", "drops")
    return [
        f"{words[n % 5]} {words[n % 3]}-{n * n} of out/part-{n}.bin {'x' * (n % 9)}"
        for n in range(first, last)
    ]


def shown_in(lines: list[str]) -> ShownBefore:
    shown = frozenset(facts.facts_of(utf8("\n".join(lines))))
    return ShownBefore(shown, frozenset(lines).__contains__)


def watched(lines: list[str], shown: ShownBefore | None, tool: str = "Bash", **arguments: str) -> str:
    arguments = arguments or {"command": "./watch"}
    output = ToolOutput("\n".join(lines), tool, arguments, shown_before=lambda: shown)
    return shorten(output, STANDARD, Redacted, lambda text: "").text


def test_new_lines_come_before_those_that_earlier_results_show() -> None:
    before = screen(0, 150)
    text = [*before[:75], *screen(900, 910), *before[75:]]
    units = Units.of(utf8("\n".join(text)))
    selection = Selection(units, 2_000, TextFacts.of(units.texts(), {}, seen=shown_in(before).facts))
    selection.fill()
    kept = selection.written()
    assert all(line in kept for line in screen(900, 910))


def test_an_excerpt_shrinks_with_the_share_of_an_output_that_is_new() -> None:
    before = screen(0, 150)
    later = [*before, *screen(900, 910)]
    whole, short = watched(later, None), watched(later, shown_in(before))
    assert len(short) < len(whole) / 2
    assert all(line in short for line in screen(900, 910))
    # Without an earlier text, all lines are new. Failures are always shown.
    assert watched(later, shown_in([])) == whole
    failed = [*before, "Error: disk full at store-9", *before]
    assert "Error: disk full at store-9" in watched(failed, shown_in(failed))


@pytest.mark.parametrize(
    "details",
    [
        ['  File "/r/fetch/store.py", line {}, in load', "    return self.rows[name]"],
        ["    at load (/r/fetch/store.ts:{}:7)", "    at Row.get (/r/fetch/rows.ts:{}:12)"],
        ["  Input:    {} see a.org&#33;", "  Expected: {} see a.org", "  Actual:   {} a.org"],
    ],
    ids=["python", "javascript", "fields"],
)
def test_new_frames_and_fields_of_a_failure_stay_beside_lines_that_were_shown(details: list[str]) -> None:
    before, details = screen(0, 150), [line.format(n) for n in range(10, 14) for line in details]
    shown = shown_in([*before, *[detail.replace(" in ", " of ") + "." for detail in details]])
    short = watched([*before[:75], *details, *before[75:], "KeyError: 'q3'"], shown)
    assert len(short) < 2_400
    assert [line for line in details if line not in short and not line.startswith("    return")] == []


def test_the_state_of_things_is_new_although_its_lines_were_shown() -> None:
    names = ("sail", "keel_2", "mast", "rope_of_4", "hull")
    lines = [f" M {names[n % 5]}/{names[n % 4]}_{n * 7919:x}/{names[n % 3]}.py" for n in range(60)]
    states = [watched(lines, shown, command="git status -s") for shown in (None, shown_in(lines))]
    assert states[0] == states[1]


def test_lines_without_facts_are_new_until_they_were_shown() -> None:
    prose = [f"the {word} goes along the river and thinks of nothing" for word in ("fox", "owl", "hen")]
    assert facts.share_new("\n".join(prose), shown_in([])) == 1
    assert facts.share_new("\n".join(prose), shown_in(prose)) == 0
    assert 0.3 < facts.share_new("\n".join(prose), shown_in(prose[:2])) < 0.4


def test_a_file_is_shown_whatever_was_shown_before() -> None:
    code = [f"    value_{n} = compute({n})" for n in range(60)]
    texts = [watched(code, shown, "Read", file_path="a.py") for shown in (None, shown_in(code))]
    assert texts == ["\n".join(code)] * 2


def test_news_are_not_counted_for_a_text_within_every_limit() -> None:
    def shown() -> ShownBefore:
        asked.append(1)
        return shown_in([])

    asked: list[int] = []
    for size in (1_100, 12_000):
        text = "\n".join(screen(0, 400))[:size]
        output = ToolOutput(text, "Bash", {"command": "./watch"}, shown_before=shown)
        shorten(output, STANDARD, Redacted, lambda text: "")
        assert bool(asked) == (size == 12_000)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("wrote build/out/a-b.html, cfg.retryLimit=31337", "build/out/a-b.html cfg.retryLimit 31337"),
        ('"id": "x_1" (see ~/a, /b/c) HTTP 200 ok', "x_1 ~/a /b/c HTTP 200"),
        ("the river goes on; id=a, e.g. ab", "e.g"),
        ("\u00e9t\u00e9_1 " + "x" * 201 + "9", "\u00e9t\u00e9_1"),
    ],
)
def test_facts_are_paths_names_of_programs_and_numbers(text: str, found: str) -> None:
    assert facts.facts_of(utf8(text)) == set(utf8(found).split())


@settings(max_examples=examples(100))
@given(st.lists(st.text("aB9_./:-~$ \té\"'=,(\n\\", max_size=60), max_size=8))
def test_each_unit_has_the_facts_of_its_text_once(texts: list[str]) -> None:
    units = TextFacts.of([utf8(text) for text in texts], {}).units
    assert [set(unit) for unit in units] == [facts.facts_of(utf8(text)) for text in texts]
    assert all(len(set(unit)) == len(unit) for unit in units)
    assert all(fact in utf8(text) for unit, text in zip(units, texts, strict=True) for fact in unit)


def test_news_are_counted_as_far_as_needed() -> None:
    lines = screen(0, 100)
    found = shown_in(lines[:50])
    asked: list[str] = []
    found = ShownBefore(found.facts, lambda line: bool(asked.append(line)) or line in lines[:50])
    share = facts.share_new("\n".join(lines), found)
    assert 0.4 < share < 0.6
    assert len(asked) >= 50
    asked.clear()
    assert 0.2 <= facts.share_new("\n".join(lines), found, 0.2) <= share
    assert len(asked) < 30


WORDS = [
    "ledger", "cart", "order", "stock", "user", "tax", "price", "report", "mail", "queue", "invoice",
    "batch",
]  # fmt: skip


def tables(seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield tables, lists and plans that tools print: the command line, the output, and the text of one row of
    the output."""
    chosen = random.Random(seed)

    def name(number: int) -> str:
        return f"{chosen.choice(WORDS)}_{chosen.choice(WORDS)}{number}"

    covered = [f"{f'src/{chosen.choice(WORDS)}/{name(n)}.py':<48}{n + 3:6}{0:7}   100%" for n in range(180)]
    covered[97] = f"{'src/ledger/pay.py':<48}{120:6}{120:7}     0%"
    yield (
        "coverage report",
        "\n".join([f"{'Name':<48}{'Stmts':>6}{'Miss':>7}  Cover", *covered]),
        "src/ledger/pay.py",
    )
    packages = [
        f"{name(n):<28}{f'1.{n}.{n % 7}' if n != 97 else 'MISSING':>12}{f'2.{n}.{n % 5}':>12}  node_modules/{name(n)}"
        for n in range(180)
    ]
    yield (
        "npm outdated",
        "\n".join([f"{'Package':<28}{'Current':>12}{'Wanted':>12}  Location", *packages]),
        "MISSING",
    )
    ids = [f"{chosen.getrandbits(48):012x}" for _ in range(301)]
    steps = [
        f"{old} -> {new}{' (head)' if new is ids[150] else ''}, add {name(7)}" for new, old in pairwise(ids)
    ]
    yield "alembic history", "\n".join(steps), "(head)"
    plan = [
        f"  # aws_instance.{name(n)} will be updated in-place\n"
        f'      ~ ami  = "ami-{chosen.getrandbits(32):08x}" -> "ami-{chosen.getrandbits(32):08x}"'
        + (" # forces replacement" if n == 60 else "")
        + f'\n      ~ tags = "{name(n)}"\n'
        for n in range(150)
    ]
    yield (
        "terraform plan",
        "Terraform will perform these actions:\n" + "\n".join(plan),
        "# forces replacement",
    )
    rows = [f" {n} | {name(n)} | {'paid' if n != 97 else 'void'} | {n * 37 % 900}" for n in range(200)]
    yield (
        "psql -c x",
        "\n".join([" id | name | state | amount", "----+----+----+----", *rows, "(200 rows)"]),
        "void",
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("which", range(5), ids=["coverage", "npm outdated", "alembic", "terraform", "psql"])
def test_the_one_row_that_differs_stays(which: int, seed: int) -> None:
    line, text, sign = list(tables(seed))[which]
    made = shortened(text, "Bash", {"command": line}).text
    assert len(made) < len(text) // 2 or line == "psql -c x"
    assert " left out]" in made
    assert sign in made
