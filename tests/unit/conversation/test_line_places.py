"""Where the lines of earlier texts stand."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.conversation.earlier_lines import LinePlaces, is_telling
from support.examples import examples

pool = st.sampled_from(
    ["one line of some texts", "another line of them", "short", "    blanks     ", "", None]
)


@settings(max_examples=examples(100))
@given(st.lists(st.lists(pool, max_size=20), max_size=12))
def test_the_latest_places_are_told(texts: list[list[str | None]]) -> None:
    places: LinePlaces[int] = LinePlaces()
    every: dict[str | None, list[tuple[int, int]]] = {}
    for number, lines in enumerate(texts):
        places.note(number, lines)
        for position, line in enumerate(lines):
            every.setdefault(line, []).append((number, position))
        for line in ("one line of some texts", "short", "    blanks     ", None):
            found = every.get(line, []) if line is not None and is_telling(line) else []
            assert list(places.latest_first(line)) == found[-24:][::-1]


class _Read(list[str | None]):
    """Lines that count how often they are read."""

    times = 0

    def __iter__(self) -> Iterator[str | None]:
        self.times += 1
        return super().__iter__()


def test_a_line_of_many_texts_is_looked_up_in_the_latest_ones_only() -> None:
    places: LinePlaces[int] = LinePlaces()
    texts = [_Read(["a line that all texts have", f"line of text {number}"]) for number in range(500)]
    for number, text in enumerate(texts):
        places.note(number, text)
    noted = sum(text.times for text in texts)
    found = list(places.latest_first("a line that all texts have"))
    assert found[0] == (499, 0)
    assert sum(text.times for text in texts) - noted == len(found) < 50
