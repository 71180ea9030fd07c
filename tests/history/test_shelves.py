"""Libraries are found by what they have noted, lent to one at a time, and bounded."""

from penumbra.history import shelves
from penumbra.history.reread import Library
from penumbra.history.shelves import Shelves

A, B, C = (bytes([number]) * 24 for number in range(3))


def test_the_longest_beginning_is_found_and_lent_once():
    kept = Shelves()
    one, two = Library(), Library()
    kept.give([A], one, 10)
    kept.give([A, B], two, 20)
    assert kept.take([A, B, C]) == (two, 2)
    assert kept.take([A, B, C]) == (one, 1)
    assert kept.take([A, B, C])[1] == 0


def test_other_sequences_do_not_find_it():
    kept = Shelves()
    kept.give([A, B], Library(), 10)
    for texts in ([B, A], [A], [C, A, B], []):
        assert kept.take(texts)[1] == 0
    assert kept.take([A, B])[1] == 2


def test_the_number_and_the_size_are_bounded(monkeypatch):
    monkeypatch.setattr(shelves, "_CONVERSATIONS", 2)
    monkeypatch.setattr(shelves, "_CHARACTERS", 100)
    kept = Shelves()
    for mark in (A, B, C):
        kept.give([mark], Library(), 10)
    assert [kept.take([mark])[1] for mark in (A, B, C)] == [0, 1, 1]
    kept.give([A], Library(), 101)
    assert kept.take([A])[1] == 0
    kept.give([A], Library(), 60)
    kept.give([B], Library(), 60)
    assert [kept.take([mark])[1] for mark in (A, B)] == [0, 1]
    kept.give([], Library(), 0)
