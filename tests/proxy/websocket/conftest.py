"""Fixtures for conversations over WebSocket."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.agents.model import CAP
from support.agents.websocket_caller import Talker


@pytest.fixture
def running(proxy: Any) -> Any:
    """A proxy that rewrites frames, shortens large results with loss, and keeps texts for its page."""
    return proxy("reverse", penumbra_max_output_bytes=CAP, penumbra_page_originals="on")


@pytest.fixture
def talk(api_key: str, running: Any) -> Iterator[Any]:
    """`talk(running=…, **fields)` returns an agent on a socket of its own."""
    made: list[Talker] = []

    def start(running: Any = running, **more: Any) -> Talker:
        made.append(Talker(running, **{"key": api_key, **more}))
        return made[-1]

    yield start
    for one in made:
        one.close()
