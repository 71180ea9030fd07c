"""Which cases stay where not all of them run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest

from support import choice, cuts


@dataclass(frozen=True, eq=False)
class Item:
    """As much of a test as is asked for."""

    nodeid: str
    callspec: Any
    proxy: bool = True

    def get_closest_marker(self, name: str) -> bool:
        return self.proxy


def items(test: str, *tables: str, proxy: bool = True) -> list[Any]:
    return [
        Item(f"{test}[{'-'.join(case)}]", SimpleNamespace(_idlist=list(case)), proxy)
        for case in product(*tables)
    ]


def pairs(cases: list[Any]) -> set[Any]:
    return {pair for case in cases for pair in combinations(enumerate(case.callspec._idlist), 2)}


def test_every_two_values_meet() -> None:
    cases = items("a.py::test", "abcdefg", "wxyz", "01")
    left_out = choice._not_in_pairs(cases)
    kept = [case for case in cases if case not in left_out]
    assert pairs(kept) == pairs(cases)
    assert len(kept) < 0.6 * len(cases)


def test_of_two_parameters_and_without_a_proxy_all_stay() -> None:
    assert choice._not_in_pairs(items("a.py::test", "abc", "xyz")) == []
    assert choice._not_in_pairs(items("a.py::test", "abc", "xyz", "01", proxy=False)) == []


def test_a_sample_has_something_of_each_file() -> None:
    tests = [
        item for file in "abcdefgh" for n in range(9) for item in items(f"{file}.py::test_{n}", "abcdefgh")
    ]
    left_out = set(choice._not_in_sample(tests, 4))
    kept = [item.nodeid.partition("[")[0] for item in tests if item not in left_out]
    assert {name.partition("::")[0] for name in kept} == {f"{file}.py" for file in "abcdefgh"}
    assert len(set(kept)) in range(16, 25)
    assert all(kept.count(name) == 2 for name in kept)
    alone = items("x.py::test", "a")
    assert choice._not_in_sample(alone, 4) == []


def test_fast_leaves_some_cases_of_every_test() -> None:
    few, many = (items("a.py::few", "abcdefgh", proxy=False), items("a.py::many", "ab" * 300, proxy=False))
    left_out = choice._cases_too_many([*few, *many])
    assert not set(left_out) & set(few)
    assert len(many) - len(left_out) == 12


def test_fast_cuts_at_fewer_places(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = b"data: x\n\n" * 200
    monkeypatch.setattr(cuts, "FEW", False)
    usual = set(cuts.places(stream))
    monkeypatch.setattr(cuts, "FEW", True)
    few = cuts.places(stream)
    assert set(few) < usual
    assert (few[0], few[-1]) == (0, len(stream))
    assert len(usual) / 9 < len(few) < len(usual) / 7
