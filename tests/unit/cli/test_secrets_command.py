"""`penumbra secrets try` lists replacements with their rules and reasons."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penumbra import user_rules
from penumbra.cli import secrets as command
from penumbra.cli.command import Failure
from penumbra.store.key_file import installation_key

TOKEN = "gh" + "p_lqcPuQybgKxtzX17jVL0GAPxirppHx92KGBZ"
TEXT = f"one\nGITHUB_TOKEN={TOKEN}\nDB_PASSWORD=n0t-a-Real1\n"


@pytest.fixture
def tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Any]:
    def run(text: str, *arguments: str, **environment: str) -> str:
        monkeypatch.setenv("PENUMBRA_DATABASE", str(tmp_path / "penumbra.sqlite"))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        stdin = SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(text.encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert command.main(["try", *arguments]) == 0
        return capsys.readouterr().out

    yield run
    user_rules.use(None)


def test_each_replacement_is_named(tried: Any) -> None:
    out = tried(TEXT).split("\n")
    assert out[0].startswith("line 2: [REDACTED:github-token:")
    assert out[0].endswith("by github-token: has this form (rules/secrets/code-hosts.yaml)")
    assert out[1].startswith("line 3: [REDACTED:password:")
    assert out[1].endswith("for 11 characters, by name-password: follows a telling name")
    assert out[2] == "2 secrets: github-token 1, name-password 1"
    assert TOKEN not in "".join(out)


def test_a_trial_writes_no_file_and_gives_lasting_ids_if_there_is_a_key(tried: Any, tmp_path: Path) -> None:
    first = tried(TEXT)
    assert list(tmp_path.iterdir()) == []
    assert "allow=rule:… or path:…," in first
    assert first.endswith("are this trial's own: they last once a proxy has made its key.\n")
    installation_key(tmp_path / "penumbra.key")
    second = tried(TEXT)
    assert "allow=id:… (the end of its placeholder), rule:" in second
    assert tried(TEXT) == second
    assert "this trial's own" not in second


def test_the_redacted_text_is_printed_and_allowed_values_stay(tried: Any) -> None:
    out = tried(TEXT, "--text", PENUMBRA_SECRETS_ALLOW="value:n0t-.*")
    assert out.split("\n")[2] == "DB_PASSWORD=n0t-a-Real1"
    assert TOKEN not in out
    assert tried("nothing\n") == "Nothing would be replaced.\n"


def test_a_rule_of_the_users_folder_is_marked(tried: Any, tmp_path: Path) -> None:
    (tmp_path / "rules" / "secrets").mkdir(parents=True)
    (tmp_path / "rules" / "secrets" / "acme.yaml").write_text(
        "label: acme-key\nrules:\n  - id: acme-deploy-key\n    regex: 'acme_[a-z0-9]{20}'\n    anchors: [acme_]\n"
    )
    out = tried("use acme_" + "q8zk2mvt41lx9rwpz0bt now\n", PENUMBRA_RULES=str(tmp_path / "rules"))
    assert "[REDACTED:acme-key:" in out
    assert "by acme-deploy-key: has this form (secrets/acme.yaml, of your folder)" in out


@pytest.mark.parametrize("arguments", [[], ["show"], ["try", "--colour"]])
def test_wrong_arguments_fail(arguments: list[str]) -> None:
    with pytest.raises(Failure):
        command.main(arguments)


def test_a_wrong_entry_of_the_list(tried: Any) -> None:
    with pytest.raises(Failure, match="SECRETS_ALLOW: got 'red', allowed: id:"):
        tried(TEXT, PENUMBRA_SECRETS_ALLOW="red")
