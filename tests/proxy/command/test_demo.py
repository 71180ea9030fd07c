"""`scripts/demo` on a machine that has nothing but the package and its dependencies."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LACKING = "boto3", "botocore", "anthropic", "openai", "google", "ollama", "hypothesis", "pytest", "websockets"


def demo(*arguments):
    """The demonstration's program, in which what the tests need beside the package can't be imported."""
    code = (
        f"import runpy, sys\nsys.modules.update(dict.fromkeys({LACKING}))\n"
        f"sys.argv[:] = ['scripts/demo', *{list(arguments)!r}]\n"
        "runpy.run_path('scripts/demo.py', run_name='__main__')"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'addon'}{os.pathsep}{ROOT / 'tests'}"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )


@functools.cache
def played():
    """The session, and result 9 before and after."""
    return demo("--show", "9")


def test_it_plays_without_what_only_the_tests_need():
    told = played()
    assert told.returncode == 0, told.stderr
    assert "Secrets in the session: 7; that reached the provider: 0." in told.stdout
    assert "Prefix kept for the provider's cache: in 10 of 10 requests." in told.stdout
    assert "Refused by the stand-in: 0." in told.stdout
    _, _, shown = told.stdout.partition(": sent by the agent\n")
    sent, _, rest = shown.partition("\n\n== ")
    _, _, received = rest.partition(": received by the provider\n")
    # What the README shows is what comes out.
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, after = (block.partition("\n```")[0] for block in readme.split("```text\n")[1:3])
    head, _, more = before.rpartition("\n… ")
    assert sent.startswith(f"{head}\n")
    assert more == f"{sent.count(chr(10)) - head.count(chr(10))} more lines"
    assert after == received.rstrip("\n")


def test_the_page_shows_its_table():
    def rows(text):
        """All but the figures, of which some differ with the key of an installation."""
        return [re.sub(r"[\d,%]+", "", " ".join(line.split())) for line in text.split("\n")]

    page = (ROOT / "docs/use.md").read_text(encoding="utf-8")
    shown = rows("tool  call " + page.partition("tool  call ")[2].partition("\n```")[0])
    assert len(shown) > 20
    assert set(shown) <= set(rows(played().stdout))


@pytest.mark.parametrize("number", ["0", "15", "99", "-1"])
def test_a_result_that_is_not_there(number):
    told = demo(f"--show={number}")
    assert told.returncode == 2
    *listed, last = told.stderr.rstrip("\n").split("\n")
    assert last == f"scripts/demo: error: --show {number}: there are results 1 to 14"
    assert "  8  Bash  cat .env" in listed


def test_an_option_without_a_value_and_one_that_is_refused():
    assert demo("--set", "penumbra_mode").stderr.endswith("--set penumbra_mode: it takes OPTION=VALUE\n")
    told = demo("--set", "penumbra_dedup=foo")
    assert told.returncode == 1
    assert "penumbra_dedup: got 'foo', allowed: true or false" in told.stderr
    assert "Traceback" not in told.stderr
