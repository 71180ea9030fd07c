"""Libraries are found by what they have noted, lent to one at a time, and bounded."""

from penumbra.conversation import back_references
from penumbra.conversation.back_references import Beginnings, LineIndex, LineIndexes

ONE, TWO = b"1" * 32, b"2" * 32
A, B, C = (bytes([number]) * 24 for number in range(3))


def beginnings(scope, texts):
    made = Beginnings(scope)
    for text in texts:
        made.take_in(text, 1)
    return made.hashes


def test_beginnings_go_on_by_themselves():
    made = Beginnings(ONE)
    made.take_in(A, 3)
    other = made.copy()
    made.take_in(B, 4)
    other.take_in(C, 5)
    assert made.hashes == beginnings(ONE, [A, B])
    assert other.hashes == beginnings(ONE, [A, C])
    assert (made.characters, other.characters) == ([3, 7], [3, 8])


def test_the_longest_beginning_is_found_and_lent_once():
    kept = LineIndexes()
    one, two = LineIndex(), LineIndex()
    kept.give(beginnings(ONE, [A])[-1], one, 10)
    kept.give(beginnings(ONE, [A, B])[-1], two, 20)
    assert kept.take(beginnings(ONE, [A, B, C])) == (two, 2)
    assert kept.take(beginnings(ONE, [A, B, C])) == (one, 1)
    assert kept.take(beginnings(ONE, [A, B, C]))[1] == 0


def test_other_sequences_do_not_find_it():
    kept = LineIndexes()
    kept.give(beginnings(ONE, [A, B])[-1], LineIndex(), 10)
    for texts in ([B, A], [A], [C, A, B], []):
        assert kept.take(beginnings(ONE, texts))[1] == 0
    assert kept.take(beginnings(ONE, [A, B]))[1] == 2


def test_another_caller_does_not_find_it():
    kept = LineIndexes()
    kept.give(beginnings(ONE, [A, B])[-1], LineIndex(), 10)
    assert kept.take(beginnings(TWO, [A, B]))[1] == 0
    assert kept.take(beginnings(ONE, [A, B]))[1] == 2


def test_the_number_and_the_size_are_bounded(monkeypatch):
    monkeypatch.setattr(back_references, "_CONVERSATIONS", 2)
    monkeypatch.setattr(back_references, "_CHARACTERS", 100)
    kept = LineIndexes()
    for mark in (A, B, C):
        kept.give(beginnings(ONE, [mark])[-1], LineIndex(), 10)
    assert [kept.take(beginnings(ONE, [mark]))[1] for mark in (A, B, C)] == [0, 1, 1]
    kept.give(beginnings(ONE, [A])[-1], LineIndex(), 101)
    assert kept.take(beginnings(ONE, [A]))[1] == 0
    kept.give(beginnings(ONE, [A])[-1], LineIndex(), 60)
    kept.give(beginnings(ONE, [B])[-1], LineIndex(), 60)
    assert [kept.take(beginnings(ONE, [mark]))[1] for mark in (A, B)] == [0, 1]
