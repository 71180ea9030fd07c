"""Work that nobody waits for: it is done once what goes on now has been written to its connection, and before
anything that comes in later is looked at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penumbra import errors

_log = logging.getLogger(__name__)


def do(work: Callable[[], object]) -> None:
    """Do it then; at once where no event loop runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        _done(work)
    else:
        loop.call_soon(_done, work)


def _done(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:
        _log.error("Penumbra: what was done to a request can't be shown: %s", errors.place(error))
