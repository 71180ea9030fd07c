"""Options at start-up, while the proxy runs and of one request, and a user's rules."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import yaml

from support.agents.agent import PRINTS, SESSION, agent
from support.agents.requests import result_texts
from support.apis import BY_ID, chat, messages, printed
from support.mitm import ADDON, eventually
from support.upstream import Raw

LOG = PRINTS["docker compose logs worker"]
KEYS = {"authorization": "Bearer k", "content-type": "application/json"}


class Sender:
    """A `Sender` sends one new result a call, and returns its length on arrival."""

    def __init__(self, client: Any, proxy: Any, upstream: Any) -> None:
        self.client, self.proxy, self.upstream, self.number = client, proxy, upstream, 0

    def __call__(self, text: str = LOG) -> int:
        self.number += 1
        turns = printed(text, ids=f"call_{self.number:020}")
        body = json.dumps({"model": "m", "messages": BY_ID["openai-chat"].written(turns)}).encode()
        url = f"{self.proxy.url}/v1/chat/completions"
        assert self.client.post(url, content=body, headers=KEYS).status_code == 200
        [arrived] = result_texts(self.upstream.requests[-1].json)
        return len(arrived)


BAD = {
    "value": (
        {"penumbra_mode": "strong"},
        "penumbra_mode: got 'strong', allowed: disabled, safe, standard or",
    ),
    "filter": ({"penumbra_filter": "~nonsense ("}, "penumbra_filter: got '~nonsense ('"),
    "misspelt": ({"penumbra_modus": "safe"}, "penumbra_modus: unknown option"),
    "no folder": (
        {"penumbra_rules": "/nowhere"},
        "penumbra_rules: got '/nowhere', allowed: a folder of rules, or",
    ),
    "no file": ({"penumbra_config": "/nowhere/p.yaml"}, "penumbra_config: got '/nowhere/p.yaml'"),
    "gitleaks": ({"penumbra_gitleaks_config": "/nowhere/g.toml"}, "penumbra_gitleaks_config: "),
    "streaming": ({"stream_large_bodies": "1m"}, "stream_large_bodies: got '1m'"),
}


def assert_refused(proxy: Any, words: str) -> None:
    """Assert that the proxy ends at once with one line about the reason."""
    assert proxy.launch().wait(60) != 0
    assert len([line for line in proxy.log().split("\n") if words in line]) == 1, proxy.log()
    assert "Traceback" not in proxy.log()


@pytest.mark.parametrize("case", BAD)
def test_a_bad_option_stops_the_start(case: str, own_proxy: Any) -> None:
    options, words = BAD[case]
    assert_refused(own_proxy("regular", started=False, **options), words)


def test_options_apply_to_the_next_request(own_proxy: Any, clients: Any, upstream: Any) -> None:
    proxy = own_proxy("reverse")
    send = Sender(clients.http(proxy), proxy, upstream)
    assert send() < len(LOG)
    proxy.set("penumbra_mode", "disabled")
    assert send() == len(LOG)
    with pytest.raises(RuntimeError, match="penumbra_mode: got 'strong'"):
        proxy.set("penumbra_mode", "strong")
    assert send() == len(LOG)
    with pytest.raises(RuntimeError, match="stream_large_bodies"):
        proxy.set("stream_large_bodies", "1k")
    proxy.set("penumbra_mode", "standard")
    assert send() < len(LOG)


def test_the_file_applies_to_the_next_request(
    own_proxy: Any, clients: Any, upstream: Any, tmp_path: Path
) -> None:
    config = tmp_path / "penumbra.yaml"
    config.write_text("penumbra: {mode: standard}\n")
    proxy = own_proxy("reverse", penumbra_config=str(config))
    send = Sender(clients.http(proxy), proxy, upstream)
    assert send() < len(LOG)
    config.write_text("penumbra: {mode: disabled}\n# now\n")
    assert send() == len(LOG)
    config.write_text("penumbra: {mode: strong}\n# a mistake\n")
    assert send() == len(LOG)
    assert "penumbra.mode: got 'strong'" in proxy.log()
    config.write_text("penumbra: {mode: standard}\n# mended\n")
    assert send() < len(LOG)


def test_flows_log_and_events_describe_a_request(
    own_proxy: Any, clients: Any, upstream: Any, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    proxy = own_proxy("reverse", penumbra_events=str(events))
    upstream.answers(*SESSION)
    caller = agent("anthropic", clients, proxy)
    caller.say("Why does the total test fail?")
    pairs = zip(
        result_texts({"messages": caller.messages}), result_texts(upstream.asked()[-1].json), strict=True
    )
    changed = f"{sum(theirs != ours for theirs, ours in pairs)} of 7 results changed"
    flows = proxy.flows()
    assert [flow["marked"] for flow in flows] == [":new_moon:"] * 5
    assert flows[0]["comment"] == "Penumbra: tool expand_context declared"
    assert re.fullmatch(
        rf"Penumbra: {changed} \(Bash \d+, Read \d+\), about [\d,]+ -> [\d,]+ tokens \(-\d+%\), by .+",
        flows[-1]["comment"],
    )
    assert flows[-1]["metadata"]["penumbra"]["results"] == 7
    stats = proxy.command("penumbra.stats")
    assert "5 read, 4 changed, 0 refused" in stats
    assert eventually(lambda: "5 read, 4 changed, 0 refused" in shell_stats(proxy).stdout)
    lines = [line for line in proxy.log().split("\n") if "results changed" in line]
    assert len(lines) == 4
    assert changed in lines[-1]
    assert eventually(lambda: events.exists() and len(events.read_text().split("\n")) == 5)
    found = [json.loads(line) for line in events.read_text().split("\n") if line]
    assert sum(len(event["new"]) for event in found) == 7
    assert events.stat().st_mode & 0o777 == 0o600
    assert {(event["event"], event["mode"], event["strategy"]) for event in found} == {
        ("request", "standard", "pipeline")
    }
    for result in (result for event in found for result in event["new"]):
        assert (result["tool_name"], result["original_bytes"]) == (result["tool"], result["bytes"][0])
        assert result["lines"] >= 1
    before, after = found[-1]["body_bytes"]
    assert after == len(upstream.asked()[-1].raw_body) < before
    for private in ("worker-3", "test_orders", "Why does"):
        assert private not in events.read_text()


def shell_stats(proxy: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penumbra", "stats", *arguments]
    environment = {**os.environ, "XDG_STATE_HOME": str(proxy.state), "PYTHONPATH": str(ADDON.parent)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_shell_can_read_the_figures(own_proxy: Any, clients: Any, upstream: Any) -> None:
    proxy = own_proxy("reverse")
    assert eventually(lambda: shell_stats(proxy).returncode == 0)
    assert "no LLM requests yet" in shell_stats(proxy).stdout
    agent("anthropic", clients, proxy).say("Hello.")

    def requests() -> int:
        return int(json.loads(shell_stats(proxy, "--json").stdout)["proxies"][0]["totals"]["requests"])

    assert eventually(lambda: requests() == 1)
    folder = proxy.state / "penumbra" / "running"
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]
    proxy.stop()
    assert list(folder.iterdir()) == []
    (folder / "999999999.json").write_text("{}")
    found = shell_stats(proxy)
    none, _, week = found.stdout.partition("\n\n")
    assert (found.returncode, none) == (1, "Penumbra: no proxy is running here.")
    # The figures of earlier runs are still known.
    assert [line.split()[:2] for line in week.split("\n")[2:3]] == [["together", "1"]]
    assert list(folder.iterdir()) == []
    assert shell_stats(proxy, "--bogus").returncode == 2


MESSAGES_KEYS = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
FORGE = "tool_output_compression"
BODIES = {"anthropic": ("/v1/messages", messages), "openai": ("/v1/chat/completions", chat)}


@pytest.fixture
def post(clients: Any, proxy: Any, upstream: Any, api_key: str) -> Any:
    running = proxy("reverse")
    client = clients.http(running)

    def send(api: str, headers: dict[str, str] | None = None, text: str = LOG, **more: Any) -> Any:
        path, make = BODIES[api]
        keys = {
            **MESSAGES_KEYS,
            "x-api-key": api_key,
            "authorization": f"Bearer {api_key}",
            **(headers or {}),
        }
        return client.post(running.url + path, content=json.dumps(make(text, **more)).encode(), headers=keys)

    return send


def results(upstream: Any) -> list[str]:
    """Return the results of the last request, as they arrived."""
    return list(result_texts(json.loads(upstream.requests[-1].raw_body)))


def test_the_sdks_understand_the_refusal(clients: Any, proxy: Any) -> None:
    running = proxy("regular")
    bad = {"_forge": {FORGE: "max"}}
    hello = [{"role": "user", "content": "hi"}]
    with pytest.raises(anthropic.BadRequestError, match="got 'max'"):
        clients.anthropic(running).messages.create(model="m", max_tokens=1, messages=hello, extra_body=bad)
    with pytest.raises(openai.BadRequestError, match="got 'max'"):
        clients.openai(running).chat.completions.create(model="m", messages=hello, extra_body=bad)


@pytest.mark.parametrize("api", BODIES)
def test_threshold_header(api: str, post: Any, upstream: Any) -> None:
    assert post(api, {"X-Compression-Threshold": "off"}).status_code == 200
    received = upstream.requests[-1]
    assert received.header("x-compression-threshold") is None
    assert results(upstream) == [LOG]
    assert post(api, {"x-compression-threshold": "64k"}, text=LOG + "1").status_code == 200
    assert results(upstream) == [LOG + "1"]
    assert post(api, {"x-compression-threshold": "100"}, text=LOG + "2").status_code == 200
    assert len(results(upstream)[0]) < len(LOG)
    refused = post(api, {"x-compression-threshold": "lots"})
    assert refused.status_code == 400
    assert "X-Compression-Threshold" in refused.json()["error"]["message"]


RULES = Path(__file__).parents[2] / "support" / "strangers_rules"
[EXAMPLE] = yaml.safe_load((RULES / "commands" / "bazel.yaml").read_text())["examples"]
SECRET = "acme_" + "q8zk2mvt41lx9rwpz0bt"
OURS = "[10 test targets passed]"


def ask(client: Any, path: str, *texts: str) -> Any:
    """Send a conversation whose tool has printed these texts; return the answer."""
    turns = printed(*texts, tool="acme_run", arguments=lambda n: {"command": f"bazel test //{n}/..."})
    api = BY_ID["openai-chat"]
    body = api.body(turns, **api.declares([("acme_run", "command")]))
    return client.post(f"https://llm.example.org{path}", content=body, headers=KEYS)


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
    found = f"penumbra_rules: left out: {folder}/commands/bad.yaml: bad: steps[0].mim: unknown key, did you mean min?"
    assert proxy.log().count(found) == 1


def test_another_folder_holds_from_the_next_request_on(clients: Any, own_proxy: Any, upstream: Any) -> None:
    upstream.pages["/acme/v9/talk"] = Raw(body=b'{"choices":[]}')
    proxy = own_proxy(
        "regular", penumbra_rules="off", penumbra_hosts="llm.example.org", penumbra_min_bytes="200"
    )
    found: list[bool] = []
    for folder in ("off", str(RULES), "off"):
        proxy.set("penumbra_rules", folder)
        assert (
            ask(clients.http(proxy), "/acme/v9/talk", EXAMPLE["text"] + f"for {len(found)}\n").status_code
            == 200
        )
        found.append(OURS in results(upstream)[0])
    assert found == [False, True, False]
