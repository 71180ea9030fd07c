"""The command `penumbra` as a user meets it: its output, its ports, and its failures."""

import json
import os
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from penumbra import __version__
from penumbra.config.options import groups
from support.mitm import eventually

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PENUMBRA_", "FORGE_", "XDG_", "PYTHONUNBUFFERED"))
} | {"PYTHONPATH": str(ROOT / "addon"), "COLUMNS": "100"}
"""`PYTHONUNBUFFERED` is not set: each line has to reach the log when it is printed."""
MANY = """
import contextlib, io, json, logging, os, sys
from penumbra.cli import main
for case in json.load(sys.stdin):
    before = dict(os.environ)
    os.environ.update(case["environment"])
    output = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main(case["arguments"])
        except SystemExit as ended:
            code = ended.code
    logging.getLogger().handlers.clear()
    os.environ.clear()
    os.environ.update(before)
    print(json.dumps([code, output.getvalue()]), flush=True)
"""
"""A program that runs the command many times in one process, so that mitmproxy is imported once."""


def python(home, *arguments, given=None, **environment):
    """Run Python in a home until it ends."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**ENVIRONMENT, "HOME": str(home), **environment},
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
    )


def many(home, cases, **environment):
    """Return the code and the output of each case (arguments and environment)."""
    given = [{"arguments": arguments, "environment": variables} for arguments, variables in cases]
    ran = python(home, "-c", MANY, given=json.dumps(given), **environment)
    answers = [json.loads(line) for line in ran.stdout.split("\n") if line.startswith("[")]
    assert len(answers) == len(given), ran.stdout + ran.stderr
    return answers


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def taken():
    """Two ports at which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        yield one.getsockname()[1], two.getsockname()[1]


