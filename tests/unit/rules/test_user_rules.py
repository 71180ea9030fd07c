"""The user's own rules: use, precedence, and lines about parts that are left out."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penumbra import rules, user_rules
from penumbra.apis import recognise
from penumbra.compress.calls.classify import classify
from penumbra.compress.calls.tools import category
from penumbra.compress.families.shorten import apply
from penumbra.redaction import redact
from penumbra.rule_schemas import RuleError

STRANGERS = Path(__file__).parents[2] / "support" / "strangers_rules"
SECRET = "acme_" + "q8zk2mvt41lx9rwpz0bt"
STATUS = "?? src/api/a.py\n?? src/api/b.py\n?? src/api/c.py\n?? src/api/d.py\n"


@pytest.fixture(autouse=True)
def ours_afterwards() -> Iterator[None]:
    yield
    user_rules.use(None)


def use(folder: Path, name: str, content: Any) -> list[str]:
    """Return the lines about a folder with this file, without the folder's name."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return [line.removeprefix(f"{folder}/") for line in user_rules.use(folder)]


def family(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "what": "x", "match": [name], **more}


def test_rules_of_a_stranger_hold_and_go() -> None:
    assert user_rules.use(STRANGERS) == []
    assert classify("acme_run", {"command": "bazel test //..."}).family == "bazel"
    assert category("acme_open") == "read"
    assert recognise.is_llm_host("llm.example.org")
    api = recognise.by_request_line("POST", "/acme/v9/talk")
    assert api is not None
    assert (api.id, api.format) == ("acme-chat", "openai_chat")
    assert SECRET not in redact(f"key {SECRET} here")
    user_rules.use(None)
    assert classify("Bash", {"command": "bazel test //..."}).family == "bazel-test"
    assert category("acme_open") == "other"
    assert not recognise.is_llm_host("llm.example.org")
    assert recognise.by_request_line("POST", "/acme/v9/talk") is None
    assert SECRET in redact(f"key {SECRET} here")


def test_a_users_family_replaces_the_packaged_one(tmp_path: Path) -> None:
    rule = family("git-status", match=["git status"], steps=[{"drop": r"\?\?.*"}])
    assert use(tmp_path, "commands/mine.yaml", {"families": [rule]}) == []
    shortened = apply(STATUS + "end", classify("Bash", {"command": "git status -s"}), lossy=True)
    assert shortened is not None
    assert shortened.text == "end"


