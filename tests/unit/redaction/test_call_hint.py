"""What a call's path or command line says of the secrets in its output."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.redaction import redactor
from support.examples import examples

WORDS = ".env id_rsa secrets env set printenv kubectl get secret git log -C map .pem api_key .json sha256sum"
PIECES = st.sampled_from(
    [
        *WORDS.split(),
        "\u017fha256sum",
        "\u212aubectl",
        "v\u0131rsa",
        "sha٣sum",
        *"é—✅٣\"'/|; \t\n\v\x1c\xa0\x00\u2003\ud800",
    ]
)


@settings(max_examples=examples(300))
@given(st.lists(PIECES, max_size=9).map("".join))
def test_hints_are_found_as_their_patterns_say(text: str) -> None:
    for words in (redactor._LOUD, redactor._QUIET):
        assert words.stand_in(text) is (words._pattern.search(text) is not None)


def test_a_hint_that_fails_is_no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(call: str) -> None:
        raise ValueError(call)

    monkeypatch.setattr(redactor, "printed", fail)
    assert redactor.read_hint("cat a-path-that-no-other-test-asks-for") == redactor.Hint()


@pytest.mark.parametrize(
    "call", ["cat secrets/token\udce9", "secrets/a\udc00/id_rsa", "cat db\udce9/password.txt"]
)
def test_an_unpaired_surrogate_hides_no_file_of_secrets(call: str) -> None:
    assert redactor.read_hint(call).loud or redactor.read_hint(call).printed is not None
