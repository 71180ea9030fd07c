"""References and the first lines of shortened texts."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penumbra.apis.base import Tools
from penumbra.expand import reference

KEY = b"k" * 32


def ref_of(text: str, scope: bytes, key: bytes = KEY) -> str:
    return reference.References(key, scope, "expand_context", True).ref(text)


@given(st.text(), st.binary(max_size=40))
def test_a_ref_is_a_pure_function_of_key_scope_and_text(text: str, scope: bytes) -> None:
    ref = ref_of(text, scope)
    assert re.fullmatch(r"shadow_[0-9]{18}", ref)
    assert ref == ref_of(text, scope)
    assert len({ref, ref_of(text, scope, b"o" * 32), ref_of(text, scope + b"x")}) == 3
    assert ref_of(text + "x", scope) != ref


def test_scope_and_text_do_not_run_into_each_other() -> None:
    assert ref_of("bc", b"a") != ref_of("c", b"ab")


def test_refs_stay_the_same_in_later_versions() -> None:
    """Conversations that are still going on contain references of earlier versions."""
    long = "shadow_5d1ad8deddb3906d9991e95e6423cf97"
    assert reference.whole(KEY, b"scope", "text") == long
    assert ref_of("text", b"scope") == reference.brief(long) == "shadow_653166308409724823"


def test_the_first_of_two_texts_has_the_common_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "MANY", 1)
    references = reference.References(KEY, b"scope", "expand_context", False)
    assert references.ref("one") == reference.SAMPLE
    assert references.ref("two") == references.whole("two")
    assert [references.ref("one"), references.ref("two")] == [reference.SAMPLE, references.whole("two")]


def test_a_reference_of_the_past_stays_that_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "MANY", 1)
    past = {reference.SAMPLE: "one"}
    references = reference.References(KEY, b"scope", "expand_context", False, carried=past.get)
    assert references.ref("two") == references.whole("two")
    assert references.ref("one") == reference.SAMPLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "shadow_",
        "shadow_" + "g" * 32,
        "x shadow_" + "a" * 32,
        "shadow_" + "A" * 32,
        "shadow_" + "a" * 18,
        "shadow_" + "0" * 17,
    ],
)
def test_malformed_references(text: str) -> None:
    assert not reference.is_ref(text)
    assert reference.brief(text) == text
    assert reference.is_ref("shadow_" + "a" * 32)
    assert reference.is_ref("shadow_" + "0" * 18)


def test_prefix() -> None:
    ref = "shadow_" + "0" * 18
    assert reference.prefix(ref, "expand_context", False) == f"<<<SHADOW:{ref}>>>\n"
    assert reference.prefix(ref, "expand_context", True) == (
        f"<<<SHADOW:{ref}>>>\n[Shortened. Full text: expand_context.]\n"
    )
    for hint, is_brief in product((True, False), repeat=2):
        references = reference.References(KEY, b"scope", "expand_context", hint, is_brief)
        assert len(references.overhead()) == len(references.prefix(references.ref("text")))


def test_requests_that_get_the_injected_tool() -> None:
    def name(*names: str, own: int = 1, forced: bool = False, continuable: bool = True) -> str | None:
        return reference.name_for(Tools(names, own, forced, continuable))

    assert name("a") == "expand_context"
    assert name("a", "expand_context") == "penumbra_expand_context"
    assert name(*reference.NAMES) is None
    assert name("a", own=0) is None
    assert name("a", forced=True) is None
    assert name("a", "b", forced=True) == "expand_context"
    assert name("a", continuable=False) is None
