"""Options at start-up and while the proxy runs, and what it says of its work."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.agents.agent import PRINTS, SESSION, agent
from support.agents.requests import result_texts
from support.apis import BY_ID, printed
from support.mitm import ADDON, eventually

LOG = PRINTS["docker compose logs worker"]
KEYS = {"authorization": "Bearer k", "content-type": "application/json"}


class Sender:
    """Sends one new result a call, and tells how long it was on arrival."""

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
    "mode": (
        {"penumbra_mode": "strong"},
        "penumbra_mode: got 'strong', allowed: disabled, safe, standard or",
    ),
    "number": ({"penumbra_min_bytes": "-1"}, "penumbra_min_bytes: got '-1', allowed: bytes from"),
    "text for a number": ({"penumbra_max_output_bytes": "many"}, "penumbra_max_output_bytes: got 'many'"),
    "flag": ({"penumbra_dedup": "maybe"}, "penumbra_dedup: got 'maybe', allowed: true or false"),
    "strategy": ({"penumbra_strategy": "api"}, "pipes.tool_output.api.endpoint: missing"),
    "filter": ({"penumbra_filter": "~nonsense ("}, "penumbra_filter: got '~nonsense ('"),
    "misspelt": ({"penumbra_modus": "safe"}, "penumbra_modus: unknown option"),
    "no file": ({"penumbra_config": "/nowhere/p.yaml"}, "penumbra_config: got '/nowhere/p.yaml'"),
    "streaming": ({"stream_large_bodies": "1m"}, "stream_large_bodies: got '1m'"),
}
BAD_FILES = {
    "size": ("pipes: {tool_output: {min_bytes: lots}}", "pipes.tool_output.min_bytes: got 'lots'"),
    "strategy": (
        "pipes: {tool_output: {strategy: external_provider}}",
        "pipes.tool_output.provider: missing, needed by external_provider",
    ),
    "key": ("penumbra: {colour: red}", "penumbra.colour: unknown key"),
    "no YAML": ("pipes: [", "is no YAML"),
}


def assert_refused(proxy: Any, words: str) -> None:
    """It ends at once, with one line that says why."""
    assert proxy.launch().wait(60) != 0
    assert len([line for line in proxy.log().split("\n") if words in line]) == 1, proxy.log()
    assert "Traceback" not in proxy.log()


@pytest.mark.parametrize("case", BAD)
def test_a_bad_option_stops_the_start(case: str, own_proxy: Any) -> None:
    options, words = BAD[case]
    assert_refused(own_proxy("regular", started=False, **options), words)


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_stops_the_start(case: str, own_proxy: Any, tmp_path: Path) -> None:
    text, words = BAD_FILES[case]
    config = tmp_path / "penumbra.yaml"
    config.write_text(text)
    assert_refused(own_proxy("regular", started=False, penumbra_config=str(config)), words)


def test_environment_option_and_file(own_proxy: Any, clients: Any, upstream: Any, tmp_path: Path) -> None:
    """An option wins over the environment, the environment over the file."""
    config = tmp_path / "penumbra.yaml"
    config.write_text("pipes:\n  tool_output:\n    enabled: false\n")
    client = clients.http(None)
    lengths = []
    for environment, options in (
        ({}, {}),
        ({"FORGE_TOOL_OUTPUT_COMPRESSION": "standard"}, {}),
        ({"FORGE_TOOL_OUTPUT_COMPRESSION": "standard"}, {"penumbra_mode": "off"}),
    ):
        proxy = own_proxy("reverse", environment=environment, penumbra_config=str(config), **options)
        lengths.append(Sender(client, proxy, upstream)())
    assert [length == len(LOG) for length in lengths] == [True, False, True]


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


def test_the_script_is_reloaded_when_it_is_touched(
    own_proxy: Any, clients: Any, upstream: Any, tmp_path: Path
) -> None:
    script = tmp_path / "main.py"
    script.write_text(ADDON.read_text())
    proxy = own_proxy("reverse", script=script)
    send = Sender(clients.http(proxy), proxy, upstream)
    assert send() < len(LOG)
    for _ in range(2):
        told = proxy.log().count("Penumbra is active")
        script.touch()
        assert eventually(lambda before=told: proxy.log().count("Penumbra is active") > before)
        assert send() < len(LOG)


def test_it_says_that_it_is_active(proxy: Any) -> None:
    running = proxy("regular")
    assert eventually(lambda: "Penumbra is active, mode standard." in running.log())


def test_what_the_flows_the_log_and_the_events_say(
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
    told = [json.loads(line) for line in events.read_text().split("\n") if line]
    assert sum(len(event["new"]) for event in told) == 7
    assert events.stat().st_mode & 0o777 == 0o600
    assert {(event["event"], event["mode"], event["strategy"]) for event in told} == {
        ("request", "standard", "pipeline")
    }
    for result in (result for event in told for result in event["new"]):
        assert (result["tool_name"], result["original_bytes"]) == (result["tool"], result["bytes"][0])
        assert result["lines"] >= 1
    before, after = told[-1]["body_bytes"]
    assert after == len(upstream.asked()[-1].raw_body) < before
    for private in ("worker-3", "test_orders", "Why does"):
        assert private not in events.read_text()


def shell_stats(proxy: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penumbra", "stats", *arguments]
    environment = {**os.environ, "XDG_STATE_HOME": str(proxy.state), "PYTHONPATH": str(ADDON.parent)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_shell_can_ask_what_was_done(own_proxy: Any, clients: Any, upstream: Any) -> None:
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
    # What was done is still known.
    assert [line.split()[:2] for line in week.split("\n")[2:3]] == [["together", "1"]]
    assert list(folder.iterdir()) == []
    assert shell_stats(proxy, "--bogus").returncode == 2


def test_the_database_is_private_and_holds_no_credential(own_proxy: Any, clients: Any, upstream: Any) -> None:
    proxy = own_proxy("reverse")
    upstream.answers(*SESSION)
    key = "sk-ant-api03-this-is-the-callers-own"
    caller = agent("anthropic", clients, proxy)
    caller.client = clients.anthropic(proxy, api_key=key)
    caller.say("Why does the total test fail?")
    proxy.stop()
    files = [path for path in proxy.state.rglob("*") if path.is_file()]
    assert any(path.suffix == ".sqlite" for path in files)
    for path in files:
        assert path.stat().st_mode & 0o077 == 0
        assert key.encode() not in path.read_bytes()
    [database] = [path for path in files if path.suffix == ".sqlite"]
    with sqlite3.connect(database) as connection:
        [mode] = connection.execute("pragma journal_mode").fetchone()
    assert mode == "wal"


def test_a_database_that_fails_costs_its_memory_only(
    own_proxy: Any, clients: Any, upstream: Any, tmp_path: Path
) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    proxy = own_proxy("reverse", penumbra_database=str(blocked / "p.sqlite"))
    send = Sender(clients.http(proxy), proxy, upstream)
    assert send() < len(LOG)
    assert eventually(lambda: proxy.log().count("PENUMBRA_DATABASE_UNAVAILABLE") > 0)
    told = proxy.log().count("PENUMBRA_")
    assert send() < len(LOG)
    proxy.stop()
    assert proxy.log().count("PENUMBRA_") == told


def test_skipped_tools(own_proxy: Any, clients: Any, upstream: Any) -> None:
    proxy = own_proxy("reverse", penumbra_skip_tools="bash")
    send = Sender(clients.http(proxy), proxy, upstream)
    assert send() == len(LOG)


def test_the_event_loop_stays_free(own_proxy: Any, clients: Any, upstream: Any) -> None:
    """Work on a large body happens elsewhere: other requests are answered meanwhile."""
    proxy = own_proxy("reverse")
    send = Sender(clients.http(proxy), proxy, upstream)
    lines = "".join(f"step {n}: nothing to see in 0.{n % 7} s\n" for n in range(60_000))
    send()
    proxy.command("tests.forget")
    send(lines)
    assert proxy.flows()[-1]["metadata"]["penumbra"]["changed"]
