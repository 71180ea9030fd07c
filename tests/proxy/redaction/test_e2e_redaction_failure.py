"""`penumbra_redaction_failure`: texts that can't be searched for secrets."""

from __future__ import annotations

from typing import Any

import pytest

from penumbra.redaction.redact_calls import mask
from support.planted import GITHUB, anthropic, results

LONG = f"GITHUB_TOKEN={GITHUB}\n" * 40
SIZE = len(LONG)


def ask(running: Any, clients: Any, **more: Any) -> Any:
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    return clients.http(running).post(
        f"{running.url}/v1/messages", json=anthropic(LONG, **more), headers=headers
    )


def test_refused_by_default(proxy: Any, clients: Any, upstream: Any) -> None:
    running = proxy("reverse", penumbra_redaction_max_bytes="1k", penumbra_mode="safe")
    answer = ask(running, clients)
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "request_too_large"
    assert f"{SIZE} bytes are more than the limit of 1024" in answer.json()["error"]["message"]
    assert upstream.requests == []
    assert GITHUB not in answer.text + running.log()


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


def test_passed_on(proxy: Any, clients: Any, upstream: Any) -> None:
    running = proxy(
        "reverse",
        penumbra_redaction_max_bytes="1k",
        penumbra_redaction_failure="pass",
        penumbra_mode="disabled",
    )
    assert ask(running, clients).status_code == 200
    assert list(results(upstream.requests[-1].json)) == [LONG]
    log = running.log()
    assert "passes on a text that was not searched for secrets" in log
    assert GITHUB not in log
