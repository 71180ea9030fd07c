"""Work that nobody waits for: it begins once what goes on now has been written to its connection, and before
anything that comes in later is looked at. Between two of its steps, others go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from penumbra import errors

_log = logging.getLogger(__name__)


def do(steps: Iterator[None]) -> None:
    """Do it then, step by step; at once where no event loop runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        while _is_step(steps):
            pass
    else:
        loop.call_soon(_go_on, loop, steps)


def _go_on(loop: asyncio.AbstractEventLoop, steps: Iterator[None]) -> None:
    if _is_step(steps):
        loop.call_soon(_go_on, loop, steps)


def _is_step(steps: Iterator[None]) -> bool:
    """Take a step; false: there was none left."""
    try:
        return next(steps, steps) is None
    except Exception as error:
        _log.error("Penumbra: what was done to a request can't be shown: %s", errors.place(error))
        return False
