"""The command `penumbra` without a process of its own: help, links, units, and log lines."""

import logging
import os
import plistlib
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from mitmproxy import ctx

from penumbra.cli import local, main, page, service
from penumbra.cli.command import Failure
from penumbra.cli.start import Quiet
from penumbra.metrics.running import StatsFile


def test_streams_are_logged_at_level_debug_only(monkeypatch):
    asked = SimpleNamespace(termlog_verbosity="info")
    monkeypatch.setattr(ctx, "options", asked, raising=False)
    quiet = Quiet()
    for words in ("Streaming response from api.anthropic.com.", "Streaming request to api.anthropic.com."):
        line = logging.makeLogRecord({"msg": words, "levelno": logging.INFO})
        asked.termlog_verbosity = "info"
        assert not quiet.filter(line)
        asked.termlog_verbosity = "debug"
        assert quiet.filter(line)


@pytest.mark.parametrize("command", ["wrap", "local", "rules", "secrets"])
def test_a_command_without_its_argument_prints_its_usage(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"usage: penumbra {command} ")
    with pytest.raises(SystemExit) as ended:
        main(["help", command])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: penumbra {command} ")


@pytest.mark.parametrize(
    "command",
    ["wrap", "local", "service", "stats", "page", "pause", "resume", "doctor", "ca", "rules", "secrets"],
)
def test_other_commands_have_help_of_their_own(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"penumbra {command} " in capsys.readouterr().out.partition("\n\n")[0]


def run(arguments, stdout, tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "penumbra", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment, text=True)


@pytest.mark.parametrize("arguments", [["doctor"], ["--help"], ["--version"]])
def test_a_reader_that_has_seen_enough_is_no_traceback(arguments, tmp_path):
    """`penumbra doctor | head -0`."""
    reading, writing = os.pipe()
    os.close(reading)
    done = run(arguments, writing, tmp_path)
    os.close(writing)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line(tmp_path):
    with open("/dev/full", "w") as full:
        done = run(["--version"], full, tmp_path)
    assert (done.returncode, done.stderr) == (1, "penumbra: [Errno 28] No space left on device\n")


INTERRUPTED = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

module = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupt())
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("penumbra", run_name="__main__")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no such signals")
@pytest.mark.parametrize("module", ["penumbra.cli", "difflib", "penumbra.errors", "penumbra.cli.stats"])
def test_an_interrupted_start_shows_no_traceback(module: str) -> None:
    """SIGINT arrives at the import of the module, which the command needs."""
    command = [sys.executable, "-c", INTERRUPTED, module, "stats"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, env=environment, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_an_empty_home_is_none(monkeypatch, capsys):
    monkeypatch.setenv("HOME", "")
    with pytest.raises(SystemExit):
        main(["--version"])
    assert "HOME" not in os.environ


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PENUMBRA_MODE", "loud", "PENUMBRA_MODE: got 'loud', allowed: disabled, "),
        ("PENUMBRA_SECRETS_ALLOW", "rule:slak-token", "got 'rule:slak-token', allowed: the id of a rule, "),
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [["stats"], ["page"], ["discover"], ["ca"], ["ca", "trust"], ["replay", __file__]],
    ids=" ".join,
)
def test_settings_that_a_start_refuses_are_refused(arguments, name, value, message):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        with pytest.raises(Failure, match=message) as ended:
            import_module(f"penumbra.cli.{arguments[0]}").main(arguments[1:])
    assert ended.value.code == 2


THROUGH, OWN = "http://penumbra.local/?token=x", "http://127.0.0.1:8765/?token=x"


@pytest.mark.parametrize(
    ("link", "proxy", "expected"),
    [
        (THROUGH, "127.0.0.1:8080", f"{THROUGH}  (through the proxy at 127.0.0.1:8080)\n"),
        (OWN, "", f"{OWN}\n"),
        (THROUGH, "", "start it with --set penumbra_page=8765"),
        ("", "127.0.0.1:8080", "no proxy with a page"),
    ],
)
def test_a_link_that_a_browser_can_open_or_why_there_is_none(
    link: str,
    proxy: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    entry = {"pid": os.getpid(), "page": link, "proxy": proxy}
    file = StatsFile(tmp_path / "penumbra" / "running" / f"{os.getpid()}.json", lambda: entry)
    file.start()
    try:
        if expected.startswith("http"):
            assert page.main([]) == 0
            assert capsys.readouterr().out == expected
        else:
            with pytest.raises(Failure, match=expected):
                page.main([])
    finally:
        file.close()


def test_units_start_this_very_installation(capsys):
    assert service.main(["--systemd", "--", "--set", "penumbra_filter=~u 100%"]) == 0
    unit = capsys.readouterr().out
    (line,) = [line for line in unit.split("\n") if line.startswith("ExecStart=/")]
    assert line.endswith("proxy --set 'penumbra_filter=~u 100%%'")
    assert service.main(["--launchd", "--", "-p", "9<"]) == 0
    output = plistlib.loads(capsys.readouterr().out.encode())
    assert output["ProgramArguments"][-3:] == ["proxy", "-p", "9<"]
    with pytest.raises(Failure):
        service.main(["--upstart"])


def test_missing_parts_of_local_capture_are_reported(monkeypatch):
    monkeypatch.setattr(local, "version_of", lambda package: "0.12.15")
    assert local.lacking("Darwin", "24.0") == ""
    assert "needs Linux 6.8" in local.lacking("Linux", "6.1.0-9-amd64")
    assert "WSL" in local.lacking("Linux", "6.9.0-microsoft-standard-WSL2")
    monkeypatch.setattr(local, "version_of", lambda package: "0.10.7")
    assert "mitmproxy_rs 0.12.11 or later, and this is 0.10.7" in local.lacking("Darwin", "24.0")
    with pytest.raises(Failure, match="no program given"):
        local.main(["--set", "x=y"])
