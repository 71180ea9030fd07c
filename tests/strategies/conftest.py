"""A service for the session, as if just started for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strategies.service import Service


@pytest.fixture(scope="session")
def running_service() -> Iterator[Service]:
    with Service() as running:
        yield running


@pytest.fixture
def service(running_service: Service) -> Service:
    running_service.reset()
    return running_service
