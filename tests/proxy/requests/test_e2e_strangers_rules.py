"""Rules of somebody who knows nothing of the code: a command family, a secret, a tool and a provider."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from support.mitm import Mitmdump, eventually
from support.upstream import Raw

RULES = Path(__file__).parents[2] / "support" / "strangers_rules"
[EXAMPLE] = yaml.safe_load((RULES / "commands" / "bazel.yaml").read_text())["examples"]
SECRET = "acme_" + "q8zk2mvt41lx9rwpz0bt"
OURS = "[10 test targets passed]"


def ask(client: Any, path: str, *texts: str) -> Any:
    """A conversation whose tool has printed these texts."""
    calls = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {
                "name": "acme_run",
                "arguments": json.dumps({"command": f"bazel test //{number}/..."}),
            },
        }
        for number, _ in enumerate(texts)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"c{number}", "content": text} for number, text in enumerate(texts)
    ]
    messages = [
        {"role": "user", "content": "test it"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *results,
    ]
    tool = {"type": "function", "function": {"name": "acme_run", "parameters": {"type": "object"}}}
    body = {"model": "m", "messages": messages, "tools": [tool]}
    return client.post(f"https://llm.example.org{path}", json=body, headers={"authorization": "Bearer k"})


def results(upstream: Any) -> list[str]:
    return [
        message["content"]
        for message in json.loads(upstream.requests[-1].raw_body)["messages"]
        if message["role"] == "tool"
    ]


def test_rules_of_a_stranger(clients: Any, own_proxy: Any, upstream: Any) -> None:
    proxy = own_proxy("regular", penumbra_rules=str(RULES), penumbra_min_bytes="200")
    upstream.pages["/acme/v9/talk"] = Raw(body=b'{"choices":[]}')
    answer = ask(clients.http(proxy), "/acme/v9/talk", EXAMPLE["text"], f"the key {SECRET} is new\n" * 9)
    assert answer.status_code == 200
    shortened, searched = results(upstream)
    assert OURS in shortened
    assert "net_test                                      FAILED" in shortened
    assert "lexer_test" not in shortened
    assert SECRET not in searched
    assert "[REDACTED:acme-key:" in searched
    assert "penumbra_rules" not in proxy.log()


def test_the_folder_of_the_user_is_found(clients: Any, own_proxy: Any, upstream: Any, tmp_path: Path) -> None:
    shutil.copytree(RULES, tmp_path / "penumbra" / "rules")
    proxy = own_proxy("regular", environment={"XDG_CONFIG_HOME": str(tmp_path)}, penumbra_min_bytes="200")
    assert ask(clients.http(proxy), "/v1/chat/completions", EXAMPLE["text"]).status_code == 200
    assert OURS in results(upstream)[0]


def test_a_bad_rule_is_left_out_loudly_and_the_others_hold(
    clients: Any, own_proxy: Any, upstream: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "rules"
    shutil.copytree(RULES, folder)
    bad = {"name": "bad", "what": "x", "match": ["bad"], "steps": [{"fold": "x", "say": "y", "mim": 4}]}
    (folder / "commands" / "bad.yaml").write_text(yaml.safe_dump({"families": [bad]}))
    upstream.pages["/acme/v9/talk"] = Raw(body=b'{"choices":[]}')
    proxy = own_proxy("regular", penumbra_rules=str(folder), penumbra_min_bytes="200")
    assert ask(clients.http(proxy), "/acme/v9/talk", EXAMPLE["text"]).status_code == 200
    assert OURS in results(upstream)[0]
    told = f"penumbra_rules: left out: {folder}/commands/bad.yaml: bad: steps[0].mim: unknown key, did you mean min?"
    assert proxy.log().count(told) == 1


def test_a_folder_that_is_not_there_ends_the_start(own_proxy: Any, tmp_path: Path) -> None:
    proxy: Mitmdump = own_proxy("regular", started=False, penumbra_rules=str(tmp_path / "none"))
    proxy.launch()
    line = f"penumbra_rules: got '{tmp_path / 'none'}', allowed: a folder of rules, or off"
    assert eventually(lambda: line in proxy.log()), proxy.log()
    assert "Traceback" not in proxy.log()


def test_another_folder_holds_from_the_next_request_on(clients: Any, own_proxy: Any, upstream: Any) -> None:
    upstream.pages["/acme/v9/talk"] = Raw(body=b'{"choices":[]}')
    proxy = own_proxy(
        "regular", penumbra_rules="off", penumbra_hosts="llm.example.org", penumbra_min_bytes="200"
    )
    told: list[bool] = []
    for folder in ("off", str(RULES), "off"):
        proxy.set("penumbra_rules", folder)
        assert (
            ask(clients.http(proxy), "/acme/v9/talk", EXAMPLE["text"] + f"for {len(told)}\n").status_code
            == 200
        )
        told.append(OURS in results(upstream)[0])
    assert told == [False, True, False]
