"""No result takes more memory or work than its size allows, whatever it holds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penumbra.compress import stage
from penumbra.compress.result import Mode
from support import examples
from support.hostile_texts import HOSTILE, MCP, SHELL, shorten
from support.work_counts import lines

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
    # In KB: an interpreter with all rules has 80 MB, and no text took more than 200 bytes for each of its own.
    assert int(ran.stdout) < 200_000


@pytest.mark.parametrize("name", HOSTILE)
def test_work_grows_with_the_text_and_not_faster(name: str) -> None:
    call, text = HOSTILE[name]
    few, many = (lines(shorten, text(length), call) for length in (12_000, 48_000))
    assert many <= 5 * few + 20_000


def test_a_text_of_too_many_lines_is_not_looked_at_line_by_line() -> None:
    text = "\n" * (stage.MOST_LINES // 2) + "error: here\n" + "\n" * stage.MOST_LINES
    found = shorten(text, SHELL, mode=Mode.STANDARD)
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
        caller = sys._getframe(1).f_code.co_name
        if caller == "check":
            running.append("in a stage")
            return True
        asked["outside"] += 1
        return False

    found = shorten(text, call, is_late, Mode.STANDARD)
    assert running
    assert stopped in found.skipped
    assert stopped not in found.stages