def refusals(taken):
    """Arguments, environment, exit code and last line, by name."""
    port, web = taken
    alone = "to run a program through Penumbra: penumbra wrap -- claude"
    return {
        "a program behind --": (["--", "claude"], {}, 2, alone),
        "a program": (["claude"], {}, 2, "'claude' is no command (allowed: proxy, run, web, wrap"),
        "a bad filter first": (["~nonsense ("], {}, 2, "nvalid filter expression"),
        "a misspelt command": (["wbe"], {}, 2, "'wbe' is no command, did you mean web?"),
        "a misspelt option": (["--set", "penumbra_mod=safe"], {}, 2, "penumbra_mod: unknown option, did you mean penumbra_mode?"),
        "an unknown option": (["--set", "penumbra_bogus=1"], {}, 2, "penumbra_bogus: unknown option, `penumbra proxy --help` names all"),
        "a bad value": (["--set", "penumbra_dedup=foo"], {}, 2, "penumbra_dedup: got 'foo', allowed: true or"),
        "a bad variable": ([], {"PENUMBRA_MODE": "loud"}, 2, "PENUMBRA_MODE: got 'loud', allowed: disabled"),
        "a misspelt variable": ([], {"PENUMBRA_MOD": "safe"}, 2, "PENUMBRA_MOD: unknown variable, did you mean"),
        "a file that is not there": ([], {"PENUMBRA_CONFIG": "/nowhere/p.yaml"}, 2, "penumbra_config: got '/now"),
        "an unknown flag": (["--foo"], {}, 2, "proxy: unrecognized arguments: --foo (`penumbra proxy --help` names all)"),
        "no folder for the CA": (["-p", "0"], {"HOME": __file__}, 1, "the CA certificate can't be made or read in"),
        "a taken port": (
            ["-p", str(port)],
            {},
            1,
            f"port {port} on 127.0.0.1 is taken, perhaps by another proxy: -p {port + 1} takes another one",
        ),
        "a taken port of a mode": (
            ["--mode", f"reverse:https://api.anthropic.com@127.0.0.1:{port}"],
            {},
            1,
            f"on 127.0.0.1 is taken, perhaps by another proxy: --mode reverse:https://api.anthropic.com@127.0.0.1:{port + 1} takes another one",
        ),
        "an address that is not ours": (["-p", "0", "--listen-host", "192.0.2.99"], {}, 1, "this machine has no address 192.0.2.99"),
        "a taken port of mitmweb": (
            ["web", "--i-know", "-p", "0", "--web-port", str(web), "--set", "web_open_browser=false"],
            {},
            1,
            f"mitmweb's port {web} is taken, perhaps by another one: --web-port {web + 1} is another",
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def starts(home, taken):
    """Return the code and the output of each refused start."""
    cases = refusals(taken)
    return dict(zip(cases, many(home, [case[:2] for case in cases.values()]), strict=True))


def test_commands_that_only_read_leave_nothing(tmp_path):
    """A command that only reads leaves no key, no folder and no cache in an empty home."""
    looks = (
        *(
            *("stats", "doctor", "discover", "replay nothing.flows", "secrets try"),
            *("rules try ls", "rules check"),
        ),
        *(
            "ca", "page", "forget", "service", "pause", "wrap --print-env", "--help", "proxy --help",
            "--version",
        ),
    )  # fmt: skip
    many(tmp_path, [(line.split(), {}) for line in looks], PYTHONDONTWRITEBYTECODE="1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("case", refusals((1, 2)))
def test_a_failed_start_ends_with_one_line_that_gives_the_reason(case, starts, taken):
    *_, wanted, words = refusals(taken)[case]
    code, output = starts[case]
    assert code == wanted, output
    lines = output.rstrip("\n").split("\n")
    assert words in lines[-1]
    assert lines[-1].startswith("penumbra")
    assert "Traceback" not in output
    assert "HTTPS_PROXY" not in output or "mitmweb" in case
    # mitmproxy's own log does not repeat errors of the start.
    assert output.count("failed to listen") == 0


def test_a_local_capture_that_is_not_allowed(home):
    """mitmproxy's native part can crash the interpreter here, with a backtrace of its own."""
    ran = python(home, "-m", "penumbra", "--mode", "local:nosuch", PATH="")
    assert ran.returncode == 1
    (line,) = ran.stderr.rstrip("\n").split("\n")
    assert line.startswith("penumbra: local capture can't be started (")
    assert "backtrace" not in ran.stdout + line


def test_a_version_of_mitmweb_with_a_known_hole_needs_a_word(home):
    """Help, which starts nothing, needs no such word."""
    shown = python(home, "-m", "penumbra", "web", "--help")
    assert shown.returncode == 0
    assert "usage: penumbra web" in shown.stdout
    if metadata.version("mitmproxy") != "11.0.2":
        return
    refused = python(home, "-m", "penumbra", "web", "-p", "0")
    assert refused.returncode == 2
    (line,) = refused.stderr.rstrip("\n").split("\n")
    assert "mitmweb of mitmproxy 11.0.2 has a known hole (CVE-2025-23217" in line
    assert "--i-know" in line


def test_versions_and_help_by_group(home):
    version = python(home, "-m", "penumbra", "--version")
    assert version.stdout.split("\n")[:2] == [
        f"Penumbra {__version__}",
        f"mitmproxy {metadata.version('mitmproxy')}",
    ]
    assert version.stdout.split("\n")[2].startswith(f"Python {sys.version_info[0]}.{sys.version_info[1]}.")
    shown = python(home, "-m", "penumbra", "run", "--help")
    assert shown.returncode == 0
    assert shown.stdout.startswith("usage: penumbra proxy")
    for title, options in groups().items():
        _, _, rest = shown.stdout.partition(f"\n{title}:\n")
        block = rest.partition("\n\n")[0]
        assert all(f"  {option.full_name}\n" in f"{block}\n" for option in options)


class Running:
    """A `Running` is a started command, and its output so far."""

    def __init__(self, folder, *arguments):
        self._log = folder / f"log-{len(list(folder.iterdir()))}"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penumbra", *arguments],
                env={**ENVIRONMENT, "HOME": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def log(self):
        return self._log.read_text()

    def __enter__(self):
        words = ("is active", "CA certificate:")
        assert eventually(
            lambda: all(each in self.log() for each in words) or self.process.poll() is not None, 120
        )
        assert self.process.poll() is None, self.log()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(30) == 0


def ports(log, kind):
    """Return the ports at which a kind of server listens, by mitmproxy's own lines."""
    lines = [line for line in log.split("\n") if f"{kind} listening at " in line]
    return [int(line.rstrip(".").rpartition(":")[2]) for line in lines]


def test_the_proxy_listens_on_loopback_and_is_quiet(home):
    with Running(home, "--set", "listen_port=0") as running:
        (port,) = ports(running.log(), "HTTP(S) proxy")
        assert f"listening at 127.0.0.1:{port}." in running.log()
        assert f"  export HTTPS_PROXY=http://127.0.0.1:{port}\n" in running.log()
        assert "everybody who reaches this machine" not in running.log()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
            assert b"502" in client.recv(100)
        assert eventually(lambda: "error establishing server connection" in running.log())
    for words in ("client connect", "client disconnect", "GET http"):
        assert words not in running.log()


def test_an_option_without_its_prefix_ends_the_start_beside_other_scripts(home, tmp_path):
    """The options of a script, which are known once it is loaded, belong to the script."""
    script = tmp_path / "other.py"
    script.write_text("def load(loader):\n    loader.add_option('hostss', str, '', 'An option.')\n")
    both = ["-p0", "-s", str(script), "--set", "hostss=a"]
    with Running(home, *both):
        pass
    ran = python(home, "-m", "penumbra", *both, "--set", "moed=safe")
    assert ran.returncode == 1
    assert [line for line in ran.stderr.split("\n") if "hostss" in line or "moed" in line] == [
        "penumbra: moed: unknown option, did you mean penumbra_mode, or mitmproxy's mode?"
    ]


def test_a_wider_address_is_reported_and_connections_are_shown_on_request(home):
    modes = ["--mode", "regular", "--mode", "reverse:https://api.anthropic.com@127.0.0.1:0"]
    with Running(home, "-v", "-p0", "--listen-host", "0.0.0.0", *modes) as running:
        (port,) = ports(running.log(), "HTTP(S) proxy")
        assert eventually(lambda: f"The proxy listens at *:{port}: everybody who reaches" in running.log())
        assert f"  export HTTPS_PROXY=http://127.0.0.1:{port}\n" in running.log()
        (base,) = ports(running.log(), "reverse proxy to https://api.anthropic.com")
        assert f"export ANTHROPIC_BASE_URL=http://127.0.0.1:{base}\n" in running.log()
        socket.create_connection(("127.0.0.1", port)).close()
        assert eventually(lambda: "client connect" in running.log())


def test_a_bundle_that_cannot_be_written_is_no_hindrance(home):
    """A bundle that exists need not be written, either."""
    from penumbra.cli import start

    folder = home / "kept"
    first = start.prepare_ca(str(folder))
    before = first.bundle.stat().st_mtime_ns
    assert start.prepare_ca(str(folder)) == first
    assert first.bundle.stat().st_mtime_ns == before
    first.bundle.unlink()
    first.bundle.mkdir()
    again = start.prepare_ca(str(folder))
    assert (again.ca, again.bundle) == (first.ca, None)
    assert "penumbra-ca-bundle.pem can't be written" in again.problem


def test_missing_dependencies_are_named(home):
    code = (
        "import sys\nsys.modules['msgspec'] = None\nfrom mitmproxy.tools.main import mitmdump\n"
        f"mitmdump(['-s', {str(ROOT / 'addon/main.py')!r}, '-p', '0', '--listen-host', '127.0.0.1'])"
    )
    ran = python(home, "-c", code, PYTHONPATH="")
    assert ran.returncode == 1
    assert "lacks the package msgspec: `pip install .`" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
