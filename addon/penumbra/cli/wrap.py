"""`penumbra wrap` runs one program whose requests to LLM hosts go through a proxy of Penumbra.

The program runs as under a shell, with signals, job control and exit codes. If this process leads the job in
a terminal's foreground, the program has a process group of its own. On systems without job control, the
program is a plain child process. The program gets a changed environment, but its files stay unchanged.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from penumbra.cli import agent_environment, certificates, proxy_process
from penumbra.cli.agent_environment import covers_llm_host
from penumbra.cli.command import I_KNOW, WRONG, Failure, Parser
from penumbra.errors import counted, one_line
from penumbra.metrics import running

try:
    import termios
except ImportError:
    # Windows has no `termios`.
    termios = None  # type: ignore[assignment]

NOT_FOUND = 127
NOT_EXECUTABLE = 126
FAILED = 125
_SIGNAL_AT_PARENTS_END = 1
"""Linux' `PR_SET_PDEATHSIG`: the kernel sends the process a signal when the process's parent ends."""
_FORWARDED = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)
"""Signals that are passed on to the program."""
_OF_THE_TERMINAL = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGQUIT", "SIGBREAK") if hasattr(signal, name)
)
"""Signals that the terminal sends to the program directly. They are passed on only if the program has
a process group of its own, since no terminal has sent them then."""


def find(name: str, path: str | None) -> str:
    """Return the program's file. Raises Failure, with a shell's exit code, if a shell could not run it."""
    if program := shutil.which(name, path=path):
        return program
    shown = one_line(name)
    if not os.path.dirname(name):
        raise Failure(f"{shown}: command not found", NOT_FOUND)
    if not Path(name).exists():
        raise Failure(f"{shown}: no such file", NOT_FOUND)
    why = "is a folder" if Path(name).is_dir() else "may not be executed"
    raise Failure(f"{shown}: {why}", NOT_EXECUTABLE)


def run(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], *, has_proxy: bool = False
) -> int:
    """Run a program to its end and return its exit code. If a signal ended it, return the signal's negative
    number. `arguments` begin with the program's name. If this process leads the job in the terminal's
    foreground, the program gets a process group of its own, which then controls the terminal. Otherwise the
    program stays in this process's group, so that a pipeline or a script remains one job. `has_proxy` is true
    if the program's proxy ends with this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    if termios is None or not hasattr(os, "fork"):
        return _as_child(program, arguments, environment)
    terminal, own = _terminal(), os.getpid()
    # The library is loaded before the fork, because another thread may hold the loader's lock at the fork.
    prctl = ctypes.CDLL(None).prctl if has_proxy and sys.platform == "linux" else None
    with _signals(_OF_THE_TERMINAL if terminal is not None else ()) as forward_to:
        # A signal that arrives in the new process before the program runs waits for the program.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, *_OF_THE_TERMINAL))
        child = os.fork()
        if child == 0:
            if prctl is not None:
                # A program whose proxy has ended with this process could reach no LLM host.
                prctl(_SIGNAL_AT_PARENTS_END, signal.SIGTERM)
                if os.getppid() != own:
                    os._exit(FAILED)
            _become(program, arguments, environment, terminal, before)
        forward_to(child)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if terminal is not None:
            _own_group(child)
            _hand_over(terminal, child)
            signal.signal(signal.SIGCONT, lambda *_: _go_on(child, terminal))
        return _wait(child, terminal)


