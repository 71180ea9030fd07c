"""How a failure is told: its kind and its place, never its message.

An exception's own words may quote the text that caused it, and that text is somebody's.
"""

from __future__ import annotations

from pathlib import PurePath


def place(error: BaseException) -> str:
    """One line such as `KeyError at cap.py:41`."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    name = type(error).__name__
    if frame is None:
        return name
    return f"{name} at {PurePath(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
