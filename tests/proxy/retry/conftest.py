"""A client of a shared proxy."""

from typing import Any

import pytest

from support.refused import Client


@pytest.fixture
def client(clients: Any, proxy: Any, upstream: Any, api_key: str) -> Client:
    return Client(clients, proxy(), api_key)
