"""Rule files are checked against schemas; errors name file, rule and key."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from penumbra import rules
from penumbra.compress.calls.classify import classify
from penumbra.compress.calls.family_rules import families
from penumbra.compress.families.family import family
from penumbra.compress.families.shorten import apply
from penumbra.config.parsers import SettingsError
from penumbra.config.settings import load
from penumbra.rule_schemas import RuleError, names
from penumbra.rule_schemas.schema import broken_patterns, problems
from support.own_tables import SCHEMAS, schema_of

FILES = sorted(str(path.relative_to(rules.directory())) for path in rules.directory().rglob("*.yaml"))


@pytest.mark.parametrize("name", FILES)
def test_the_packaged_rules_are_valid(name: str) -> None:
    content = rules.parse(rules.directory() / name, name)
    assert list(problems(schema_of(name), content)) == []
    assert list(broken_patterns(schema_of(name), content)) == []


@pytest.mark.parametrize("name", [name for name in FILES if "/" not in name])
def test_our_files_mean_the_same_to_every_reader_of_yaml(name: str) -> None:
    """libyaml, which is not installed everywhere, takes more than PyYAML's own."""
    text = (rules.directory() / name).read_text(encoding="utf-8")
    assert yaml.load(text, yaml.SafeLoader) == rules.parse(rules.directory() / name, name)


def test_every_schema_has_a_file() -> None:
    for name in (*names(), *SCHEMAS):
        assert (rules.directory() / name).exists(), name


def test_a_file_that_is_never_read_has_no_schema() -> None:
    with pytest.raises(RuleError, match=r"nobody\.yaml: no file of this name is read, allowed: logs\.yaml"):
        schema_of("nobody.yaml")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("thinking.yaml", [], "got a list, allowed: a mapping"),
        ("thinking.yaml", {"formats": "x", "unbound": [], "examples": []}, "formats: got 'x', allowed: a list of texts"),
        ("windows.yaml", {"most": -1}, "most: got -1, allowed: a number from 0"),
        ("tools.yaml", {"agents": {"mine": {"reed": ["x"]}}}, "agents.mine.reed: unknown key, did you mean read?"),
        ("tools.yaml", {"agents": {"mine": {"read": "x"}}}, "agents.mine.read: got 'x', allowed: a list of texts"),
        ("tools.yaml", {"verbs": [{"tools": ["x"]}]}, "verbs[0].argument: missing, allowed: a text"),
        (
            "providers.yaml",
            {"apis": {"x": {"format": "y", "kind": "call", "path": "z"}}},
            "apis.x.kind: got 'call', allowed: messages or count_tokens or compact",
        ),
        ("commands/x.yaml", {"families": [{"name": "x"}]}, "families[0].what: missing, allowed: a text"),
        ("secrets/x.yaml", {}, "rules: missing, allowed: a list of mappings"),
        ("advisories.yaml", {"date": "soon", "holes": [], "examples": []}, "date: got 'soon', allowed: a date"),
    ],
)  # fmt: skip
def test_invalid_rules_are_reported(name: str, content: Any, expected: str) -> None:
    assert next(problems(schema_of(name), content)) == expected


def test_every_error_is_reported() -> None:
    content = {"families": [{"name": 1, "steps": [{"fold": "x", "mim": 4}, {"drop": 3}]}]}
    assert list(problems(schema_of("commands/x.yaml"), content)) == [
        "families[0].name: got 1, allowed: a text",
        "families[0].steps[0].mim: unknown key, did you mean min?",
        "families[0].steps[0].say: missing, allowed: a text",
        "families[0].steps[1].drop: got 3, allowed: a pattern of RE2 or a list of them",
        "families[0].what: missing, allowed: a text",
    ]


def test_a_pattern_that_is_none_of_re2s_is_reported() -> None:
    content = {"families": [{"name": "x", "what": "y", "steps": [{"drop": ["a", "b(?=c)"]}]}]}
    (output,) = broken_patterns(schema_of("commands/x.yaml"), content)
    assert output.startswith("families[0].steps[0].drop[1]: got 'b(?=c)', allowed: a pattern of RE2 (")


STATUS = "".join(f"?? src/api/{name}.py\n" for name in range(40))


def forget() -> None:
    """Empty the caches of rules."""
    rules.add({"x": None})
    rules.add({})


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that adds a family to a file of Penumbra's rules."""

    def put(rule: dict[str, Any]) -> None:
        parse = rules.parse

        def with_rule(path: Any, name: str) -> Any:
            content = parse(path, name)
            if name == "commands/git.yaml":
                content["families"].insert(0, rule)
            return content

        monkeypatch.setattr(rules, "parse", with_rule)
        forget()

    yield put
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"fold": "x"}, "commands/git.yaml: broken: steps[0].say: missing, allowed: a text"),
        (
            {"fold": "x", "say": "y", "mim": 4},
            "commands/git.yaml: broken: steps[0].mim: unknown key, did you mean min?",
        ),
        ({"drop": "("}, "command family broken: steps[0]: missing ), unterminated subpattern at position 0"),
    ],
)
def test_a_bad_step_switches_off_its_own_family_only(
    broken: Any, caplog: pytest.LogCaptureFixture, step: dict[str, Any], expected: str
) -> None:
    broken({"name": "broken", "what": "x", "match": ["broken"], "steps": [step]})
    caplog.set_level(logging.WARNING)
    assert family("broken") is None
    shortened = apply(STATUS, classify("Bash", {"command": "git status -s"}), lossy=True)
    assert shortened is not None
    assert shortened.family == "git-status"
    assert len(families()) > 40
    assert apply("x\n" * 900, classify("Bash", {"command": "broken"}), lossy=True) is None
    assert [record.getMessage() for record in caplog.records] == [f"Penumbra leaves a rule out: {expected}"]


RACE = """
import sys, threading
from penumbra import rules
from penumbra.rule_schemas import names, schema, schema_of
sys.setswitchinterval(1e-6)
files = [(schema_of(name), rules.parse(rules.directory() / name, name)) for name in names() if name.endswith(".yaml")]
begin, read = threading.Barrier(4), []
def convert():
    for kind, content in files:
        begin.wait()
        read.append(schema.convert(kind, content, "x"))
threads = [threading.Thread(target=convert) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(read) - 4 * len(files))
"""


def test_threads_may_read_rules_at_once():
    """Without a lock most runs end with signal 11."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "- " * 100_000, "{a: " * 100_000, "? " * 100_000])
def test_too_deeply_nested_rules_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(text)
    with pytest.raises(RuleError, match=r"^x: no YAML: nested deeper than 100$"):
        rules.parse(path, "x")
    with pytest.raises(SettingsError, match="nested deeper than 100"):
        load({}, {}, str(path))


def test_too_large_rules_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text("#" * (rules.MOST_BYTES + 1))
    with pytest.raises(RuleError, match="more than 4,000,000 bytes"):
        rules.parse(path, "x")
    path.write_text("#" * rules.MOST_BYTES)
    assert rules.parse(path, "x") is None


def test_rules_within_the_limits_are_read(tmp_path: Path) -> None:
    path = tmp_path / "usual.yaml"
    depth = rules.DEEPEST - 1
    path.write_text("a: " + "[" * depth + "]" * depth + "\r\nb: '[[[['\n")
    assert rules.parse(path, "x")["b"] == "[[[["
