"""A call's path or command line gives hints for the search of its output."""

import pytest

from penumbra.redaction import redactor

LOUD = "cat .env", "cat ~/.ssh/id_rsa", "kubectl get -o yaml secret", "env | sort", "SET", "cat api_keys.json"
QUIET = "sha256sum *.whl", "git --no-pager log", "cat package-lock.json", "cat web/app.min.js"
NEITHER = "cat main.py", "git status", "asha256sum", "cat environment.md", "ls settings"


@pytest.mark.parametrize("call", [*LOUD, *QUIET, *NEITHER])
def test_a_call_tells_how_to_read_its_output(call: str) -> None:
    hint = redactor.read_hint(call)
    assert (hint.loud, hint.quiet) == (call in LOUD, call in QUIET)


def test_a_hint_that_fails_is_no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(call: str) -> None:
        raise ValueError(call)

    monkeypatch.setattr(redactor, "printed_by", fail)
    assert redactor.read_hint("cat .env-that-no-other-test-asks-for .env") == redactor.Hint()


@pytest.mark.parametrize(
    "call", ["cat secrets/token\udce9", "secrets/a\udc00/id_rsa", "cat db\udce9/password.txt"]
)
def test_an_unpaired_surrogate_hides_no_file_of_secrets(call: str) -> None:
    assert redactor.read_hint(call).loud or redactor.read_hint(call).printed is not None
