"""The demonstration and the wheel on a machine that has nothing but the package and its dependencies."""

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from penumbra import __version__

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


def test_the_demo_runs_without_the_packages_of_the_tests(runs):
    code, stdout, stderr = runs["played"]
    assert code == 0, stderr
    assert "\x1b" not in stdout
    (saved,) = (line for line in stdout.split("\n") if line.startswith("results, each once"))
    assert int(saved.split()[-1].removesuffix("%")) >= 50
    assert "Secrets in the session: 7; that reached the provider: 0." in stdout
    assert "Prefix kept for the provider's cache: in 10 of 10 requests." in stdout
    assert "Refused by the provider: 0." in stdout
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
        r"demo's session, (\d+) results went from ([\d,]+) to about ([\d,]+) tokens, and none of (\d+) secrets",
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, unpacked as an installer would do it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def in_wheel(wheel, *arguments, **more):
    environment = {**os.environ, "PYTHONPATH": str(wheel), "HOME": str(wheel), "XDG_STATE_HOME": str(wheel)}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=wheel,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **more,
    )


def test_every_rule_file_is_inside(wheel):
    rules = {path.relative_to(ROOT / "rules") for path in (ROOT / "rules").rglob("*.yaml")}
    assert rules == {
        path.relative_to(wheel / "penumbra/rules") for path in wheel.rglob("penumbra/rules/**/*.yaml")
    }
    assert (wheel / "penumbra/main.py").read_bytes() == (ROOT / "addon/main.py").read_bytes()
    assert "penumbra = penumbra.__main__:main" in next(wheel.glob("*.dist-info/entry_points.txt")).read_text()
    assert not list(wheel.glob("tests"))


def test_the_version_is_printed(wheel):
    assert (wheel / "penumbra/py.typed").exists()
    (about,) = wheel.glob("*.dist-info")
    lines = (about / "METADATA").read_text().split("\n")
    for line in (f"Version: {__version__}", "License-Expression: MIT", "License-File: LICENSE"):
        assert line in lines
    assert (about / "licenses/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_its_own_files_are_used(wheel):
    code = "from penumbra import cli, rules; print(cli.script()); print(rules.directory())"
    output, _ = in_wheel(wheel, "-c", code).communicate(timeout=60)
    assert output.split("\n")[:2] == [str(wheel / "penumbra/main.py"), str(wheel / "penumbra/rules")]


def test_the_script_starts_mitmdump_with_the_addon(wheel):
    process = in_wheel(
        wheel,
        "-m",
        "penumbra",
        "run",
        "--listen-host",
        "127.0.0.1",
        "-p",
        "0",
        "--set",
        f"confdir={wheel}/conf",
    )
    lines = []
    deadline = time.monotonic() + 60
    try:
        for line in process.stdout:
            lines.append(line)
            if "for Python SDKs." in line or time.monotonic() > deadline:
                break
    finally:
        process.terminate()
        process.wait(20)
    text = "".join(lines)
    assert "Penumbra is active, mode standard." in text
    assert f"CA certificate: {wheel}/conf/mitmproxy-ca-cert.pem" in text
    for name in (
        "HTTPS_PROXY=http://127.0.0.1:",
        "NODE_EXTRA_CA_CERTS=",
        "SSL_CERT_FILE=",
        "CODEX_CA_CERTIFICATE=",
    ):
        assert name in text
    bundle = (wheel / "conf/penumbra-ca-bundle.pem").read_text()
    assert bundle.startswith((wheel / "conf/mitmproxy-ca-cert.pem").read_text().rstrip())
    assert len(re.findall("BEGIN CERTIFICATE", bundle)) > 50
