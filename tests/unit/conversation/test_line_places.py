"""Where the lines of earlier texts stand."""

from __future__ import annotations

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
