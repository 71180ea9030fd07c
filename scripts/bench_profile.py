"""Where the processor time of the main thread goes, by part of the package: its stack is looked at."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS = 0.001
"""Of processor time between two looks."""
_PACKAGE = "/penumbra/"
_LINE = "{:>6.1f} %  {}"


class Profile:
    """Counts in which file of the package each look finds the work.

    A thread beside would see it only where it lets go of the interpreter, which few parts do.
    """

    def __init__(self) -> None:
        self._files: Counter[str] = Counter()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Look while this lasts; for the main thread, which alone sees signals."""
        before = signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _look(self, number: int, frame: FrameType | None) -> None:
        self._files[_file(frame)] += 1

    def table(self, files: int = 25) -> str:
        """The share of each part of the package, and of the files that take most."""
        looks = sum(self._files.values()) or 1
        parts: Counter[str] = Counter()
        for file, count in self._files.items():
            parts[file.partition("/")[0]] += count
        lines = [f"{looks} looks; by part:"]
        lines += [_LINE.format(100 * count / looks, part) for part, count in parts.most_common()]
        lines.append("by file:")
        lines += [_LINE.format(100 * count / looks, file) for file, count in self._files.most_common(files)]
        return "\n".join(lines)


def _file(frame: FrameType | None) -> str:
    """The innermost file of the package on a stack, below its folder."""
    while frame is not None:
        before, package, file = frame.f_code.co_filename.rpartition(_PACKAGE)
        if package and before.endswith("addon"):
            return file
        frame = frame.f_back
    return "outside of the package"