def test_a_users_tools_and_errors_replace_the_packaged_ones(tmp_path: Path) -> None:
    assert category("Read") == "read"
    assert use(tmp_path, "tools.yaml", {"agents": {"mine": {"grep": ["Read", "WebFetch"]}}}) == []
    assert [category(name) for name in ("Read", "WebFetch", "read", "Write")] == [
        "grep",
        "grep",
        "read",
        "write",
    ]
    content = {"providers": {"mine": ["llm.example.org"]}, "errors": {"mine": "anthropic"}}
    assert use(tmp_path, "providers.yaml", content) == []
    assert b'"type":"error"' in recognise.error_body("llm.example.org", 400, "no").replace(b" ", b"")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("commands/x.yaml", {"families": [family("x", mim=4)]}, "x: mim: unknown key, allowed: name, what, match, "),
        ("commands/x.yaml", {"families": [family("x", steps=[{"fold": "a"}])]}, "x: steps[0].say: missing, allowed: a text"),
        ("commands/x.yaml", {"families": ["x"]}, "?: got 'x', allowed: a mapping"),
        ("commands/x.yaml", {"families": [family("x", steps=[{"drop": "a(?=b)"}])]}, "x: steps[0].drop: got 'a(?=b)', allowed: a pattern of RE2 (invalid perl operator: (?=)"),
        ("commands/x.yaml", {"families": [family("x", steps=[{"drop": "(a)\\1"}])]}, "x: steps[0].drop: got '(a)\\\\1', allowed: a pattern of RE2 (invalid escape sequence: \\1)"),
        ("commands/x.yaml", {"families": [family("x", shape={"any": ["("]})]}, "x: shape.any[0]: got '(', allowed: a pattern of RE2 (missing ): ()"),
        ("commands/x.yaml", {"families": [family("x", steps=[{"group": "(?P<key>a)"}])]}, "x: steps[0]: no group rest in (?P<key>a)"),
        ("commands/x.yaml", {"families": [family("x", steps=[{"fold": "a", "say": "b", "by": "c"}])]}, "x: steps[0]: no group c in a"),
        ("commands/x.yaml", {"families": [family("x", inner="> .*")]}, "x: no group command in > .*"),
        ("commands/x.yaml", {"famillies": []}, "famillies: unknown key, did you mean families?"),
        ("commands/x.yaml", ["x"], "got something else, allowed: a mapping with a list families"),
        ("commands/x.yaml", "a: [", "no YAML, line 2: did not find expected node content"),
        ("commands/x.yaml", {"families": [family("x")], "calls": {"y": "x"}}, "x: calls: 'y' falls to no family, the file says x"),
        ("commands/x.yaml", {"families": [family("x")], "examples": [{"family": "x", "call": "x", "text": "a", "gives": "b"}]}, "x: examples[0].gives: the text was left alone"),
        ("commands/x.yaml", {"families": [family("x")], "examples": [{"family": "x", "text": "", "gives": None}]}, "examples[0].call: missing, allowed: a text"),
        ("secrets/x.yaml", {"rules": [{"id": "x", "regex": "abcd", "anchors": ["abcd"]}]}, "x: label: missing, allowed: a text, here or at the top of the file"),
        ("secrets/x.yaml", {"rules": [{"id": "x", "regex": "ab(?!c)", "anchors": ["abc"], "label": "x"}]}, "x: regex: got 'ab(?!c)', allowed: a pattern of RE2 (invalid perl operator: (?!)"),
        ("secrets/x.yaml", {"label": "x", "rules": [{"id": "x", "regex": "abcd", "group": 2, "anchors": ["abcd"]}]}, "x: group: got 2, allowed: a group of the pattern, which has 0"),
        ("secrets/x.yaml", {"label": "x", "rules": [{"id": "x", "regex": "abcd", "anchors": ["abcd"], "examples": {"no_match": ["an abcd here"]}}]}, "x: examples.no_match[0]: got "),
        ("secrets/x.yaml", {"label": "x", "rules": [{"id": "x", "regex": "abcd", "anchors": ["abcd"], "examples": {"match": ["an abce here"]}}]}, "x: examples.match[0]: nothing in it is marked by ⟦ ⟧"),
        ("tools.yaml", {"agents": {"a": {"reed": ["x"]}}}, "agents.a.reed: unknown key, did you mean read?"),
        ("tools.yaml", {"envelopes": {"heads": ["x"]}}, "envelopes: not read here, allowed: agents, mcp_prefixes, mcp, verbs, families, synonyms, arguments, examples"),
        ("tools.yaml", {"examples": [{"tool": "x", "category": "read"}]}, "examples[0]: x is other, the example says read"),
        ("providers.yaml", {"apis": {"x": {"format": "y", "kind": "messages", "path": "z"}}}, "apis.x.format: got 'y', allowed: anthropic, bedrock, "),
        ("providers.yaml", {"others": {}}, "others: not read here, allowed: apis, providers, local, errors, examples"),
        ("providers.yaml", {"examples": [{"host": "x", "path": "y", "body": "", "is": "z"}]}, "examples[0].is: got null, the example says z"),
        ("shell.yaml", {"filters": [{"program": "x", "does": "y"}]}, "filters[0].does: got 'y', allowed: through or cut or select"),
        ("prices.yaml", {}, "no file of this name is read, allowed: commands/*.yaml, secrets/*.yaml, tools.yaml, providers.yaml, shell.yaml"),
    ],
)  # fmt: skip
def test_invalid_rules_are_left_out_and_reported(
    name: str, content: Any, expected: str, tmp_path: Path
) -> None:
    (line,) = use(tmp_path, name, content)
    assert line.startswith(f"{name}: {expected}")
    assert "\n" not in line


def test_valid_rules_beside_invalid_ones_hold(tmp_path: Path) -> None:
    content = {
        "families": [family("good", steps=[{"drop": "x"}]), family("bad", steps=[{}]), family("wrong")],
        "examples": [
            {"family": "good", "call": "good", "text": "x\ny", "gives": "y"},
            {"family": "wrong", "call": "wrong", "text": "x\ny", "gives": "y"},
        ],
    }
    output = use(tmp_path, "commands/x.yaml", content)
    assert [line.split(": ")[1] for line in output] == ["bad", "wrong"]
    assert [classify("Bash", {"command": name}).family for name in ("good", "bad", "wrong")] == [
        "good",
        "",
        "",
    ]
    assert classify("Bash", {"command": "git diff"}).family == "git-diff"


