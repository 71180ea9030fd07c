"""The choice of the examples that a run tries."""

from typing import Any

import pytest

from support import cuts, examples
from support.examples import Part

THIRDS = [Part(number, 3) for number in (1, 2, 3)]


class Item:
    """An `Item` has as much of a test as the choice asks for."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


class Config:
    """A `Config` has as much of a run's settings as the choice asks for; its hook records what is left
    out."""

    def __init__(self) -> None:
        self.hook = self
        self.left_out: list[Any] = []

    def pytest_deselected(self, items: list[Any]) -> None:
        self.left_out += items


def chosen(part: Part, monkeypatch: pytest.MonkeyPatch, *tests: tuple[str, int]) -> list[str]:
    monkeypatch.setattr(examples, "part", part)
    items: list[Any] = [Item(f"{test}[{n}]") for test, cases in tests for n in range(cases)]
    config: Any = Config()
    examples.choose(config, items)
    assert len(items) + len(config.left_out) == sum(cases for _, cases in tests)
    return [item.nodeid for item in items]


@pytest.mark.parametrize("fewest", [1, 4])
@pytest.mark.parametrize("length", [1, 3, 4, 7, 8, 50])
def test_parts_make_the_whole(length: int, fewest: int) -> None:
    parts = [part.some(range(length), fewest) for part in THIRDS]
    assert set().union(*parts) == set(range(length))
    assert all(len(part) >= min(length, fewest) for part in parts)
    if length == 50:
        assert sum(map(len, parts)) == 50


def test_each_test_keeps_cases_and_all_run_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = (("a.py::single", 1), ("a.py::short", 7), ("b.py::long", 300))
    parts = [chosen(part, monkeypatch, *tests) for part in THIRDS]
    for part in parts:
        count = [sum(name.startswith(test) for name in part) for test, _ in tests]
        assert count == [1, 7, 100]
    assert len(set().union(*parts)) == 308
    assert len(chosen(Part(1, 1), monkeypatch, *tests)) == 308


def test_a_step_of_a_table_is_no_step_of_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner values of a table of pairs repeat every three cases, and no third of the cases has one of
    them alone."""
    for part in THIRDS:
        names = chosen(part, monkeypatch, ("a.py::test", 99))
        assert {int(name[len("a.py::test[") : -1]) % 3 for name in names} == {0, 1, 2}


@pytest.mark.parametrize("wrong", ["3", "0/3", "4/3", "1/0", "a/b", "-1/3", ""])
def test_a_part_is_one_of_several(wrong: str) -> None:
    with pytest.raises(pytest.UsageError, match="K/N"):
        Part.read(wrong)
    assert str(Part.read("2/3")) == "2/3"


def test_long_streams_are_cut_at_fewer_places(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = b"data: x\n\n" * 200
    seen: set[int] = set()
    for part in THIRDS:
        monkeypatch.setattr(examples, "part", part)
        places = cuts.places(stream)
        assert {0, 7, 8, len(stream)} <= set(places) < set(range(len(stream) + 1))
        seen.update(places)
    assert seen == set(range(len(stream) + 1))
