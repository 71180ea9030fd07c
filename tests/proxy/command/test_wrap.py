"""`penumbra wrap` with a real terminal, a real proxy and a program that does what agents do."""

import contextlib
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shlex
import signal
import ssl
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from support.mitm import INSIDE, eventually

ROOT = Path(__file__).resolve().parents[3]
SECRET = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
AGENT = """
import hashlib, http.client, json, os, signal, ssl, sys, urllib.request

def say(**words):
    # In one piece: a signal may come in between.
    os.write(1, f"AGENT {json.dumps(words)}\\n".encode())

def size(*_):
    say(size=list(os.get_terminal_size(0)))

def ask(results):
    text = "\\n".join(f"2026-01-01 00:00:{n % 60:02d} INFO worker idle, nothing to do" for n in range(300))
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "docker logs worker"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text + "\\ntoken=" + sys.argv[1]}
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]}]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages}
    request = urllib.request.Request("https://api.anthropic.com/v1/messages", json.dumps(body).encode(),
        {"content-type": "application/json", "x-api-key": "sk-ant-of-the-agent", "anthropic-version": "2023-06-01"})
    with urllib.request.urlopen(request, timeout=60) as response:
        say(status=response.status)

def tunnel():
    host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    through = http.client.HTTPSConnection(host, int(port), context=context)
    through.set_tunnel("example.com", 443)
    through.connect()
    say(certificate=hashlib.sha256(through.sock.getpeercert(True)).hexdigest())

signal.signal(signal.SIGWINCH, size)
signal.signal(signal.SIGINT, lambda *_: say(interrupted=True))
front = os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
say(leads=os.getpgrp() == os.getpid(), front=front)
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "exit":
        sys.exit(int(rest))
    elif word == "kill":
        os.kill(os.getpid(), int(rest))
    elif not word:
        pass
    elif word == "variables":
        say(variables=dict(os.environ))
    else:
        {"ask": ask, "tunnel": lambda _: tunnel(), "size": size}[word](rest)
"""


LEADER = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
for number in signal.SIGINT, signal.SIGQUIT:
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""A program that takes the terminal as its own, and becomes the given program. Tests that run in the background
may have inherited that SIGINT and SIGQUIT are ignored."""


class Terminal:
    """A `Terminal` runs a program as the leader of its session."""

    def __init__(self, command, environment):
        self.said = ""
        self._master, other = pty.openpty()
        leader = [sys.executable, "-c", LEADER, *command]
        ends = dict.fromkeys(("stdin", "stdout", "stderr"), other)
        self.pid = subprocess.Popen(leader, env=environment, start_new_session=True, **ends).pid
        os.close(other)

    def read(self, seconds=0.05):
        """Read the output so far; return whether there may be more."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        try:
            data = os.read(self._master, 65536) if ready else None
        except OSError:
            data = b""
        self.said += (data or b"").decode().replace("\r\n", "\n")
        return data != b""

    def wait_for(self, words, seconds=60):
        found = eventually(lambda: self.read() and re.search(words, self.said), seconds)
        assert found, self.said
        self.said = self.said[found.end() :]
        return found

    def heard(self, key, line=""):
        """Type a line and return the agent's next message of this kind. Empty lines follow, since Python may
        handle a signal only after its next read."""
        if line:
            self.type(f"{line}\n")
        limit = time.monotonic() + 60
        while f'AGENT {{"{key}"' not in self.said and time.monotonic() < limit:
            before = self.said
            self.read(1)
            if self.said == before:
                self.type("\n")
        return json.loads(self.wait_for(rf'AGENT (\{{"{key}".*\}})\n')[1])[key]

    def type(self, text):
        os.write(self._master, text.encode())

    def resize(self, rows, columns):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def front(self):
        return os.tcgetpgrp(self._master)

    def state(self):
        """Return the status from waitpid when the process stops or ends."""
        return os.waitpid(self.pid, os.WUNTRACED)[1]

    def end(self):
        """Return the exit code, when all output has been read."""
        assert eventually(lambda: not self.read(1), 60), self.said
        return os.waitstatus_to_exitcode(self.state())

    def close(self):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def environment(home, provider):
    """A user's environment, whose home is empty before the first start."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": str(ROOT / "addon"),
        "UPSTREAM_PORTS": f"{provider.port},{provider.tls_port}",
    }


@pytest.fixture
def wrapped(upstream):
    """The command; all connections of the proxy lead to the test provider."""
    settings = (f"scripts={INSIDE}", f"ssl_verify_upstream_trusted_ca={upstream.ca_file}")
    options = [part for setting in settings for part in ("--set", setting)]
    return [sys.executable, "-P", "-m", "penumbra", "wrap", *options, "--"]


def files(home):
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_a_program_keeps_its_terminal(environment, wrapped, home, upstream):
    agent = [sys.executable, "-c", AGENT, SECRET]
    terminal = Terminal([*wrapped, *agent], environment)
    try:
        assert terminal.heard("leads") is True
        assert terminal.front() not in (terminal.pid, 0)
        terminal.resize(33, 101)
        assert terminal.heard("size") == [101, 33]
        assert terminal.heard("status", "ask") == 200
        assert terminal.heard("status", "ask") == 200
        got = upstream.asked()[0].body
        assert SECRET.encode() not in got
        assert b"[REDACTED:" in got
        certificate = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", upstream.tls_port)))
        assert terminal.heard("certificate", "tunnel") == hashlib.sha256(certificate).hexdigest()
        terminal.type("\x03")
        assert terminal.heard("interrupted") is True
        # No shell could continue a stopped program here, so the kernel lets Ctrl-Z stop nothing.
        terminal.type("\x1a")
        assert terminal.heard("size", "size") == [101, 33]
        terminal.type("exit 7\n")
        assert terminal.end() == 7
        line = terminal.said.rstrip("\n").rpartition("\n")[2]
        assert re.fullmatch(
            r"penumbra: 2 requests, about [\d,]+ -> [\d,]+ tokens of tool results \(-\d\d%\), "
            r"about \$0\.0\d saved at list prices, 1 secret kept back, \d+\.\d s added",
            line,
        ), terminal.said
    finally:
        terminal.close()
    kept = {name for name in files(home) if not name.startswith(".local/state/penumbra/")}
    assert kept == set()
    running = home / ".local/state/penumbra/running"
    assert eventually(lambda: not list(running.glob("*")))


@pytest.fixture
def shell(environment):
    terminal = Terminal(["/bin/bash", "--norc", "-i"], {**environment, "TERM": "dumb"})
    yield terminal
    terminal.close()


def shown(wrapped, script):
    """Return a shell's command for a wrapped script."""
    return shlex.join([*wrapped, "sh", "-c", f"echo up; {script}"])