def test_a_pattern_that_would_take_for_ever_elsewhere_takes_no_time(tmp_path: Path) -> None:
    rule = family("slow", steps=[{"drop": "(?:a+)+$"}])
    assert use(tmp_path, "commands/x.yaml", {"families": [rule]}) == []
    text = "a" * 1_500 + "b\naaa\n" + "\ud800\n"
    shortened = apply(text, classify("Bash", {"command": "slow"}), lossy=True)
    assert shortened is not None
    assert shortened.text == text.replace("aaa\n\ud800", "\ud800")


def test_folder_of_the_setting(tmp_path: Path) -> None:
    assert user_rules.folder_of("", {"XDG_CONFIG_HOME": str(tmp_path)}) is None
    shutil.copytree(STRANGERS, tmp_path / "penumbra" / "rules")
    assert user_rules.folder_of("", {"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "penumbra" / "rules"
    assert user_rules.folder_of("off", {"XDG_CONFIG_HOME": str(tmp_path)}) is None
    assert user_rules.folder_of(str(tmp_path), {}) == tmp_path
    with pytest.raises(RuleError, match="allowed: a folder of rules, or off"):
        user_rules.folder_of(str(tmp_path / "none"), {})


def test_a_value_made_while_rules_change_is_made_again() -> None:
    """Another thread may be reading the old rules at that moment."""
    made: list[str] = []

    @rules.cached
    def family_of_bazel() -> str:
        made.append(classify("Bash", {"command": "bazel test //..."}).family)
        if len(made) == 1:
            user_rules.use(STRANGERS)
        return made[-1]

    assert family_of_bazel() == "bazel"
    assert family_of_bazel() == "bazel"
    assert made == ["bazel-test", "bazel"]


TARGET = r"//(?P<target>\S+) .*"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"rewrite": TARGET, "to": "{targt}", "loss": "none"}, "to: got {targt}, allowed: target"),
        ({"fold": TARGET, "say": "[{mm}]"}, "say: got {mm}, allowed: n, target, first_target, last_target, distinct_target, each_target"),
        ({"group": r"(?P<key>a)(?P<rest>b)", "line": "{key}"}, "line: got {key}, allowed: rest"),
        ({"same": TARGET, "say": "{target}"}, "say: got {target}, allowed: line, n"),
        ({"block": TARGET, "counts": {"ok": "x"}, "say": "{oks}"}, "say: got {oks}, allowed: n, blocks, ok, target"),
    ],
)  # fmt: skip
def test_a_name_that_nothing_stands_for_is_reported(
    step: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    """The literal name would replace the content of the lines."""
    content = {"families": [family("x", steps=[step])], "calls": {"x y": "x"}}
    content["examples"] = [{"family": "x", "call": "x", "text": "a", "gives": None}]
    assert use(tmp_path, "commands/x.yaml", content) == [f"commands/x.yaml: x: steps[0]: {expected}"]


def test_two_families_of_one_name_are_reported(tmp_path: Path) -> None:
    first, second = family("x", match=["a"]), family("x", match=["b"])
    assert use(tmp_path, "commands/a.yaml", {"families": [first]}) == []
    output = use(tmp_path, "commands/b.yaml", {"families": [second]})
    assert output == ["commands/b.yaml: x: name: x is defined in commands/a.yaml already"]
    assert classify("Bash", {"command": "a"}).family == "x"


def test_no_rewriting_takes_a_failure_away(tmp_path: Path) -> None:
    steps = [{"rewrite": r"\[(?P<step>\w+)\] .*", "to": "{step}", "loss": "none"}]
    assert use(tmp_path, "commands/x.yaml", {"families": [family("x", steps=steps)]}) == []
    text = "[link] all of it\n[build] error: no such file\n[test] a long line that says nothing"
    shortened = apply(text, classify("Bash", {"command": "x"}), lossy=True)
    assert shortened is not None
    assert shortened.text == "link\n[build] error: no such file\ntest"
