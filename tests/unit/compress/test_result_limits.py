"""The limits of a result's size, and of the memory and time for a result."""

import inspect
import json
import random
import subprocess
import sys
from itertools import pairwise

import pytest
from msgspec import structs

from penumbra.compress import facts
from penumbra.compress import text as text_module
from penumbra.compress.calls.classify import Call
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Loss, Mode, Policy, Redacted, Shortened, ToolOutput
from penumbra.compress.size import size
from penumbra.compress.stage import Shape, Source
from penumbra.compress.stages import excerpt
from support import examples
from support.hostile_texts import HOSTILE, MCP, SHELL
from support.hostile_texts import shorten as shorten_hostile
from support.results import PREFIX, shortened
from support.work_counts import lines

WORDS = [
    "sail", "mast", "wind", "cloth", "lift", "drag", "keel", "rope", "knot", "hull", "bow", "stern", "tide",
]  # fmt: skip


def words(seed: int, count: int = 12) -> str:
    return " ".join(WORDS[(seed * k + k * k // 3) % 13] for k in range(1, count))


HITS = "".join(f"src/{WORDS[n % 13]}.py:{n}:    {words(n)}\n" for n in range(1, 400))
HUNKS = "".join(
    f"diff --git a/f{n}.py b/f{n}.py\n--- a/f{n}.py\n+++ b/f{n}.py\n@@ -1,2 +1,2 @@\n-{words(n)}\n+{words(n + 1)}\n"
    for n in range(90)
)
PAGE = "\n\n".join(words(n, 60) for n in range(90))
FOUND = "\n".join(f"{n}. [{words(n, 4)}](https://example.com/{n})\n{words(n, 30)}" for n in range(90))
ROWS = json.dumps([{"id": n, "text": words(n), "note": words(n + 7)} for n in range(200)])
DEEP = json.dumps({f"key{n}": {"deeper": [words(k) for k in range(40)]} for n in range(9)})
COMMA = "id,text,note\n" + "".join(f"{n},{words(n)},{words(n + 3)}\n" for n in range(300))
SOURCE = "".join(f"def {WORDS[n % 13]}_{n}():\n    return {words(n)!r}\n" for n in range(500))

KINDS: dict[str, tuple[str, object, str]] = {
    "command": ("Bash", {"command": "./x"}, PAGE),
    "search": ("Grep", {"pattern": "x", "output_mode": "content"}, HITS),
    "diff": ("Bash", {"command": "git diff"}, HUNKS),
    "web": ("WebFetch", {"url": "https://example.com"}, PAGE),
    "hits": ("WebSearch", {"query": "x"}, FOUND),
    "rows": ("mcp__db__query", {}, ROWS),
    "json": ("mcp__db__get", {}, DEEP),
    "commas": ("Bash", {"command": "./export"}, COMMA),
    "list": (
        "Glob",
        {"pattern": "*"},
        "\n".join(f"/srv/{words(n, 3).replace(' ', '/')}/{n}.py" for n in range(1_200)),
    ),
    "report": ("Task", {"prompt": "x"}, PAGE * 3),
    "inside of JSON": ("Bash", {"command": "./x"}, json.dumps({"output": PAGE, "exit_code": 0})),
}


def run(kind: str, lossy: bool = True, **policy: object) -> Shortened:
    tool, arguments, text = KINDS[kind]
    return shortened(text, tool, arguments, lossy=lossy, overhead=PREFIX if lossy else "", **policy)


@pytest.mark.parametrize("ratio", [0.5, 0.2, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_wanted_ratio_is_met(kind: str, ratio: float) -> None:
    result = run(kind, target_ratio=ratio)
    assert size(PREFIX) + size(result.text) <= max(1_000, ratio * size(result.original))
    assert result.loss is Loss.LOSSY


@pytest.mark.parametrize("kind", KINDS)
def test_no_ratio_is_met_by_loss_where_nothing_may_be_lost(kind: str) -> None:
    assert run(kind, lossy=False, target_ratio=0.1, max_output_bytes=1_000_000).loss < Loss.LOSSY


def test_a_read_is_cut_at_its_part_of_the_hard_limit_and_never_for_a_ratio() -> None:
    read = ("Read", {"file_path": "/a/b.py"})
    enough = -(-size(SOURCE) * 8 // 5)
    wanted = Policy(lossy=True, overhead=PREFIX, target_ratio=0.1, max_output_bytes=enough)
    assert shorten(ToolOutput(SOURCE, *read), wanted, Redacted, str).text == SOURCE
    wanted = structs.replace(wanted, max_output_bytes=enough - 3)
    assert shorten(ToolOutput(SOURCE, *read), wanted, Redacted, str).loss is Loss.LOSSY
    # If the model can't ask for the omitted part, only the hard limit applies.
    assert (
        shorten(ToolOutput(SOURCE, *read), structs.replace(wanted, lossy=False), Redacted, str).text == SOURCE
    )
    small = Policy(lossy=True, overhead=PREFIX, max_output_bytes=5_000)
    cut = shorten(ToolOutput(SOURCE, *read), small, Redacted, str)
    assert size(PREFIX) + size(cut.text) <= 5_000


@pytest.mark.parametrize(("mode", "part"), [(Mode.STANDARD, 1.0), (Mode.AGGRESSIVE, 0.7)])
def test_a_file_is_outlined_in_aggressive_mode_alone(mode: Mode, part: float) -> None:
    text = "\n\n".join(f"def step_{n}(value):\n    return compute(value, {n * n})" for n in range(700))
    policy = Policy(mode=mode, lossy=True, overhead=PREFIX)
    made = shorten(ToolOutput(text, "Read", {"file_path": "steps.py"}), policy, Redacted, str).text
    assert (made == text) is (mode is Mode.STANDARD)
    assert size(made) <= part * size(text)
    # Omitting the end of the file would save less than a further turn costs.
    short = text[:9_500]
    assert shorten(ToolOutput(short, "Read", {"file_path": "steps.py"}), policy, Redacted, str).text == short


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.AGGRESSIVE])
@pytest.mark.parametrize("limit", [700, 2_000, 20_000])
def test_the_hard_limit_holds(kind: str, mode: Mode, limit: int) -> None:
    for lossy in (True, False):
        result = run(kind, lossy, mode=mode, max_output_bytes=limit)
        assert size(PREFIX if result.loss is Loss.LOSSY and lossy else "") + size(result.text) <= limit


@pytest.mark.parametrize("kind", KINDS)
def test_up_to_the_least_size_nothing_happens(kind: str) -> None:
    text = KINDS[kind][2]
    least = size(text)
    assert run(kind, min_bytes=least, max_output_bytes=1_000_000).text is text
    assert run(kind, min_bytes=least - 1, max_output_bytes=1_000_000).text != text


def test_a_failed_result_may_be_longer() -> None:
    log = "\n".join(
        f"step {n} of the run took {n * 17 % 91} ms and left {n * n} things" for n in range(1_200)
    )
    sizes = [
        size(
            shorten(
                ToolOutput(f"Exit code: {code}\nOutput:\n{log}", "shell", {"command": "./run"}, "c1"),
                Policy(lossy=True, overhead=PREFIX),
                Redacted,
                str,
            ).text
        )
        for code in (0, 2)
    ]
    assert 1.8 < sizes[1] / sizes[0] < 2.2


def test_the_limit_goes_on_evenly_where_lines_are_no_longer_compared() -> None:
    def limit(size: int) -> int:
        source = Source(Call("bash"), Shape.PLAIN, Policy(lossy=True), False, "", "x" * size, str, bool)
        return excerpt.limit_of(excerpt.OutputKind.COMMAND, source)

    sizes = [*range(150_000, 300_000, 1_000), 800_000, 10_000_000]
    limits = [limit(size) for size in sizes]
    assert max(abs(one - other) for one, other in pairwise(limits[:-2])) < 100
    assert limits[-2:] == [6_708, 4_500]
    assert max(limits) == limit(facts.LONGEST) == 13_416


def test_a_text_that_its_account_would_shorten_by_less_than_a_seventh_stays_whole() -> None:
    policy = Policy(lossy=True, overhead=PREFIX)
    whole: list[int] = []
    chance = random.Random(1)
    for count in range(60, 300, 4):
        text = "\n".join(f"{chance.getrandbits(180):x}" for _ in range(count))
        shown = shorten(ToolOutput(text, "Bash", {"command": "./x"}, "c1"), policy, Redacted, str).text
        if " in part; " not in shown:
            whole.append(size(shown))
        else:
            assert size(shown) <= 0.85 * size(text)
    assert 5_000 < max(whole) <= 6_000


@pytest.mark.parametrize(
    ("tool", "arguments"), [("mcp__host__tell", {"id": 7}), ("Bash", {"command": "git diff"})]
)
def test_a_result_that_can_be_asked_for_in_parts_is_excerpted_only_where_that_halves_it(
    tool: str, arguments: dict[str, object]
) -> None:
    chance = random.Random(2)
    found: list[int] = []
    for count in range(40, 420, 20):
        body = "".join(f"+{chance.getrandbits(180):x}\n" for _ in range(count))
        text = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,{count} @@\n" if tool == "Bash" else ""
        output = ToolOutput(text + body, tool, arguments, "c1")
        shown = shorten(output, Policy(lossy=True, overhead=PREFIX), Redacted, str).text
        if " in part; " in shown:
            found.append(len(text + body))
            assert 2 * size(shown) <= size(text + body)
    assert 9_000 < min(found) < 12_000


LIMITED = """
import resource, sys
from support.hostile_texts import HOSTILE, shorten
resource.setrlimit(resource.RLIMIT_AS, (3_000_000_000, 3_000_000_000))
for name in sys.argv[2:]:
    call, text = HOSTILE[name]
    shorten(text(int(sys.argv[1])), call)
# Unlike ru_maxrss, this does not begin with what the parent process had.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_memory_grows_with_the_text_and_not_faster() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, "100000", *examples.some(list(HOSTILE))],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    # The limit is in KB. An interpreter with all rules takes 80 MB, and a text takes at most 200 times its
    # size.
    assert int(ran.stdout) < 200_000


@pytest.mark.parametrize("name", HOSTILE)
def test_work_grows_with_the_text_and_not_faster(name: str) -> None:
    call, text = HOSTILE[name]
    few, many = (lines(shorten_hostile, text(length), call) for length in (12_000, 48_000))
    assert many <= 5 * few + 20_000


def test_a_text_of_too_many_lines_is_not_looked_at_line_by_line() -> None:
    text = "\n" * (text_module.MOST_LINES // 2) + "error: here\n" + "\n" * text_module.MOST_LINES
    found = shorten_hostile(text, SHELL, mode=Mode.STANDARD)
    assert found.stages == ("excerpt",)
    assert {"fold_repeated", "command_family", "whitespace"} <= set(found.skipped)
    assert "error: here" in found.text


@pytest.mark.parametrize(
    ("name", "stopped"),
    [
        ("nothing but errors", "excerpt"),
        ("cells in a row", "web_page"),
        ("newlines", "fold_repeated"),
        ("like rows", "json_table"),
    ],
)
def test_a_stage_that_overruns_gives_up(name: str, stopped: str) -> None:
    texts = {
        "newlines": (SHELL, "same\n" * 90_000),
        "like rows": (MCP, "[" + ",".join(['{"a":1,"b":2}'] * 20_000) + "]"),
    }
    call, text = texts[name] if name in texts else (HOSTILE[name][0], HOSTILE[name][1](150_000))
    running: list[str] = []
    asked = {"outside": 0}

    def is_late() -> bool:
        caller = inspect.stack(0)[1].function
        if caller == "check":
            running.append("in a stage")
            return True
        asked["outside"] += 1
        return False

    found = shorten_hostile(text, call, is_late, Mode.STANDARD)
    assert running
    assert stopped in found.skipped
    assert stopped not in found.stages
