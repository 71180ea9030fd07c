"""Secrets in requests are taken out, by a user's rules, too; requests that can't be searched are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from penumbra.redaction.placeholder import NOTE, make
from penumbra.redaction.redact_calls import mask
from support.agents.apis import BY_NAME
from support.agents.disk import PATH, give_tools, mark, play
from support.agents.requests import assert_prefix_kept, result_texts
from support.apis import BY_ID, messages, printed
from support.gitleaks_file import FILE, TEXT, TICKET
from support.planted import GITHUB, PASSWORD, anthropic, results
from support.upstream import Received, ToolCall, turn

# The secrets are invented and written in pieces, so that scanners of this repository ignore them.
SECRETS = {
    "github": "ghp_" + "k3J9xQ7vB2mN8cR5tY1wZ4aS6dF0gH3jL5pQ",
    "aws": "AKIA" + "Q3EGRVUJ7LNB5XKM",
    "anthropic": "sk-ant-api03-" + "xR7kQ2mN9vB4cJ8tL1wZ5aS3dF6gH0pY" * 2 + "-AAAAAA",
    "slack": "xoxb-" + "284719305518-3951846207731-" + "Qm7Rk2Xv9Nc4Bt8Jw1Lz5Ys3",
    "password": "9vTq2-LmX4wRk7",
    "database": "Zk8pQ3vN5xW2",
}
ENV = f"""# local settings
GITHUB_TOKEN={SECRETS["github"]}
AWS_ACCESS_KEY_ID={SECRETS["aws"]}
ANTHROPIC_API_KEY="{SECRETS["anthropic"]}"
SLACK_BOT_TOKEN={SECRETS["slack"]}
DB_PASSWORD='{SECRETS["password"]}'
DATABASE_URL=postgres://app:{SECRETS["database"]}@db.internal:5432/orders
DEBUG=true
"""
KEY_BODY = "MIIEpAIBAAKCAQEA3Tz2mr7SZiAMfQyuvBjM9OiJjRazXBZ1BjP5CE\nQkQl8h7VwYx2uFJd0c5m"
ENV_AND_KEY = f"{ENV}-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}\n-----END RSA PRIVATE KEY-----\n"
# JSON within a JSON string is escaped twice on the wire.
AS_JSON = json.dumps({"env": ENV_AND_KEY, "ok": True}, indent=2)
ALL = [*SECRETS.values(), *KEY_BODY.split("\n")]


def anthropic_body(*texts: str) -> dict[str, Any]:
    return messages(*([{"type": "text", "text": text}] for text in texts))


FORMS = {
    "plain": ENV_AND_KEY,
    "in JSON": AS_JSON,
    "coloured": ENV_AND_KEY.replace("_TOKEN=", "_TOKEN\x1b[0m=\x1b[32m"),
    "long": "\n".join(f"line {n} of something else" for n in range(400)) + ENV_AND_KEY,
    "windows": ENV_AND_KEY.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ["disabled", "safe", "standard", "aggressive"])
def test_no_secret_reaches_the_provider(
    form: str, mode: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    running = proxy("reverse", penumbra_mode=mode)
    client, keys = clients.http(running), {"x-api-key": f"k {form}", "anthropic-version": "2023-06-01"}
    answer = client.post(f"{running.url}/v1/messages", json=anthropic_body(FORMS[form]), headers=keys)
    assert answer.status_code == 200
    received = upstream.requests[-1]
    [text] = result_texts(received.json)
    assert [secret for secret in ALL if secret in text or secret in received.body.decode()] == []
    for kept in ("GITHUB_TOKEN", "DB_PASSWORD", "db.internal:5432/orders", "DEBUG=true"):
        assert kept in text


LONG = f"GITHUB_TOKEN={GITHUB}\n" * 40


@pytest.mark.parametrize("scope", ["results", "all"])
def test_masked(scope: str, proxy: Any, clients: Any, upstream: Any) -> None:
    running = proxy(
        "reverse",
        penumbra_redaction_max_bytes="1k",
        penumbra_redaction_failure="mask",
        penumbra_redact_scope=scope,
    )
    body = anthropic(LONG)
    body["messages"][1]["content"][0]["input"] = {"command": "x" * 2000}
    headers = {"x-api-key": f"k {scope}", "anthropic-version": "2023-06-01"}
    for _ in range(2):
        answer = clients.http(running).post(f"{running.url}/v1/messages", json=body, headers=headers)
        assert answer.status_code == 200
    first, second = upstream.requests[-2:]
    assert first.body == second.body
    assert list(results(first.json)) == [mask(LONG)]
    arguments = first.json["messages"][1]["content"][0]["input"]
    if scope == "all":
        assert arguments == {"redacted": "[REDACTED:unscanned:2014 bytes]"}
    else:
        assert arguments == {"command": "x" * 2000}
    assert GITHUB not in running.log()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    return path


def test_rules_of_a_gitleaks_file_are_applied(
    config: Path, own_proxy: Any, clients: Any, upstream: Any
) -> None:
    proxy = own_proxy("reverse", penumbra_gitleaks_config=str(config))
    client, headers = clients.http(proxy), {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    for _ in range(2):
        answer = client.post(f"{proxy.url}/v1/messages", json=anthropic(TEXT), headers=headers)
        assert answer.status_code == 200
    for received in upstream.requests:
        [text] = results(received.json)
        assert TICKET not in text
        assert GITHUB not in text
        assert "[REDACTED:acme-ticket:" in text
    assert proxy.log().count("rule names-a-path: no regex, left out") == 1


MARK = make("password", b"k", b"v")
RESULT = f"DB_PASSWORD={PASSWORD}\nDEBUG=true\n"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
WRITTEN = "1 calls write a [REDACTED] placeholder instead of a value"


def request(name: str, result: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    api = BY_ID[name]
    more: dict[str, Any] = {"tools": [{"name": "Write", "description": "x", "input_schema": SCHEMA}]}
    if name == "openai-chat":
        more["tools"] = [{"type": "function", "function": {"name": "Write", "parameters": SCHEMA}}]
    turns = printed(result, tool="Write", arguments=lambda _: {})
    return api.path, json.loads(api.body(turns, stream=stream, **more))


@pytest.mark.parametrize("expand", ["true", "false"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["anthropic-messages", "openai-chat"])
def test_a_placeholder_in_a_call(
    api: str, stream: bool, expand: str, proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    running = proxy("reverse", penumbra_enable_expand_context=expand)
    running.command("tests.forget")
    headers = {"x-api-key": api_key, "authorization": f"Bearer {api_key}", "anthropic-version": "2023-06-01"}
    arguments = {"path": ".env", "content": f"DB_PASSWORD={MARK}\nDEBUG=false\n"}
    path, body = request(api, RESULT, stream=stream)
    before = running.log().count(WRITTEN)
    for blocks in (
        ("See", ToolCall("Write", arguments)),
        (f"It is {MARK}.", ToolCall("Write", {"path": "x"})),
    ):
        upstream.answers(turn(*blocks))
        answer = clients.http(running).post(f"{running.url}{path}", json=body, headers=headers)
        assert answer.status_code == 200
    written, said = (flow for flow in running.flows() if flow["path"] == path)
    assert (written["marked"], written["metadata"]["penumbra_placeholders_written"]) == (":warning:", 1)
    assert written["comment"].endswith(WRITTEN)
    assert said["marked"] != ":warning:"
    assert "penumbra_placeholders_written" not in said["metadata"]
    assert running.log().count(WRITTEN) == before + 1
    assert MARK not in running.log()


def test_the_model_gets_one_note_that_stays(
    own_proxy: Any, clients: Any, upstream: Any, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, running = give_tools(monkeypatch), own_proxy()

    def write(received: Received) -> Any:
        return (
            ToolCall("Write", {"file_path": "/repo/copy.env", "content": f"DB_PASSWORD={mark(received)}"}),
        )

    mend = ToolCall("Bash", {"command": f"grep DB_PASSWORD {PATH} > /repo/copy.env"})
    play(upstream, (ToolCall("Read", {"file_path": PATH}),), write, (mend,), ("Mended.",))
    agent = BY_NAME["anthropic"].caller(clients, running, api_key, False)
    assert agent.say("Copy it.") == "Mended."
    running.restart()
    again = BY_NAME["anthropic"].caller(clients, running, api_key, False, messages=agent.messages)
    assert [again.say("And now?"), again.say("Sure?")] == ["Done.", "Done."]
    assert disk.files["/repo/copy.env"].startswith("DB_PASSWORD=[REDACTED:")
    found = [received.body.decode().count(f"written\\n{NOTE}") for received in upstream.asked()]
    assert found == [0, 0, 1, 1, 1, 1]
    assert [received.body.decode().count("[Note:") for received in upstream.asked()] == found
    assert_prefix_kept(upstream.asked())
