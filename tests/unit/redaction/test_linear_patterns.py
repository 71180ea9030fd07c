"""`Linear` gives the same matches as RE2 itself."""

import re

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import linear
from penumbra.linear import Linear
from penumbra.redaction.shared_patterns import late
from support.examples import examples

LATIN = re2.Options()
LATIN.encoding = re2.Options.Encoding.LATIN1
PATTERNS = (rb"b*", rb"(a)|(b)", rb"\bab+", rb"(?i)A(b)?\z", rb"[^a]{2}", rb"a(?:b|\n)*?b")
TEXTS = st.text(alphabet="abB \n\xe9", max_size=12).map(lambda text: text.encode("latin-1"))


def by_package(pattern: bytes) -> Linear:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linear, "HAS_ENGINE", False)
        return Linear(pattern, LATIN)


@pytest.mark.skipif(not linear.HAS_ENGINE, reason="the package hides its engine")
@given(st.sampled_from(PATTERNS), TEXTS, st.integers(0, 14), st.none() | st.integers(0, 14))
@settings(max_examples=examples(300))
def test_both_ways_find_the_same(pattern: bytes, text: bytes, start: int, end: int | None) -> None:
    engine, package, whole = Linear(pattern, LATIN), re2.compile(pattern, LATIN), range(3)

    def spans(match: object) -> object:
        groups = [group for group in whole if group <= engine.groups]
        return [(match.span(group), match[group]) for group in groups] if match else None  # type: ignore[attr-defined, index]

    for asked in ("search", "match"):
        assert spans(getattr(engine, asked)(text, start, end)) == spans(
            getattr(package, asked)(text, start, end)
        )
    assert spans(engine.fullmatch(text)) == spans(package.fullmatch(text))
    assert [*map(spans, engine.finditer(text, start, end))] == [
        *map(spans, package.finditer(text, start, end))
    ]
    first = package.search(text)
    assert engine.place(text, 0, len(text)) == (first.span() if first else (-1, -1))


@given(st.sampled_from(PATTERNS), TEXTS)
@settings(max_examples=examples(60))
def test_without_the_engine_it_is_the_package(pattern: bytes, text: bytes) -> None:
    found = [match.span() for match in by_package(pattern).finditer(text)]
    assert found == [match.span() for match in re2.compile(pattern, LATIN).finditer(text)]


def test_a_broken_pattern_is_refused() -> None:
    with pytest.raises(re2.error):
        Linear(b"(", LATIN)


def test_a_late_pattern_is_a_pattern() -> None:
    pattern = late(rb"(a+)b", re.IGNORECASE)
    assert pattern.pattern == rb"(a+)b"
    found = pattern.search(b"xAab")
    assert found is not None
    assert found.span(1) == (1, 3)
    assert pattern.split(b"1ab2") == [b"1", b"a", b"2"]
    assert [each[0] for each in pattern.finditer(b"ab AB")] == [b"ab", b"AB"]
