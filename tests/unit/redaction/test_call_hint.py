"""A call's path or command line gives hints for the search of its output."""

from __future__ import annotations

import pytest

from penumbra.redaction import LIBRARY_KEY, redactor
from penumbra.redaction.redactor import Redactor

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


REDACTOR = Redactor(LIBRARY_KEY)
ACCOUNTS = """root:x:0:0:root:/root:/bin/bash
sync:x:4:65534:sync:/bin:/bin/sync
_apt:x:100:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("pwd", "/workspace/project-7f3a9c/src__eps\n(bash) bash-$"),
        ("pwd", "/testbed"),
        ("cd src && pwd", "/testbed/src"),
        ("cat /etc/passwd", ACCOUNTS),
        ("/etc/passwd", ACCOUNTS),
        ("cat .env", "REDIS_URL=redis://localhost:6379/0\nMONGO_URL=mongodb://db:27017/shop_2\n"),
        ("env", "BASE=https://api.example.com:8443/v1/orders\n"),
        ("curl -F file=@printenv.pl http://localhost/", ACCOUNTS),
        ("env", "COPILOT_CLI_BINARY_VERSION=1.0.64\nDB_HOST=192.168.133.114\n"),
    ],
)
def test_nothing_is_taken_out(call: str, text: str) -> None:
    assert REDACTOR.redact(text, call).text == text


@pytest.mark.parametrize("call", ["password", "cat db_passwd", "/run/secrets/pwd", "gh auth token"])
def test_what_prints_a_secret_is_still_known(call: str) -> None:
    assert REDACTOR.redact("q8Zk2mVt41Lx9RwPa7Bc\n", call).counts


def test_a_token_in_an_address_is_one() -> None:
    for url in ("redis://:q8Zk2mVt41Lx9RwPa7Bc@db:6379/0", "https://hooks.example.com/q8Zk2mVt41Lx9RwPa7Bc"):
        assert REDACTOR.redact(f"HOOK={url}\n", "cat .env").counts


@pytest.mark.parametrize("call", ["printenv", "printenv; ls", "cd x && printenv", "(printenv)"])
def test_an_environment_is_still_loud(call: str) -> None:
    assert REDACTOR.redact("ROUTING_KEY=q8Zk2mVt41Lx9RwPa7Bc\n", call).counts
