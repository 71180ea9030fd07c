"""`penumbra rules` explains the treatment of an output, and checks rules."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from penumbra import user_rules
from penumbra.cli import rules_command
from penumbra.cli.command import Failure
from penumbra.compress.families.examples import problems
from penumbra.rule_schemas.command_rules import CommandExample, CommandFile
from penumbra.rule_schemas.schema import convert
from support import examples

STRANGERS = Path(__file__).parents[2] / "support" / "strangers_rules"
[BAZEL] = yaml.safe_load((STRANGERS / "commands" / "bazel.yaml").read_text())["examples"]


@pytest.fixture(autouse=True)
def ours_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "100")
    yield
    user_rules.use(None)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that returns the output of `penumbra rules try` for a text."""

    def run(text: str | bytes, *arguments: str) -> str:
        data = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(data)))
        assert rules_command.main(["try", *arguments]) == 0
        return capsys.readouterr().out

    return run


def test_a_family_of_the_users(tried: Any) -> None:
    out = tried(BAZEL["text"], "bazel test //...", "--rules", str(STRANGERS))
    lines = out.split("\n")
    assert lines[:3] == ["call      Bash: bazel test //...", "category  bash", "family    bazel (yours)"]
    assert f"text      {len(BAZEL['text']):,} bytes, about " in out
    kept = f"command_family    {len(BAZEL['text']):,} → {len(BAZEL['gives'])} bytes, "
    assert [line.rpartition(": ")[2] for line in lines if line.startswith(kept)] == ["kept"]
    assert BAZEL["gives"] in out
    pasted = yaml.safe_load(out.partition("read it first:\n\n")[2])
    assert pasted == [BAZEL]


def test_the_example_holds(tried: Any) -> None:
    out = tried("".join(f"?? src/api/{n}.py\n" for n in range(12)), "git status -s", "--lossless")
    (example,) = yaml.safe_load(out.partition("read it first:\n\n")[2])
    assert list(problems(convert(CommandExample, example, ""))) == []


@pytest.mark.parametrize(
    ("line", "text", "family"),
    [
        ("pants test ::", "x", "none: no rule matches `pants test ::`"),
        ("cat a.py", "x", "none: the command shows a file, which the model may quote later"),
        ("git diff; git log", "x", "none: commands of several families printed it (git-diff, git-log)"),
        ("cd x", "x", "none: the call runs no command that prints something"),
        ("git diff", "x", "git-diff (ours), which does nothing here: no line matches any of shape.any"),
        ("git diff | grep x", "diff --git a/x b/x\n", "git-diff (ours), which does nothing here: its lines passed a filter, and the rule does not say `selected`"),
        ("vite build", "built in 3s", "bundler-js (ours), which does nothing here: it has no steps"),
    ],
)  # fmt: skip
def test_why_a_family_does_nothing(line: str, text: str, family: str, tried: Any) -> None:
    out = tried(text, line)
    output = out[out.index("family ") : out.index("text ")]
    assert " ".join(output.split()) == f"family {family}"


def test_a_family_to_begin_with(tried: Any, tmp_path: Path) -> None:
    out = tried("one\ntwo\n", "pants --no-x test ::")
    begun = yaml.safe_load(out.partition("describes it:\n\n")[2])
    assert begun["families"][0]["match"] == ["pants test"]
    assert convert(CommandFile, begun, "x").examples[0].text == "one\ntwo\n"
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "pants.yaml").write_text(yaml.safe_dump(begun))
    assert user_rules.use(tmp_path) == []


def test_secrets_are_not_shown(tried: Any) -> None:
    token = "ghp_" + "q8Zk2mVt41Lx9RwPz0bT6cJh3NsYdEuF7Ga1"
    out = tried(f"token {token}\n" * 40, "git status")
    assert token not in out
    assert "[REDACTED:" in out


@pytest.mark.parametrize(
    "text",
    ["a", "a\n", "a\n\n", "\na", " a\nb\n", "\n", "\n\n", "", "a\tb\n", "a \n b\n", "x: y", "null", "- a\n", "é\x85b\n", "\x1b[1m\n"],
)  # fmt: skip
def test_texts_come_back_from_yaml(text: str) -> None:
    example = {"family": "x", "call": text, "lossy": True, "text": text, "gives": None}
    assert yaml.safe_load(rules_command.as_yaml([example])) == [example]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["list"], "rules: got 'list', allowed: try, check"),
        (
            ["try", "--mode", "disabled"],
            "rules try: --mode: got 'disabled', allowed: safe, standard, aggressive",
        ),
        (["check", "a", "b"], "rules check: got 'b', allowed: folder"),
        (["check", "/nowhere"], "rules: got '/nowhere', allowed: a folder of rules, or off"),
    ],
)
def test_wrong_arguments(arguments: list[str], expected: str) -> None:
    with pytest.raises(Failure) as caught:
        rules_command.main(arguments)
    assert str(caught.value).startswith(expected)
    assert caught.value.code == 2


def test_check_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rules_command.main(["check", str(STRANGERS)]) == 0
    assert capsys.readouterr().out == f"All is well: {STRANGERS}.\n"
    (tmp_path / "tools.yaml").write_text("agents: {mine: {reed: [x]}}\nfamily: {}\n")
    assert rules_command.main(["check", str(tmp_path)]) == 1
    assert capsys.readouterr().out.split("\n")[:-1] == [
        f"{tmp_path}/tools.yaml: agents.mine.reed: unknown key, did you mean read?",
        f"{tmp_path}/tools.yaml: family: unknown key, did you mean families?",
    ]


def test_check_of_the_packaged_rules(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a part of the files is checked, since each file's examples have tests of their own."""
    failing = user_rules.failing
    monkeypatch.setattr(
        user_rules, "failing", lambda contents: failing(dict(examples.some(list(contents.items()))))
    )
    assert rules_command.main(["check"]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out == "All is well: our rules, and no folder of yours.\n"


def test_help_and_a_reader_that_goes_away() -> None:
    whole = [sys.executable, "-m", "penumbra", "rules"]
    helped = subprocess.run([*whole, "--help"], capture_output=True, text=True, check=True)
    assert helped.stdout == rules_command.USAGE
    shell = f"yes | head -50000 | {' '.join(whole)} try 'pants test' | head -1"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout == "call      Bash: pants test\n"
    assert done.stderr == ""
