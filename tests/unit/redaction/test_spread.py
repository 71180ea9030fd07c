"""A value that is found in one place of a text is found in all places, for any division of the text."""

import random

import pytest

from penumbra.redaction import span
from penumbra.redaction.caller_values import CallerValues
from penumbra.redaction.span import Rank, Span
from support.work_counts import calls

MARK = "[REDACTED:password:abcdef]"


def found(data: bytes, values: list[bytes]) -> list[tuple[int, int]]:
    places = [(data.index(value), len(value)) for value in values]
    known = [Span(at, at + size, "x", "x", Rank.GENERIC, True, b"") for at, size in places]
    return [(span.start, span.end) for span in span.elsewhere(data, known)]


@pytest.mark.parametrize("seed", range(20))
def test_pieces_give_what_the_whole_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    values = sorted({bytes(chance.choices(b"ab-", k=chance.randrange(8, 20))) for _ in range(6)})
    parts = [*values, *(chance.choice([*values, b"ab", b" ", b"-"]) for _ in range(300))]
    data = b"".join(parts)
    whole = found(data, values)
    assert len(whole) > len(values)
    monkeypatch.setattr(span, "PIECE", 1)
    assert found(data, values) == whole


def test_many_values_are_looked_for_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [b"value-%04d" % number for number in range(500)]
    data = b"\n".join([*values, *reversed(values)])
    monkeypatch.setattr(span, "BATCH", 100)
    assert sorted(found(data, values)) == [(at, at + 10) for at in range(0, len(data), 11)]


def test_values_of_a_caller_beside_placeholders_take_work_that_grows_with_the_text() -> None:
    values = CallerValues()
    values.learn(b"caller", {MARK: "swordfish-x9y"})
    clean, rows = f"a {MARK}\n{MARK}\n", f"a swordfish-x9y\n{MARK}\n"
    assert values.without(b"caller", rows * 3).text == clean * 3
    assert calls(values.without, b"caller", rows * 1_000) < 11 * calls(values.without, b"caller", rows * 100)
