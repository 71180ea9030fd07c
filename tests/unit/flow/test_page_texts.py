"""Texts for the page: what was on its way when they were cleared does not come any more."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penumbra.flow.page.contents import Texts


class Lease:
    """A lease of an engine whose texts take their time."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.engine = self

    def share(self) -> Lease:
        return self

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *error: object) -> None:
        return

    async def shown_texts(self, *asked: object) -> tuple[str, str]:
        await self.ready.wait()
        return "before", "after"


@pytest.mark.parametrize("is_cleared", [True, False])
def test_what_is_on_its_way_when_they_are_cleared_is_not_kept(is_cleared: bool) -> None:
    async def kept() -> object:
        texts, lease = Texts(), Lease()
        shown = SimpleNamespace(new=True, item=SimpleNamespace(text="text"))
        accepted: Any = SimpleNamespace(rewritten=SimpleNamespace(shown=[shown]))
        result: Any = SimpleNamespace(number=7)
        asked: Any = lease
        texts.keep(asked, accepted, [result])
        if is_cleared:
            texts.clear()
        lease.ready.set()
        await asyncio.gather(*texts._tasks)
        return texts.get(7)

    assert asyncio.run(kept()) == (None if is_cleared else ("before", "after"))
