"""`scripts/demo` on a machine that has nothing but the package and its dependencies."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LACKING = "boto3", "botocore", "anthropic", "openai", "google", "ollama", "hypothesis", "pytest", "websockets"


WITHOUT = f"""
import contextlib, io, json, runpy, sys
sys.modules.update(dict.fromkeys({LACKING}))
for arguments in json.load(sys.stdin):
    sys.argv[:] = ["scripts/demo", *arguments]
    said, complained, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        try:
            runpy.run_path("scripts/demo.py", run_name="__main__")
        except SystemExit as ended:
            code = ended.code or 0
    print(json.dumps([code, said.getvalue(), complained.getvalue()]), flush=True)
"""
"""The demonstration, run several times without the packages that only tests need."""
NOT_THERE = ("0", "15", "99", "-1")
RUNS = {
    "played": ["--show", "9"],
    **{number: [f"--show={number}"] for number in NOT_THERE},
    "no value": ["--set", "penumbra_mode"],
    "refused": ["--set", "penumbra_dedup=foo"],
}


@pytest.fixture(scope="module")
def runs():
    """Return exit code, output and errors of each run."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'addon'}{os.pathsep}{ROOT / 'tests'}"},
        input=json.dumps(list(RUNS.values())),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return dict(zip(RUNS, map(json.loads, ran.stdout.splitlines()), strict=True))


def test_it_plays_without_what_only_the_tests_need(runs):
    code, stdout, stderr = runs["played"]
    assert code == 0, stderr
    assert "\x1b" not in stdout
    (saved,) = (line for line in stdout.split("\n") if line.startswith("results, each once"))
    assert int(saved.split()[-1].removesuffix("%")) >= 50
    assert "Secrets in the session: 7; that reached the provider: 0." in stdout
    assert "Prefix kept for the provider's cache: in 10 of 10 requests." in stdout
    assert "Refused by the stand-in: 0." in stdout
    _, _, shown = stdout.partition(": sent by the agent\n")
    sent, _, rest = shown.partition("\n\n== ")
    _, _, received = rest.partition(": received by the provider\n")
    # The README shows this very output.
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, after = (block.partition("\n```")[0] for block in readme.split("```text\n")[1:3])
    head, _, more = before.rpartition("\n… ")
    assert sent.startswith(f"{head}\n")
    assert more == f"{sent.count(chr(10)) - head.count(chr(10))} more lines"
    assert after == received.rstrip("\n")


def test_the_readme_has_its_figures(runs):
    said = re.search(
        r"demo's session, (\d+) results went from ([\d,]+) to about ([\d,]+) tokens, none of (\d+) secrets",
        (ROOT / "README.md").read_text(encoding="utf-8"),
    )
    results, before, about, secrets = said.groups()
    printed = runs["played"][1]
    was, after = re.search(r"results, each once +([\d,]+) -> ([\d,]+) tokens", printed).groups()
    assert was == before
    # The tokens of ids and of redacted values differ with the key of an installation.
    assert abs(int(after.replace(",", "")) - int(about.replace(",", ""))) < 250
    assert f"Secrets in the session: {secrets}; that reached the provider: 0." in printed
    assert "Prefix kept for the provider's cache: in 10 of 10 requests." in printed
    table = printed.partition("tool  call ")[2].split("\n---")[1]
    assert len(table.strip("-\n").split("\n")) == int(results)


@pytest.mark.parametrize("number", NOT_THERE)
def test_a_result_that_is_not_there(number, runs):
    code, _, stderr = runs[number]
    assert code == 2
    *listed, last = stderr.rstrip("\n").split("\n")
    assert last == f"scripts/demo: error: --show {number}: there are results 1 to 14"
    assert "  8  Bash  cat .env" in listed


def test_an_option_without_a_value_and_one_that_is_refused(runs):
    assert runs["no value"][2].endswith("--set penumbra_mode: it takes OPTION=VALUE\n")
    code, _, stderr = runs["refused"]
    assert code == 1
    assert "penumbra_dedup: got 'foo', allowed: true or false" in stderr
    assert "Traceback" not in stderr