WAITS = "while :; do sleep 0.1; done"


@pytest.mark.parametrize("is_script", [False, True], ids=["in the shell", "in a script"])
def test_one_interrupt_ends_a_loop(is_script, shell, wrapped):
    loop = f"for i in 1 2; do {shown(wrapped, WAITS)}; done"
    shell.type(f"sh -c {shlex.quote(loop)}\n" if is_script else f"{loop}\n")
    shell.wait_for(r"\nup\n")
    shell.type("\x03")
    shell.type("echo le''ft\n")
    assert "\nup\n" not in shell.wait_for(r"(?s).*\nleft\n")[0]


def test_a_program_is_stopped_and_goes_on_with_its_exit_code(shell, wrapped):
    shell.type(shown(wrapped, "sleep 1; read code; exit $code") + "\n")
    shell.wait_for(r"\nup\n")
    for _ in range(2):
        assert eventually(lambda: shell.front() != shell.pid)
        time.sleep(0.2)
        shell.type("\x1a")
        assert eventually(lambda: shell.front() == shell.pid)
        shell.type("echo co''de $? ; fg\n")
        assert shell.wait_for(r"code (\d+)\n")[1] == str(128 + signal.SIGTSTP)
    assert eventually(lambda: shell.front() != shell.pid)
    shell.type("6\n")
    assert eventually(lambda: shell.front() == shell.pid)
    shell.type("echo co''de $?\n")
    assert shell.wait_for(r"code (\d+)\n")[1] == "6"


def test_a_script_can_be_stopped(shell, wrapped):
    shell.type(f"bash -c {shlex.quote(f'{shown(wrapped, WAITS)}; echo no')}\n")
    shell.wait_for(r"\nup\n")
    shell.type("\x1a")
    shell.type("echo sto''pped\n")
    shell.wait_for(r"\nstopped\n", 10)
    shell.type("fg\n")
    assert eventually(lambda: shell.front() != shell.pid)
    shell.type("\x03")
    shell.type("echo le''ft\n")
    assert "\nno\n" not in shell.wait_for(r"(?s).*\nleft\n")[0]


def test_a_program_in_the_background_leaves_the_terminal_to_the_shell(shell, wrapped, home):
    shell.type(shown(wrapped, "sleep 2; exit 5") + "\n")
    shell.wait_for(r"\nup\n")
    time.sleep(0.2)
    shell.type("\x1a")
    assert eventually(lambda: shell.front() == shell.pid)
    shell.type("bg\n")
    assert eventually(lambda: not list((home / ".local/state/penumbra/running").glob("*")))
    shell.type("wait %1; echo en''ded $?\n")
    assert shell.wait_for(r"ended (\d+)\n", 10)[1] == "5"


def test_a_program_goes_from_the_background_to_the_front(shell, wrapped):
    shell.type(shown(wrapped, "sleep 2; read word; echo got $word") + "\n")
    shell.wait_for(r"\nup\n")
    time.sleep(0.2)
    shell.type("\x1a")
    assert eventually(lambda: shell.front() == shell.pid)
    shell.type("bg; sleep 0.5; fg\n")
    assert eventually(lambda: shell.front() != shell.pid)
    shell.type("a word\n")
    shell.wait_for(r"\ngot a word\n", 10)


