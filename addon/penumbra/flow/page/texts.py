"""The texts of the latest results, redacted, before and after: in memory, where the operator says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from cachetools import LRUCache

from penumbra import errors
from penumbra.conversation.incoming import Accepted
from penumbra.conversation.model import Shown
from penumbra.flow.engines import Lease
from penumbra.metrics.sessions import ResultRecord

_MOST_CHARACTERS = 32_000_000
_LONGEST = 2_000_000
"""Characters of one text; of longer ones nothing is kept."""
_MOST_AT_ONCE = 200
"""Results whose texts are still to be had; beyond, they are left out."""
_log = logging.getLogger(__name__)
Pair = tuple[str, str]


def _weigh(pair: Pair) -> int:
    return len(pair[0]) + len(pair[1])


class Texts:
    """State: pairs of texts by the number of their result."""

    def __init__(self) -> None:
        self._pairs: LRUCache[int, Pair] = LRUCache(_MOST_CHARACTERS, _weigh)
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._cleared = 0

    def get(self, number: int) -> Pair | None:
        """The original without its secrets, and what was sent."""
        return self._pairs.get(number)

    def clear(self) -> None:
        """The operator wants none any more, nor those that are still to come."""
        self._pairs.clear()
        self._cleared += 1

    def keep(self, lease: Lease, accepted: Accepted, results: Sequence[ResultRecord]) -> None:
        """Keep the texts of a request's new results. Nobody waits for that."""
        new = [entry for entry in accepted.rewritten.shown if entry.new]
        pairs = [
            (result.number, entry)
            for result, entry in zip(results, new, strict=False)
            if len(entry.item.text) <= _LONGEST
        ]
        if pairs and self._count + len(pairs) <= _MOST_AT_ONCE:
            self._count += len(pairs)
            task = asyncio.get_running_loop().create_task(
                self._keep(lease.share(), accepted, pairs, self._cleared)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _keep(
        self, lease: Lease, accepted: Accepted, pairs: list[tuple[int, Shown]], cleared: int
    ) -> None:
        with lease:
            for number, entry in pairs:
                try:
                    before, after = await lease.engine.shown_texts(accepted, entry)
                    if cleared == self._cleared and len(before) + len(after) <= _MOST_CHARACTERS:
                        self._pairs[number] = before, after
                except Exception as error:
                    _log.debug("Penumbra has no text of a result to show: %s", errors.place(error))
                finally:
                    self._count -= 1
