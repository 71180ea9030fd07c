"""Tables within one test: every case is tried, and every one that fails is named."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from support import cases, examples
from support.cases import each


def tried(test: Any, **fixtures: Any) -> list[Any]:
    """What a test that notes its cases has noted."""
    noted: list[Any] = []
    test(noted=noted, **fixtures)
    return noted


def test_tables_above_each_other_are_multiplied_and_the_rest_are_fixtures() -> None:
    @each("a", [1, 2])
    @each(("b", "c"), [("x", 3), ("y", 4)])
    def test(noted: list[Any], b: str, a: int, c: int) -> None:
        noted.append((a, b, c))

    assert list(inspect.signature(test).parameters) == ["noted"]
    assert tried(test) == [(1, "x", 3), (1, "y", 4), (2, "x", 3), (2, "y", 4)]


def test_of_three_tables_every_two_values_meet_and_with_all_every_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examples, "ALL", False)

    @each("a", range(4))
    @each("b", [1, 1, 2], ids=str)
    @each("c", "xy")
    def test(noted: list[Any], a: int, b: int, c: str) -> None:
        noted.append((a, b, c))

    some = tried(test)
    assert len(some) < 24
    for first, second, pairs in ((0, 1, 8), (0, 2, 8), (1, 2, 4)):
        assert len({(case[first], case[second]) for case in some}) == pairs
    assert sum(b == 1 for _, b, _ in some) >= 8
    monkeypatch.setattr(examples, "ALL", True)
    assert len(tried(test)) == 24


def test_each_failing_case_is_named_and_the_others_are_tried() -> None:
    @each("a", [1, 2, 3, 4], ids=["one", "two", "three", "four"])
    def test(noted: list[Any], a: int) -> None:
        noted.append(a)
        if a == 4:
            pytest.fail("four is bad")
        assert a != 2

    noted: list[Any] = []
    with pytest.raises(BaseExceptionGroup) as caught:
        test(noted=noted)
    assert noted == [1, 2, 3, 4]
    assert caught.value.message == "2 of 4 cases failed:\n  two\n  four"
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["In the case: two"],
        ["In the case: four"],
    ]


def test_a_case_may_be_skipped_but_not_all() -> None:
    @each("a", [1, 2])
    def test(least: int, a: int) -> None:
        if a < least:
            pytest.skip("too small")
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup, match="1 of 1 cases failed:\n  2"):
        test(least=2)
    with pytest.raises(pytest.skip.Exception):
        test(least=3)

    @each("a", [])
    def empty(a: int) -> None: ...

    with pytest.raises(AssertionError, match="without cases"):
        empty()


def test_a_sample_leaves_out_cases_of_long_tables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(length: int) -> Any:
        @each("a", range(length))
        def test(noted: list[Any], a: int) -> None:
            noted.append(a)

        return test

    monkeypatch.setattr(cases, "STEP", 4)
    assert len(tried(table(8))) == 8
    assert len(tried(table(40))) == 10
    assert 12 <= len(tried(table(1_000))) <= 13


def test_cases_are_chosen_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    @each("a", ["red", "green", "grey"])
    def test(noted: list[Any], a: str) -> None:
        noted.append(a)

    monkeypatch.setattr(cases, "ONLY", "gr")
    assert tried(test) == ["green", "grey"]
