"""Engines that the tests of this folder share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.engines import Callers, database


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Callers]]:
    """Return a function that starts an engine with settings, over a file in the test's folder."""
    started: list[Callers] = []

    def begun(**settings: Any) -> Callers:
        started.append(Callers(**{"database": database(tmp_path), **settings}))
        return started[-1]

    yield begun
    for each in started:
        each.close()


@pytest.fixture
def callers(start: Callable[..., Callers]) -> Callers:
    """Return requests through an engine with the default settings."""
    return start()
