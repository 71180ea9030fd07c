"""Fixtures for callers of an engine."""

from collections.abc import Iterator

import pytest

from support.engines import Callers


@pytest.fixture
def callers() -> Iterator[Callers]:
    made = Callers()
    yield made
    made.close()
