"""Counts of work. Times depend on the machine more than on the code."""

import cProfile
import operator
import sys
from collections.abc import Callable
from functools import lru_cache
from types import FrameType
from typing import Any


def calls(work: Callable[..., Any], *arguments: Any) -> int:
    """Return the number of calls of functions, of those written in C, too, and of steps of generators."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        work(*arguments)
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def lines(work: Callable[..., Any], *arguments: Any) -> int:
    """Return the number of lines of Python that run; before Python 3.12, of lines of the package."""
    return _monitored(work, *arguments) if sys.version_info >= (3, 12) else _traced(work, *arguments)


def _monitored(work: Callable[..., Any], *arguments: Any) -> int:
    monitoring: Any = sys.monitoring
    tool, event = monitoring.COVERAGE_ID, monitoring.events.LINE
    # The callback is written in C, and counts its calls.
    counter: Any = lru_cache(maxsize=0)(operator.is_)
    monitoring.use_tool_id(tool, "work_counts")
    try:
        monitoring.register_callback(tool, event, counter)
        monitoring.set_events(tool, event)
        work(*arguments)
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    return int(counter.cache_info().misses)


def _traced(work: Callable[..., Any], *arguments: Any) -> int:
    count = 0

    def local(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal count
        count += event == "line"
        return local

    def outer(frame: FrameType, event: str, value: Any) -> Any:
        return local if "penumbra" in frame.f_code.co_filename else None

    sys.settrace(outer)
    try:
        work(*arguments)
    finally:
        sys.settrace(None)
    return count
