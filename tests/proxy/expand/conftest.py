"""Fixtures for conversations in which the model asks for originals."""

from typing import Any

import pytest

from support.agents.model import CAP


@pytest.fixture
def running(proxy: Any) -> Any:
    """A proxy in regular mode in which large results are shortened with loss."""
    return proxy("regular", penumbra_max_output_bytes=CAP)


@pytest.fixture
def start(clients: Any, api_key: str, running: Any) -> Any:
    """`start(api, running=…, http2=False, **fields)` returns an agent on an API's official SDK."""

    def start(api: Any, running: Any = running, http2: bool = False, **more: Any) -> Any:
        return api.caller(clients, running, api_key, http2, **more)

    return start
