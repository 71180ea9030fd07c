"""References, and what stands in front of a shortened text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penumbra.apis.base import Tools
from penumbra.expand import reference
from penumbra.expand import tool as injected_tool

KEY = b"k" * 32


@given(st.text(), st.binary(max_size=40))
def test_a_ref_is_a_pure_function_of_key_scope_and_text(text: str, scope: bytes) -> None:
    ref = reference.ref(KEY, scope, text)
    assert re.fullmatch(r"shadow_[0-9a-f]{32}", ref)
    assert ref == reference.ref(KEY, scope, text)
    assert len({ref, reference.ref(b"o" * 32, scope, text), reference.ref(KEY, scope + b"x", text)}) == 3
    assert reference.ref(KEY, scope, text + "x") != ref


def test_scope_and_text_do_not_run_into_each_other() -> None:
    assert reference.ref(KEY, b"a", "bc") != reference.ref(KEY, b"ab", "c")


def test_refs_stay_the_same_in_later_versions() -> None:
    """They stand in conversations that are still going on."""
    assert reference.ref(KEY, b"scope", "text") == "shadow_5d1ad8deddb3906d9991e95e6423cf97"


@pytest.mark.parametrize(
    "text", ["", "shadow_", "shadow_" + "g" * 32, "x shadow_" + "a" * 32, "shadow_" + "A" * 32]
)
def test_what_is_no_ref(text: str) -> None:
    assert not reference.is_ref(text)
    assert reference.is_ref("shadow_" + "a" * 32)


def test_prefix() -> None:
    ref = "shadow_" + "a" * 32
    assert reference.prefix(ref, "expand_context", False) == f"<<<SHADOW:{ref}>>>\n"
    assert reference.prefix(ref, "expand_context", True) == (
        f"<<<SHADOW:{ref}>>>\n[Shortened. expand_context with this id gives the full text.]\n"
    )
    for hint in (True, False):
        references = reference.References(KEY, b"scope", "expand_context", hint)
        assert len(references.overhead()) == len(references.prefix(references.ref("text")))


def test_where_the_phantom_belongs() -> None:
    def name(*names: str, own: int = 1, forced: bool = False, continuable: bool = True) -> str | None:
        return injected_tool.name_for(Tools(names, own, forced, continuable))

    assert name("a") == "expand_context"
    assert name("a", "expand_context") == "penumbra_expand_context"
    assert name(*injected_tool.NAMES) is None
    assert name("a", own=0) is None
    assert name("a", forced=True) is None
    assert name("a", "b", forced=True) == "expand_context"
    assert name("a", continuable=False) is None


def test_the_declaration_is_constant() -> None:
    tool = injected_tool.tool("expand_context")
    assert tool == injected_tool.tool("expand_context")
    assert b'"required":["id"]' in tool.parameters
