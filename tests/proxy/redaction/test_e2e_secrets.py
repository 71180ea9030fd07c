"""Secrets in tool results never leave the machine, and are never kept on it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.agents.requests import result_texts
from support.apis import messages

# Made for this test, in pieces, so that no scanner of this repository takes them for real.
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
# Spelled as a part of JSON inside of a JSON string: escaped twice on the wire.
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


def test_no_secret_is_kept(own_proxy: Any, clients: Any, upstream: Any, tmp_path: Any) -> None:
    events = tmp_path / "events.jsonl"
    proxy = own_proxy("reverse", penumbra_events=str(events), termlog_verbosity="debug")
    client = clients.http(proxy)
    for key in ("a", "b"):
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        client.post(f"{proxy.url}/v1/messages", json=anthropic_body(*FORMS.values()), headers=headers)
    stats = proxy.command("penumbra.stats")
    flows = json.dumps(proxy.flows())
    proxy.stop()
    kept = [path.read_bytes().decode("latin-1") for path in proxy.home.rglob("*") if path.is_file()]
    assert len(kept) >= 3
    for text in (*kept, events.read_text(), stats, flows):
        assert [secret for secret in ALL if secret in text] == []
    assert "redacted" in stats


def test_other_text_is_not_searched(clients: Any, proxy: Any, upstream: Any) -> None:
    """What the user writes and what a call's arguments hold is the client's own affair."""
    running = proxy("reverse")
    body = anthropic_body("nothing of note")
    body["messages"][0]["content"] = ENV
    body["messages"][1]["content"][0]["input"] = {"command": ENV}
    # A caller of whom the proxy has seen no secret: values that it has seen go from all that this one sends.
    headers = {"x-api-key": "nothing known", "anthropic-version": "2023-06-01"}
    clients.http(running).post(f"{running.url}/v1/messages", json=body, headers=headers)
    assert upstream.requests[-1].json == body
