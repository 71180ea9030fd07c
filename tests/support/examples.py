"""The option `--part K/N`, which makes a run try the Kth of N parts of all examples."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")
HELP = (
    "try the Kth of N parts of the examples: of each test's cases every Nth (but four at least), of the inputs "
    "of properties an Nth, of the places where streams are cut every Nth; 1/1 leaves nothing out"
)
USUAL = "1/3"
FEWEST_CASES = 4
FEWEST_INPUTS = 15


@dataclass(frozen=True)
class Part:
    """A `Part` is the Kth of N parts, K counted from 1."""

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Part:
        found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise pytest.UsageError(f"--part {text}: it is K/N, with K from 1 to N, such as {USUAL}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def some(self, values: Sequence[T], fewest: int = 1) -> list[T]:
        """Return the values of this part, and at least `fewest` where there are as many."""
        step = max(1, min(self.of, len(values) // fewest))
        return list(values[(self.number - 1) % step :: step])


part = Part.read(USUAL)
"""The part that runs."""


def examples(number: int) -> int:
    """Return the number of inputs that a property is tried with, of `number` in all."""
    return max(min(number, FEWEST_INPUTS), number // part.of)


def some(values: Sequence[T], fewest: int = 1) -> list[T]:
    """Return the values that are in the part that runs."""
    return part.some(values, fewest)


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--part", default=USUAL, metavar="K/N", help=HELP)


def configure(config: pytest.Config) -> None:
    global part
    part = Part.read(config.getoption("--part"))
    # Times depend on the machine more than on the code.
    settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("tests")


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases that are not in the part."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    chosen = {item for cases in tests.values() for item in _cases_of_part(cases)}
    left_out = [item for item in items if item not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in chosen]


def _cases_of_part(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return every Nth case in an order that does not depend on the table's, since a table may have steps of
    N."""
    mixed = sorted(cases, key=lambda item: (crc32(item.nodeid.encode()), item.nodeid))
    return part.some(mixed, FEWEST_CASES)
