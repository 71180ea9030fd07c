"""A program that is run in front of the user, as a shell runs one: a process group of its own that has the
terminal, signals, job control and exit codes. On systems without job control it is a plain child process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

try:
    import termios
except ImportError:
    # Windows: there is no terminal to hand over.
    termios = None  # type: ignore[assignment]

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_BY_SIGNAL = 128
_FORWARDED = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)
)
"""Sent to whoever starts the program, and meant for it."""
_OF_THE_TERMINAL = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGQUIT", "SIGBREAK") if hasattr(signal, name)
)
"""The program gets them itself, and decides what they mean."""


class NotRunnable(Exception):
    """There is no such program; the message says why, `code` is what a shell would return."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def find(name: str, path: str | None) -> str:
    """The program's file. Raises NotRunnable, as soon as a shell would."""
    if program := shutil.which(name, path=path):
        return program
    if not os.path.dirname(name):
        raise NotRunnable(f"{name}: command not found", NOT_FOUND)
    if not Path(name).exists():
        raise NotRunnable(f"{name}: no such file", NOT_FOUND)
    why = "is a folder" if Path(name).is_dir() else "may not be executed"
    raise NotRunnable(f"{name}: {why}", NOT_EXECUTABLE)


def run(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs a program to its end; its exit code, or 128 and the number of the signal that ended it.

    `arguments` begin with the program's name. Where a terminal is in front of it, the program gets a process
    group of its own and the terminal, as from a shell; else it stays in this process's group, so that a
    pipeline remains one job.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if termios is None or not hasattr(os, "fork"):
        return _as_child(program, arguments, environment)
    terminal = _terminal()
    with _signals() as children:
        child = os.fork()
        if child == 0:
            _become(program, arguments, environment, terminal)
        children.append(child)
        if terminal is not None:
            _own_group(child)
            _hand_over(terminal, child)
        return _wait(child, terminal)


def _as_child(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program that shares this process's console; return its exit code."""
    with _signals() as children:
        try:
            process = subprocess.Popen([program, *arguments[1:]], env=dict(environment))
        except OSError as error:
            print(f"penumbra: {arguments[0]}: {error.strerror}", file=sys.stderr, flush=True)
            return NOT_EXECUTABLE
        children.append(process.pid)
        code = process.wait()
        return code if code >= 0 else _BY_SIGNAL - code


def _become(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], terminal: int | None
) -> None:
    """The child's side of the fork."""
    try:
        if terminal is not None:
            _own_group(0)
            _hand_over(terminal, os.getpgrp())
        for number in (*_FORWARDED, *_OF_THE_TERMINAL):
            # What `nohup` has the program ignore, it ignores.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execve(program, list(arguments), dict(environment))
    except OSError as error:
        # A file without `#!` is the shell's: execvp of a shell does the same.
        if error.errno == 8:
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
            _stop_as_well(child, terminal, status)
            continue
        if terminal is not None:
            _hand_over(terminal, os.getpgrp())
        if os.WIFSIGNALED(status):
            if terminal is not None and kept is not None:
                # It could not put the terminal back itself.
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(terminal, termios.TCSADRAIN, kept)
            return _BY_SIGNAL + os.WTERMSIG(status)
        return os.WEXITSTATUS(status)


def _stop_as_well(child: int, terminal: int, status: int) -> None:
    """Ctrl-Z: the job stops as a whole, and goes on when the shell says so, in front or behind."""
    _hand_over(terminal, os.getpgrp())
    os.kill(os.getpid(), signal.SIGSTOP)
    with contextlib.suppress(OSError):
        if os.tcgetpgrp(terminal) == os.getpgrp():
            _hand_over(terminal, child)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGCONT)


def _terminal() -> int | None:
    """The terminal, if both ends of the program are there and it is ours to give."""
    try:
        if all(os.isatty(number) for number in (0, 1)) and os.tcgetpgrp(0) == os.getpgrp():
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
    # Both sides of the fork do it: whoever comes first. The child may have become the program already.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)


def _hand_over(terminal: int, group: int) -> None:
    """Whoever is behind is stopped for it, unless it ignores that."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(terminal, group)
    finally:
        signal.signal(signal.SIGTTOU, before)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """While the program runs: what is meant for it is passed on to what the list holds, what the terminal
    sends is left to it."""
    children: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    handlers = dict.fromkeys(_FORWARDED, forward) | dict.fromkeys(_OF_THE_TERMINAL, lambda *_: None)
    before = {number: signal.getsignal(number) for number in handlers}
    taken = [number for number in handlers if before[number] is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, handlers[number])
    try:
        yield children
    finally:
        for number in taken:
            signal.signal(number, before[number])