def test_an_interrupt_while_the_proxy_ends_keeps_the_exit_code(environment, wrapped):
    command = [*wrapped, "sh", "-c", f"trap 'exit 3' INT; echo up; {WAITS}"]
    terminal = Terminal(command, environment)
    try:
        terminal.wait_for(r"up\n")
        terminal.type("\x03")
        assert eventually(lambda: terminal.front() == terminal.pid)
        terminal.type("\x03")
        assert terminal.end() == 3
    finally:
        terminal.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT], ids=lambda number: number.name)
def test_a_signal_to_wrap_alone_reaches_the_program(number, environment, wrapped):
    """The program sends the signal itself, as early as it can."""
    script = f"trap 'exit 4' {number:d}; kill -{number:d} $PPID; {WAITS}"
    terminal = Terminal([*wrapped, "/bin/sh", "-c", script], environment)
    try:
        assert terminal.end() == 4
    finally:
        terminal.close()


def test_without_a_terminal_wrap_stays_in_the_pipeline_and_prints_nothing_without_traffic(
    environment, wrapped, tmp_path
):
    """The proxy imports no modules of the folder where it is started."""
    for name in ("orjson", "penumbra", "logging"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger')\n")
    done = subprocess.run(
        [*wrapped, sys.executable, "-P", "-c", AGENT, SECRET],
        cwd=tmp_path,
        env=environment,
        input="variables\nkill 9\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (-9, "")
    first, second = (json.loads(line.removeprefix("AGENT ")) for line in done.stdout.splitlines())
    assert first == {"leads": False, "front": False}
    found = second["variables"]
    assert found["NO_PROXY"] == found["no_proxy"] == "localhost,127.0.0.1,::1"
    assert found["HTTPS_PROXY"] == found["https_proxy"]
    assert Path(found["SSL_CERT_FILE"]).read_text().count("BEGIN CERTIFICATE") > 50
    assert not any(name.startswith("PENUMBRA_") for name in found)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_is_the_null_device_and_never_a_file_of_the_proxy(
    closed, environment, wrapped
):
    null = "import os; exit(4 * (os.stat(os.devnull).st_rdev in [os.fstat(n).st_rdev for n in (1, 2)]))"
    line = shlex.join([*wrapped, sys.executable, "-c", null])
    done = subprocess.run(
        f"exec {line} {closed}", shell=True, env=environment, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", b"")


def test_a_program_that_cannot_be_run_fails_as_in_a_shell(environment, wrapped, tmp_path):
    program = tmp_path / "program"
    program.write_text("echo $1; exit 5\n")
    for path, code, words in (
        ("no-such-agent", 127, "penumbra: no-such-agent: command not found\n"),
        (str(tmp_path / "none"), 127, f"penumbra: {tmp_path}/none: no such file\n"),
        (str(program), 126, f"penumbra: {program}: may not be executed\n"),
    ):
        done = subprocess.run([*wrapped, path], env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (code, words)
    program.chmod(0o755)
    wrong = [*wrapped[:-1], "--set", "penumbra_mode=loud", str(program), "x"]
    done = subprocess.run(wrong, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "penumbra: the proxy did not start: penumbra_mode: got 'loud', allowed: disabled"
    )


def test_a_proxy_that_stands_is_joined_and_outlives_the_program(environment):
    proxy = subprocess.Popen(
        [sys.executable, "-m", "penumbra", "proxy", "-p", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for line in proxy.stdout:
            if found := re.search(r"HTTPS_PROXY=(\S+)", line):
                break
        command = [sys.executable, "-m", "penumbra", "wrap", "--print-env=fish"]
        printed = eventually(
            lambda: (
                subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout
            )
        )
        assert f"set -gx HTTPS_PROXY '{found[1]}'\n" in printed
        shown = [*command[:-1], "sh", "-c", "echo $HTTPS_PROXY; kill -TERM $$"]
        done = subprocess.run(shown, env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (-15, f"{found[1]}\n", "")
        assert proxy.poll() is None
    finally:
        proxy.terminate()
        proxy.communicate(timeout=30)


def test_proxy_and_program_end_if_wrap_is_killed(environment, wrapped, home):
    running = home / ".local/state/penumbra/running"
    process = subprocess.Popen(
        [*wrapped, "sh", "-c", "echo $$; exec sleep 60"], env=environment, stdout=subprocess.PIPE, text=True
    )
    program = int(process.stdout.readline())
    (state,) = running.glob("*.json")
    process.kill()
    process.wait(5)
    process.stdout.close()

    def has_ended(pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2:3]

    assert eventually(lambda: has_ended(int(state.stem)))
    assert sys.platform != "linux" or eventually(lambda: has_ended(program))
