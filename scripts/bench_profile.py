"""Sample the main thread's stack and sum its processor time by part of the package."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 0.001
"""Processor time between two samples."""
_PACKAGE = "/penumbra/"
_LINE = "{:>6.1f} %  {}"


class Profile:
    """A `Profile` counts, for each sample, the file of the package in which the work is done.

    Signals take the samples: a second thread would see the stack only where the work releases the interpreter
    lock.
    """

    def __init__(self) -> None:
        self._files: Counter[str] = Counter()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Sample inside the `with` block; the main thread alone gets signals."""
        before = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        self._files[_file(frame)] += 1

    def table(self, files: int = 25) -> str:
        """Return the share of each part of the package, and of the files that take most."""
        samples = sum(self._files.values()) or 1
        parts: Counter[str] = Counter()
        for file, count in self._files.items():
            parts[file.partition("/")[0]] += count
        lines = [f"{samples} samples; by part:"]
        lines += [_LINE.format(100 * count / samples, part) for part, count in parts.most_common()]
        lines.append("by file:")
        lines += [_LINE.format(100 * count / samples, file) for file, count in self._files.most_common(files)]
        return "\n".join(lines)


def _file(frame: FrameType | None) -> str:
    """Return the path of the innermost file of the package on a stack."""
    while frame is not None:
        before, package, file = frame.f_code.co_filename.rpartition(_PACKAGE)
        if package and before.endswith("addon"):
            return file
        frame = frame.f_back
    return "outside of the package"
