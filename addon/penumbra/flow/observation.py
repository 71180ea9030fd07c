"""What would have become of requests that go through as they come, worked out beside them.

Nobody waits for it, and nothing of it outlives the process: a form that was never sent must not be taken for
the first one of its result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from mitmproxy import http

from penumbra import errors
from penumbra.config.settings import Settings
from penumbra.conversation.engine_settings import EngineSettings
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow.engines import Engines, Lease
from penumbra.flow.report import Reports

_log = logging.getLogger(__name__)
_MOST = 32
"""Requests that are worked out at once; those beyond are not."""

_MEMORY_BYTES = 64_000_000
"""Of decisions and originals, which lie in memory here."""


class Observation:
    """State: an engine of its own, whose database is in memory, and the requests that it works on."""

    def __init__(self, engines: Engines, made_with: Callable[[], EngineSettings], reports: Reports) -> None:
        """`made_with`: what the engine that changes requests is made with now."""
        self._engines = engines
        self._made_with = made_with
        self._reports = reports
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, flow: http.HTTPFlow, incoming: Incoming, settings: Settings) -> None:
        """Work it out. The request may be on its way meanwhile."""
        if len(self._tasks) >= _MOST:
            return
        # Asking others would send them what the provider alone is to see, and cost money for nothing.
        alone = replace(settings, strategy="pipeline") if settings.external_strategy else settings
        made_with = self._made_with()
        room = min(made_with.database_max_bytes, _MEMORY_BYTES)
        made_with = replace(made_with, database=None, shared=None, database_max_bytes=room)
        task = asyncio.create_task(self._work(flow, incoming, self._engines.lease(alone, made_with)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, flow: http.HTTPFlow, incoming: Incoming, lease: Lease) -> None:
        with lease:
            try:
                outcome = await lease.engine.process(incoming, lease.settings)
                if isinstance(outcome, Accepted):
                    self._reports.observed(flow, incoming, outcome, lease)
            except Exception as error:
                _log.warning("Penumbra can't say what a request would have become: %s", errors.place(error))

    def forget(self) -> None:
        """What was worked out before is forgotten."""
        self._engines.forget()

    def close(self, *, at_once: bool) -> None:
        """There will be no more requests."""
        for task in self._tasks:
            task.cancel()
        self._engines.close(at_once=at_once)
