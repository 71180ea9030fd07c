"""Commands that print one bare secret: examples of the rule file, and texts that agents put around
outputs."""

import json
from typing import Any

import pytest

from penumbra import rules
from penumbra.compress.calls.tools import hint
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor, read_hint

REDACTOR = Redactor(b"k")
EXAMPLES: list[dict[str, Any]] = rules.load("printed_secrets.yaml")["examples"]
LONE = [one for one in EXAMPLES if one["secrets"] == [one["output"].strip()]]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: f"{one['command']} -> {one['output']}"[:90])
def test_examples(example: dict[str, Any]) -> None:
    output = example["output"]
    clean = REDACTOR.redact(output, example["command"]).text
    expected = output
    for secret in example["secrets"]:
        expected = expected.replace(secret, "⟦⟧")
    if PATTERN.fullmatch(output):
        assert clean == output
    else:
        assert PATTERN.sub("⟦⟧", clean) == expected
    assert REDACTOR.redact(clean, example["command"]).text == clean


@pytest.mark.parametrize("example", LONE, ids=lambda one: one["command"][:60])
@pytest.mark.parametrize(
    "around",
    [
        "Exit code: 0\nWall time: 0.1 seconds\nOutput:\n{}\n",
        "Chunk ID: 1f\nWall time: 0.0 seconds\nProcess exited with code 0\nOriginal token count: 9\nOutput:\n{}",
        "<returncode>0</returncode>\n<output>\n{}\n</output>",
        "{}\r\n",
        "\x1b[32m{}\x1b[0m\n",
    ],
)
def test_the_envelope_of_an_agent_changes_nothing(example: dict[str, Any], around: str) -> None:
    secret = example["secrets"][0]
    clean = REDACTOR.redact(around.format(secret), example["command"]).text
    assert PATTERN.sub("⟦⟧", clean) == around.format("⟦⟧")


@pytest.mark.parametrize("example", LONE, ids=lambda one: one["command"][:60])
def test_in_an_agents_json(example: dict[str, Any]) -> None:
    secret = example["secrets"][0]
    text = json.dumps({"output": f"{secret}\n", "metadata": {"exit_code": 0, "status": "completed"}})
    clean = REDACTOR.redact(text, example["command"]).text
    assert json.loads(PATTERN.sub("⟦⟧", clean))["output"] == "⟦⟧\n"
    assert json.loads(clean)["metadata"] == {"exit_code": 0, "status": "completed"}


@pytest.mark.parametrize("example", LONE, ids=lambda one: one["command"][:60])
@pytest.mark.parametrize(
    "form", ["sudo {}", "cd /srv && {}", "timeout 5 {}", "set -e; {} 2>/dev/null", "A=1 {}"]
)
def test_through_wrappers(example: dict[str, Any], form: str) -> None:
    if example["command"].startswith(("/", "$")) or " " not in example["command"]:
        pytest.skip("a path")
    clean = REDACTOR.redact(example["output"], form.format(example["command"])).text
    assert example["secrets"][0] not in clean


def test_a_long_output_is_no_bare_secret() -> None:
    text = "\n".join(f"word{number}" for number in range(40))
    assert REDACTOR.redact(text, "cat /run/secrets/words").text == text


@pytest.mark.parametrize(
    "text", ["'" * 100_000, '"a' * 50_000, "a" * 200_000, "a\\n" * 50_000, "$(" * 30_000]
)
def test_hostile_outputs_and_commands(text: str) -> None:
    REDACTOR.redact(text, "gh auth token")
    REDACTOR.redact("x", f"echo {text}"[:4_000])


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "gh auth token"},
        {"command": ["bash", "-lc", "cd x && gh auth token"]},
        {"commands": ["cd x", "gh auth token"]},
        {"commandLine": "gh auth token"},
        {"action": {"type": "exec", "command": ["gh", "auth", "token"]}},
        {"file_path": "/run/secrets/db_password"},
        "gh auth token",
    ],
)
def test_a_call_gives_a_hint_under_any_name_of_its_argument(arguments: Any) -> None:
    assert "Zk82hVtLqPxw73" not in REDACTOR.redact("Zk82hVtLqPxw73", hint(arguments)).text


def test_a_long_command_line_says_the_same_each_time() -> None:
    line = "cat /srv/.env " + "# remark " * 200
    assert read_hint(line) == read_hint(line)
    assert read_hint(line).loud == read_hint("cat /srv/.env").loud


FRONTS = ["", "    12\t", "> ", "web-1  | ", "2026-11-01T10:00:00.123Z "]
PROMPTS = ["$ ", "bob@mac shop % ", "[root@db1 ~]# ", "(venv) bob@mac:~/shop$ ", "PS C:\\shop> "]


@pytest.mark.parametrize(
    "example", [one for one in LONE if one["command"].partition(" ")[1]], ids=lambda one: one["command"][:60]
)
def test_in_a_transcript(example: dict[str, Any]) -> None:
    command, secret = example["command"], example["secrets"][0]
    for front in FRONTS:
        for prompt in PROMPTS:
            lines = [f"{prompt}{command}", secret, f"{prompt}ls", "tr0ub4dor2"]
            text = "".join(f"{front}{line}\n" for line in lines)
            # In a JSON string, the escapes of a command would be escaped again.
            strings = [] if "\\" in command else [json.dumps({"output": text})]
            for around in (text, text.replace("\n", "\r\n"), *strings):
                clean = PATTERN.sub("⟦⟧", REDACTOR.redact(around).text)
                spelt = json.dumps(secret)[1:-1] if around[:1] == "{" else secret
                gap = f"{front}⟦⟧"
                assert clean == around.replace(f"{front}{spelt}", gap, 1), (front, prompt)
