"""The built wheel holds its rules and its script, and starts as a clone does."""

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
    assert "penumbra = penumbra.cli:main" in next(wheel.glob("*.dist-info/entry_points.txt")).read_text()
    assert not list(wheel.glob("tests"))


def test_it_says_what_it_is(wheel):
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


def test_it_starts_mitmdump_with_the_addon(wheel):
    process = in_wheel(
        wheel,
        "-m",
        "penumbra.cli",
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


def test_help_and_a_wrong_word(wheel):
    process = in_wheel(wheel, "-m", "penumbra.cli", "--help")
    assert "usage: penumbra" in process.communicate(timeout=60)[0]
    process = in_wheel(wheel, "-m", "penumbra.cli", "walk")
    assert "penumbra: 'walk' is no command (allowed: proxy, run, web" in process.communicate(timeout=60)[0]
    assert process.returncode == 2