def _as_child(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program that shares this process's console, and return its exit code."""
    with _signals() as forward_to:
        try:
            process = subprocess.Popen([program, *arguments[1:]], env=dict(environment))
        except OSError as error:
            print(f"penumbra: {arguments[0]}: {error.strerror}", file=sys.stderr, flush=True)
            return NOT_EXECUTABLE
        forward_to(process.pid)
        return process.wait()


def _become(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    terminal: int | None,
    blocked: Iterable[int],
) -> None:
    """Replace the child process, after the fork, by the program, which blocks the signals of `blocked`."""
    try:
        if terminal is not None:
            _own_group(0)
            _hand_over(terminal, os.getpgrp())
        for number in (*_FORWARDED, *_OF_THE_TERMINAL):
            # A signal that this process ignores, for example because of `nohup`, stays ignored in the
            # program.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.execve(program, list(arguments), dict(environment))
    except OSError as error:
        # A shell runs a file without `#!` itself.
        if error.errno == errno.ENOEXEC:
            with contextlib.suppress(OSError):
                os.execve("/bin/sh", ["/bin/sh", program, *arguments[1:]], dict(environment))
        print(f"penumbra: {arguments[0]}: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os._exit(NOT_EXECUTABLE)


def _wait(child: int, terminal: int | None) -> int:
    kept = _kept(terminal)
    while True:
        _, status = os.waitpid(child, os.WUNTRACED if terminal is not None else 0)
        if os.WIFSTOPPED(status) and terminal is not None:
            if os.WSTOPSIG(status) in (signal.SIGTTIN, signal.SIGTTOU) and _is_ours(terminal):
                # `fg` gave the terminal to this process, without a signal since it was running.
                _go_on(child, terminal)
                continue
            _take_back(terminal, child)
            if os.WSTOPSIG(status) == signal.SIGTSTP:
                # Ctrl-Z has stopped the program. Without a shell that could continue this process, the kernel
                # discards the signal, and the program goes on, as it would without this process.
                signal.raise_signal(signal.SIGTSTP)
                _go_on(child, terminal)
            else:
                signal.raise_signal(signal.SIGSTOP)
            continue
        is_front = terminal is not None and _take_back(terminal, child)
        if os.WIFSIGNALED(status):
            if is_front and terminal is not None and kept is not None:
                # A killed program could not restore the terminal, so this process restores it.
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(terminal, termios.TCSADRAIN, kept)
            return -os.WTERMSIG(status)
        return os.WEXITSTATUS(status)


def _go_on(child: int, terminal: int) -> None:
    """Continue the program when the shell continues this process, in the foreground or the background."""
    if _is_ours(terminal):
        _hand_over(terminal, child)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGCONT)


def _take_back(terminal: int, child: int) -> bool:
    """Take the terminal from the program's group, and return whether this process's group has it now. A
    program in the background does not have the terminal, and the shell must keep it."""
    with contextlib.suppress(OSError):
        if os.tcgetpgrp(terminal) == child:
            _hand_over(terminal, os.getpgrp())
    return _is_ours(terminal)


def _is_ours(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False


def _terminal() -> int | None:
    """Return the terminal's descriptor; None unless this process leads the job in a terminal's foreground. A
    script's shell, which does not lead, must get Ctrl-C and Ctrl-Z together with the program."""
    try:
        if all(os.isatty(number) for number in (0, 1)) and os.tcgetpgrp(0) == os.getpid():
            return 0
    except OSError:
        pass
    return None


def _kept(terminal: int | None) -> list[Any] | None:
    if terminal is not None:
        with contextlib.suppress(termios.error):
            return termios.tcgetattr(terminal)
    return None


def _own_group(pid: int) -> None:
    # Both processes call this, because either may run first. The call fails if the child already runs the
    # program.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)


def _hand_over(terminal: int, group: int) -> None:
    """Make a process group the terminal's foreground group. A background process that does so would be
    stopped by SIGTTOU, so this signal is ignored meanwhile."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(terminal, group)
    finally:
        signal.signal(signal.SIGTTOU, before)


@contextlib.contextmanager
def _signals(forwarded: Sequence[int] = ()) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes a process, to which signals are then forwarded, also those that arrived
    earlier. Signals that the terminal sends to all processes are forwarded only if `forwarded` has them."""
    children: list[int] = []
    early: list[int] = []

    def forward(number: int, _: FrameType | None = None) -> None:
        if not children:
            early.append(number)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    def forward_to(child: int) -> None:
        children.append(child)
        for number in early:
            forward(number)

    handlers = dict.fromkeys(_OF_THE_TERMINAL, lambda *_: None)
    handlers |= dict.fromkeys((*_FORWARDED, *forwarded), forward)
    before = {number: signal.getsignal(number) for number in handlers}
    taken = [number for number in handlers if before[number] is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, handlers[number])
    try:
        yield forward_to
    finally:
        for number in taken:
            signal.signal(number, before[number])


USAGE = """\
usage: penumbra wrap [options] [--] PROGRAM [arguments of it]
       penumbra wrap --print-env[=sh|fish|powershell]

Runs a program, such as `claude` or `codex`, whose requests to LLM hosts go through Penumbra. All other
connections are tunnelled, also those of programs that it starts. No configuration file is changed.

  --set NAME=VALUE  set an option of the proxy (`penumbra proxy --help` lists them); may be repeated
  --observe         change nothing, not even secrets; the line at the end shows the possible savings
  --new             start a new proxy, even if a proxy with Penumbra runs already
  --web             start mitmweb, which shows all requests
  --i-know          start mitmweb even if its version shows all clients' flows to each client
  --log FILE        write the proxy's log to FILE (default: ~/.local/state/penumbra/wrap.log)
  --quiet           print no line at the end
  --print-env       only print the variables for a shell, from a proxy that is running:
                    eval "$(penumbra wrap --print-env)"

The program uses a proxy that `penumbra proxy` or `penumbra web` has started. If none runs, or options are
set, a new proxy starts on a free port and ends with the program.

Exit code: the program's own; 126 if it may not be executed, 127 if it is not found; 125 if the proxy could
not be started; 2 if arguments or settings are wrong. A signal that ends the program also ends `wrap`.
"""
_NODE = 24
"""The first version of Node whose fetch uses the proxy without a warning."""
_OVERRULING = ("PENUMBRA_", "FORGE_")
"""Prefixes of variables that override a proxy's settings."""


def main(command_line: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run the program and return its exit code. Raises Failure."""
    arguments = read(command_line, environment)
    if arguments.shell:
        return _print(arguments.shell, environment)
    program = find(arguments.program[0], environment.get("PATH"))
    try:
        proxy = _proxy(arguments, environment)
        added = _variables(proxy, environment)
    except Failure as failure:
        raise Failure(str(failure), code=WRONG if failure.code == WRONG else FAILED) from None
    if proxy.web:
        print(f"penumbra: {proxy.web}", file=sys.stderr)
    code = run(program, arguments.program, {**environment, **added}, has_proxy=not proxy.is_shared)
    try:
        totals = proxy.end()
    except KeyboardInterrupt:
        # Ctrl-C after the program's end. The proxy ends together with this process, and the code is still the
        # program's.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return code
    if not arguments.quiet and (line := summary(totals)):
        whose = " (of all programs of the proxy that was joined)" if proxy.is_shared else ""
        print(f"penumbra: {line}{whose}", file=sys.stderr)
    return code


def read(command_line: Sequence[str], environment: Mapping[str, str]) -> Namespace:
    """Return the arguments of `wrap`. The first word that is not an option begins the command line of the
    program. Raises Failure."""
    parser = Parser("wrap")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--log", default="", metavar="FILE")
    parser.add_argument(
        "--print-env", dest="shell", nargs="?", default="", const=agent_environment.shell_of(environment)
    )
    for flag in ("--observe", "--new", "--web", "--quiet", I_KNOW):
        parser.add_argument(flag, action="store_true")
    own, words = list(command_line), list[str]()
    for at, word in enumerate(own):
        takes_value = at and own[at - 1] in ("--set", "--log")
        if not takes_value and (word == "--" or not word.startswith("-")):
            own, words = own[:at], own[at + (word == "--") :]
            break
    arguments = parser.read(own)
    if arguments.shell and arguments.shell not in agent_environment.SHELLS:
        raise Failure(f"--print-env: got {arguments.shell!r}, allowed: sh, fish or powershell", code=WRONG)
    if not words and not arguments.shell:
        raise Failure("wrap: no program given, for example: penumbra wrap -- claude", code=WRONG)
    arguments.program = tuple(words)
    return arguments


def summary(totals: Mapping[str, Any]) -> str:
    """Return a line with the figures from the program's run; empty if there was no traffic."""
    requests = totals.get("requests", 0) + totals.get("refused", 0)
    if not requests:
        return ""
    before, after = totals.get("sent_tokens", (0, 0))
    parts = [counted(requests, "request")]
    if before > after:
        share = (before - after) / before
        less = f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"
        parts.append(f"about {before:,} -> {after:,} tokens of tool results (-{less})")
    if (dollars := totals.get("dollars", 0.0) - totals.get("dollars_spent", 0.0)) >= 0.005:
        least = "at least " if totals.get("unpriced") else "about "
        parts.append(f"{least}${dollars:,.2f} saved at list prices")
    is_observed = bool(totals.get("observed"))
    if secrets := sum(totals.get("redactions", {}).values()):
        parts.append(f"{counted(secrets, 'secret')} {'found' if is_observed else 'kept back'}")
    if refused := totals.get("refused", 0):
        parts.append(f"{refused:,} refused")
    if is_observed:
        return f"nothing was changed; it would have been: {', '.join(parts)}"
    parts.append(f"{totals.get('milliseconds', 0.0) / 1000:.1f} s added")
    return ", ".join(parts)


def _proxy(arguments: Namespace, environment: Mapping[str, str]) -> proxy_process.Proxy:
    is_chosen = arguments.new or arguments.web or arguments.observe or bool(arguments.settings)
    is_chosen = is_chosen or any(name.startswith(_OVERRULING) and environment[name] for name in environment)
    if not is_chosen and (entry := proxy_process.joinable(environment)):
        return proxy_process.Joined(entry)
    settings = [part for setting in arguments.settings for part in ("--set", setting)]
    settings += ["--set", "penumbra_observe=true"] * arguments.observe
    has_mode = any(setting.startswith("mode=") for setting in arguments.settings)
    upstream = [] if has_mode else proxy_process.upstream_mode(_upstream(environment))
    words = ["-p", "0", *upstream, *settings]
    if arguments.web:
        words += ["--web-port", str(proxy_process.free_port()), *([I_KNOW] * arguments.i_know)]
    log = Path(arguments.log) if arguments.log else running.folder(environment).parent / "wrap.log"
    return proxy_process.Started(words, log, web=arguments.web)


def _upstream(environment: Mapping[str, str]) -> str:
    """Return the upstream proxy; empty for a proxy of Penumbra, so that no request is read twice."""
    url = agent_environment.upstream(environment)
    ours = {entry.get("proxy") for entry in running.running(running.folder(environment))}
    return "" if url.removeprefix("http://").rstrip("/") in ours else url


def _print(shell: str, environment: Mapping[str, str]) -> int:
    entry = proxy_process.joinable(environment)
    if entry is None:
        raise Failure(
            "no proxy that HTTPS_PROXY could name runs here: start `penumbra proxy` first, in another shell"
        )
    variables = _variables(proxy_process.Joined(entry), environment)
    print(agent_environment.for_shell(variables, shell))
    return 0


def _variables(proxy: proxy_process.Proxy, environment: Mapping[str, str]) -> dict[str, str]:
    trusted = certificates.with_bundle(proxy.ca, agent_environment.extra_files(environment))
    if trusted.bundle is None:
        print(f"penumbra: no bundle of certificates: {one_line(trusted.problem)}", file=sys.stderr)
    return agent_environment.variables(
        proxy.place,
        trusted,
        environment,
        is_llm_host=lambda entry: covers_llm_host(entry, proxy.hosts),
        tools=_tools(environment),
    )


def _tools(environment: Mapping[str, str]) -> agent_environment.Programs:
    git = _output(environment, "git", "config", "--get-regexp", r"^http\..*sslcainfo$")
    node = re.match(r"v(\d+)\.", _output(environment, "node", "--version"))
    return agent_environment.Programs(bool(git), node is None or int(node[1]) >= _NODE)


def _output(environment: Mapping[str, str], name: str, *arguments: str) -> str:
    """Return the output of a program on the path; empty if the program is missing or fails."""
    if (program := shutil.which(name, path=environment.get("PATH"))) is None:
        return ""
    try:
        return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=5).stdout
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
