"""Libraries are found by what they have noted, lent to one at a time, and bounded."""

from penumbra.history import shelves
from penumbra.history.reread import Library
from penumbra.history.shelves import Shelves

ONE, TWO = b"1" * 32, b"2" * 32
A, B, C = (bytes([number]) * 24 for number in range(3))


def test_the_longest_beginning_is_found_and_lent_once():
    kept = Shelves()
    one, two = Library(), Library()
    kept.give(ONE, [A], one, 10)
    kept.give(ONE, [A, B], two, 20)
    assert kept.take(ONE, [A, B, C]) == (two, 2)
    assert kept.take(ONE, [A, B, C]) == (one, 1)
    assert kept.take(ONE, [A, B, C])[1] == 0


def test_other_sequences_do_not_find_it():
    kept = Shelves()
    kept.give(ONE, [A, B], Library(), 10)
    for texts in ([B, A], [A], [C, A, B], []):
        assert kept.take(ONE, texts)[1] == 0
    assert kept.take(ONE, [A, B])[1] == 2


def test_another_caller_does_not_find_it():
    kept = Shelves()
    kept.give(ONE, [A, B], Library(), 10)
    assert kept.take(TWO, [A, B])[1] == 0
    assert kept.take(ONE, [A, B])[1] == 2


def test_the_number_and_the_size_are_bounded(monkeypatch):
    monkeypatch.setattr(shelves, "_CONVERSATIONS", 2)
    monkeypatch.setattr(shelves, "_CHARACTERS", 100)
    kept = Shelves()
    for mark in (A, B, C):
        kept.give(ONE, [mark], Library(), 10)
    assert [kept.take(ONE, [mark])[1] for mark in (A, B, C)] == [0, 1, 1]
    kept.give(ONE, [A], Library(), 101)
    assert kept.take(ONE, [A])[1] == 0
    kept.give(ONE, [A], Library(), 60)
    kept.give(ONE, [B], Library(), 60)
    assert [kept.take(ONE, [mark])[1] for mark in (A, B)] == [0, 1]
    kept.give(ONE, [], Library(), 0)
