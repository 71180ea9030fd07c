"""Strategies in a real mitmdump: what the service is asked, what is forwarded, and that it stays the same."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from penumbra.wire.request_path import HEADER
from support.agents.model import Model, refs
from support.agents.model import ask as asks_for
from support.agents.raw import Conversation
from support.agents.requests import assert_bytes_kept, hidden_results, result_texts
from support.apis import chat
from support.compressor_service import Does, Service
from support.mitm.web import free_port
from support.upstream import turn

TOOLS = [
    {"name": name, "description": "A tool.", "input_schema": {"type": "object", "properties": {}}}
    for name in ("Bash", "Read", "WebFetch")
]
WORDS = re.findall(
    r"\w+",
    """river stone lamp cedar north violin copper harbour meadow signal paper winter saddle orchard pepper
    thunder velvet canyon marble ribbon lantern barley falcon glacier hollow island jasper kettle lemon
    mirror needle ocean pillow quartz rocket silver timber umbrella valley walnut yellow zephyr""",
)
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


def prose(name: str, lines: int = 60) -> str:
    """Return text of about 40 bytes a line, which the pipeline can't shorten."""
    chance = random.Random(name)
    return "\n".join(f"{name} " + " ".join(chance.choices(WORDS, k=6)) for _ in range(lines))


class Talk(Conversation):
    """A `Talk` is a conversation whose results come with a reminder of the client."""

    def prints(self, *texts: str, tool: str = "Bash", command: str = "", after: Sequence[Any] = ()) -> None:
        reminder = {"type": "text", "text": "<system-reminder>Never say never.</system-reminder>"}
        super().prints(*texts, tool=tool, command=command, after=[*after, reminder])

    def run(self, *texts: str, tool: str = "Bash", command: str = "", **more: Any) -> Any:
        """Run tool calls; return their outputs, and the request that carried them."""
        self.prints(*texts, tool=tool, command=command)
        return self.send(**more)


Start = Callable[..., tuple[Any, Talk]]


@pytest.fixture(scope="session")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("configs")


@pytest.fixture
def start(
    proxy: Any, own_proxy: Any, clients: Any, api_key: str, service: Service, configs: Path, upstream: Any
) -> Start:
    """`start(strategy, alone=False, environment=..., mode=..., options=..., providers=..., own=...,
    timeout=..., **tool_output)` returns a conversation and its proxy, which is shared unless it is to be
    alone."""

    def begin(strategy: str = "api", *, alone: bool = False, **more: Any) -> tuple[Any, Talk]:
        environment, options = more.pop("environment", {}), more.pop("options", {})
        mode = more.pop("mode", "regular")
        config: dict[str, Any] = {"providers": more.pop("providers", {}), "penumbra": more.pop("own", {})}
        api = {"endpoint": service.url, "api_key": "cmp_1", "timeout": more.pop("timeout", "10s")}
        config["pipes"] = {
            "tool_output": {"strategy": strategy, "min_bytes": 512, "skip_tools": ["WebFetch"], "api": api}
        }
        config["pipes"]["tool_output"] |= more
        text = yaml.safe_dump(config)
        path = configs / f"{hashlib.sha256(text.encode()).hexdigest()}.yaml"
        path.write_text(text)
        if alone or environment:
            running = own_proxy(mode, environment=environment, penumbra_config=str(path), **options)
        else:
            running = proxy("regular", penumbra_config=str(path))
        return running, Talk(clients.http(running), api_key, TOOLS)

    return begin


def forwarded(upstream: Any, turn_number: int = -1) -> list[str]:
    return list(result_texts(upstream.asked()[turn_number].json))


def test_small_and_huge_results_pass_and_others_are_shortened_for_good(
    start: Start, service: Service, upstream: Any
) -> None:
    proxy, talk = start(max_bytes=10_000, alone=True)
    small, middle, huge = prose("small", 5), prose("middle"), prose("huge", 2_400)
    talk.run(f"\x1b[31m{small}\x1b[0m", middle, huge)
    sent = forwarded(upstream)
    # Results that are sent to no service are shortened as usual: 94 KB become an excerpt.
    assert sent[0] == small
    assert sent[2].startswith("<<<SHADOW:")
    assert len(sent[2]) < 10_000
    ref, _ = refs(upstream.asked()[-1])
    first_line, hint, *rest = sent[1].split("\n")
    assert first_line == f"<<<SHADOW:{ref}>>>"
    assert "expand_context" in hint
    assert "\n".join(rest) == f"{middle[:60].strip()} (version 1)"
    [asked] = service.asked
    assert asked.body["tool_output"] == middle
    assert asked.body["query"] == "Which job is slow?\ncommand: ./run 0002"
    for _ in range(3):
        talk.said()
        talk.run(prose(f"later {len(talk.messages)}"))
    assert_bytes_kept(upstream.asked())
    assert [asked.body["tool_output"][:6] for asked in service.asked] == [
        "middle",
        "later ",
        "later ",
        "later ",
    ]
    proxy.restart()
    service.does(text="another form of it")
    again = Talk(
        talk.client.__class__(verify=proxy.trust(), proxy=proxy.url, trust_env=False), talk.key, TOOLS
    )
    again.messages = talk.messages
    again.said()
    again.send()
    assert_bytes_kept(upstream.asked())
    assert len(service.asked) == 4


def test_the_log_and_the_figures_tell(
    start: Start, service: Service, upstream: Any, api_key: str, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    proxy, talk = start(alone=True, own={"events": str(events)})
    talk.run(prose("report"), command="./report")
    [ref] = refs(upstream.asked()[-1])
    assert f"strategy api: toolu_own{1:021} (Bash): miss, " in proxy.log()
    assert f"mapped to {ref}" in proxy.log()
    # The service is not called for a result that is known from another place.
    talk.said("So it is.")
    other = Talk(talk.client, api_key, TOOLS, first_call=7)
    other.run(prose("report"), command="./report")
    assert f"strategy api: toolu_own{7:021} (Bash): hit, " in proxy.log()
    assert forwarded(upstream)[0] == forwarded(upstream, 0)[0]
    service.does(status=500)
    other.run(prose("other"))
    assert f"strategy api: toolu_own{8:021} (Bash): no response (status)" in proxy.log()
    metrics = proxy.command("penumbra.stats")
    assert "1 hits, 1 misses, 1 without an answer" in metrics
    assert "2 calls (0 shared), 1,000 tokens in, 40 out" in metrics
    assert "no answer   status 1" in metrics
    assert "report 0" not in proxy.log()
    assert "cmp_1" not in proxy.log()
    # Decisions without the service, and results that stay unchanged, are remembered, too.
    other.run("short")
    proxy.stop()
    found = [json.loads(line) for line in events.read_text().split("\n") if line]
    new = [
        (entry["asked"], entry["cache_hit"], event["strategy"]) for event in found for entry in event["new"]
    ]
    assert new == [
        ("miss", False, "api"),
        ("hit", True, "api"),
        ("status", False, "api"),
        ("not above min_bytes", False, "api"),
    ]
    assert found[0]["new"][0]["shadow_id"] == ref


@pytest.mark.parametrize("stream", [False, True])
def test_the_model_gets_the_original_when_it_asks(
    stream: bool, start: Start, service: Service, upstream: Any
) -> None:
    _, talk = start("simple")
    text = prose("report")
    upstream.script(Model(asks_for(), turn("It is job 17.")))
    answer = talk.run(text, stream=stream)
    assert "It is job 17." in answer.text
    assert "expand_context" not in answer.text
    first, second = upstream.asked()
    assert forwarded(upstream, 0)[0].endswith("...")
    [given] = hidden_results(second)
    assert text in given
    assert len(refs(first)) == 1
    assert service.asked == []


@pytest.mark.parametrize("fallback", ["passthrough", "pipeline", "simple"])
@pytest.mark.parametrize("trouble", ["error", "timeout"])
def test_a_result_without_an_answer_takes_the_fallback_and_keeps_it(
    trouble: str, fallback: str, start: Start, service: Service, upstream: Any
) -> None:
    _, talk = start(fallback_strategy=fallback, timeout="1s")
    text = "the same line again and again\n" * 90
    service.behaviour = lambda asked: Does(status=500) if trouble == "error" else Does(hang=True)
    talk.run(text)
    [sent] = forwarded(upstream)
    if fallback == "passthrough":
        assert sent == text
    elif fallback == "pipeline":
        assert len(sent) < 200
        assert "SHADOW" not in sent
    else:
        assert sent.startswith("<<<SHADOW:")
        assert sent.endswith("...")
    service.does()
    talk.said()
    talk.run(prose("later"))
    assert "(version " in forwarded(upstream)[1]
    assert_bytes_kept(upstream.asked())


def test_a_chain_asks_only_about_results_that_the_pipeline_left_large(
    start: Start, service: Service, upstream: Any
) -> None:
    _, talk = start("pipeline+api")
    repeated = "the same line again and again\n" * 300
    talk.run(repeated, prose("large", 300))
    [asked] = service.asked
    assert "large " in asked.body["tool_output"]
    assert "the same line" not in asked.body["tool_output"]
    sent = forwarded(upstream)
    assert len(sent[0]) < 200
    assert sent[1].startswith("<<<SHADOW:")
    service.does(status=500)
    talk.said()
    large = prose("also large", 300) + "\n" + "again and again\n" * 50
    talk.run(large)
    last = forwarded(upstream)[-1]
    assert len(last) < len(large) - 500
    assert "(version" not in last
    # The service is asked before an excerpt is made, which is the form without an answer.
    long = prose("long", 700)
    talk.run(long)
    assert service.asked[-1].body["tool_output"] == long
    last = forwarded(upstream)[-1]
    assert last.startswith("<<<SHADOW:")
    assert len(last) < 10_000
    service.does()
    talk.run(prose("longer", 700))
    assert "(version" in forwarded(upstream)[-1]


def test_protected_results_go_to_no_compressor(start: Start, service: Service, upstream: Any) -> None:
    _, talk = start()
    text = prose("report")
    talk.run(text, tool="WebFetch")
    talk.run(text + "x", tool="Read")
    talk.run(text + "y", command="cat notes.txt")
    talk.messages[-1]["content"][0]["is_error"] = True
    talk.send()
    assert service.asked == []
    assert [body.endswith(end) for body, end in zip(forwarded(upstream), ("", "x", "y"), strict=True)] == [
        True
    ] * 3
    talk.run(text + "z", _forge={"tool_output_compression": "disabled"})
    assert forwarded(upstream)[-1] == text + "z"
    assert service.asked == []


def test_only_redacted_text_leaves_and_answers_are_searched(
    start: Start, service: Service, upstream: Any
) -> None:
    _, talk = start()
    talk.messages[0]["content"] = f"Why is my token {SECRET} refused?"
    line = f"export GITHUB_TOKEN={SECRET}"
    service.does(text=f"fine {line}")
    talk.run(prose("report") + "\n" + line, command=f"curl -H 'Authorization: Bearer {SECRET}' x")
    [asked] = service.asked
    assert SECRET not in json.dumps(asked.body)
    assert "[REDACTED:" in asked.body["tool_output"]
    [sent] = forwarded(upstream)
    assert SECRET not in sent
    assert sent.startswith("<<<SHADOW:")
    assert "fine export GITHUB_TOKEN=[REDACTED:" in sent


def test_token_counting_asks_no_compressor(start: Start, service: Service) -> None:
    _, talk = start()
    talk.prints(prose("report"))
    talk.count()
    assert service.asked == []
    talk.send()
    assert len(service.asked) == 1


def test_a_provider_is_asked_with_the_clients_own_credential_if_that_is_allowed(
    start: Start, service: Service, clients: Any, tmp_path: Path
) -> None:
    """Client, provider and compressor are one host, the only one that the credential may go to."""
    providers = {"openai": {"auth": "oauth", "model": "small", "endpoint": service.url}}
    allowed = {"allow_captured_credentials": True}
    proxy, talk = start("external_provider", providers=providers, own=allowed)

    def behave(asked: Any) -> Does:
        return Does(text="Done.") if "tools" in asked.body else Does(text="in short")

    service.behaviour = behave
    tools = [{"type": "function", "function": {"name": "Bash", "parameters": {}}}]
    for key in ("first", "second"):
        body = chat(prose("report", 40), tools=tools)
        headers = {"authorization": f"Bearer {key}"}
        answer = talk.client.post(f"{service.url}/v1/chat/completions", json=body, headers=headers)
        assert answer.json()["choices"][0]["message"]["content"] == "Done."
        asked, request = service.asked
        assert asked.headers["authorization"] == request.headers["authorization"] == f"Bearer {key}"
        assert "in short" in request.body["messages"][-1]["content"]
        service.asked.clear()
    # The credential of another provider's client is not used.
    talk.run(prose("report"))
    assert service.asked == []
    assert "no response (no credential)" in proxy.log()


def test_without_a_key_the_clients_own_credential_is_spent_where_that_is_allowed(
    start: Start, own_proxy: Any, upstream: Any, confdir: Path, api_key: str
) -> None:
    """The provider is asked at its own host, through a proxy of the environment that leads to the test
    provider."""
    front = own_proxy("regular", addon=False)
    trust = {"HTTPS_PROXY": front.url, "SSL_CERT_FILE": str(confdir / "mitmproxy-ca-cert.pem")}
    _, talk = start(
        "external_provider",
        providers={"anthropic": {}},
        own={"allow_captured_credentials": True, "cost_check": False},
        environment=trust,
        mode=f"upstream:{front.url}",
        options={"ssl_insecure": "true"},
    )
    upstream.answers(turn("in short"), turn("Done."))
    talk.run(prose("report"))
    asked, request = upstream.asked()
    assert asked.header("x-api-key") == request.header("x-api-key") == api_key
    assert "<output-" in asked.json["messages"][0]["content"]
    assert forwarded(upstream)[0].endswith("in short")


def test_a_missing_login_is_reported_at_the_start_and_once_for_a_host(start: Start, upstream: Any) -> None:
    own = {"allow_captured_credentials": True}
    proxy, talk = start("external_provider", providers={"openai": {"auth": "oauth"}}, own=own)
    assert (
        "providers.openai: oauth spends what the client was authorised with, but a login with" in proxy.log()
    )
    for name in ("report", "other"):
        text = "the same line again and again\n" * 90 + name
        talk.run(text)
        assert len(forwarded(upstream)[-1]) < 200
    found = r"the provider openai takes no credential of clients of api\.anthropic\.com:\d+, only of those of"
    assert len(re.findall(found, proxy.log())) == 1


def test_a_proxy_of_the_environment_is_used_and_a_call_that_comes_back_is_left_alone(
    start: Start, own_proxy: Any, service: Service, upstream: Any
) -> None:
    """The environment names Penumbra's own proxy, so the call returns to its sender."""
    port = str(free_port())
    front = own_proxy(f"upstream:http://127.0.0.1:{port}", addon=False)
    proxy, talk = start(
        "external_provider",
        providers={"mine": {"model": "small", "endpoint": service.url}},
        environment={"HTTP_PROXY": front.url, "http_proxy": front.url},
        options={"listen_port": port},
    )
    talk.run(prose("report"))
    assert "(version 1)" in forwarded(upstream)[0]
    assert [flow["path"] for flow in front.flows()] == ["/v1/chat/completions"]
    ours = {flow["path"]: flow["metadata"] for flow in proxy.flows()}
    assert ours.keys() == {"/v1/messages", "/v1/chat/completions"}
    assert "penumbra" in ours["/v1/messages"]
    assert "penumbra" not in ours["/v1/chat/completions"]
    [asked] = service.asked
    assert HEADER not in asked.headers


def test_a_call_of_a_compressor_never_passes_through_this_proxy(
    start: Start, service: Service, upstream: Any
) -> None:
    port = str(free_port())
    own = f"http://127.0.0.1:{port}"
    proxy, talk = start(environment={"HTTP_PROXY": own, "http_proxy": own}, options={"listen_port": port})
    talk.run(prose("report"))
    assert "(version 1)" in forwarded(upstream)[0]
    assert [flow["path"] for flow in proxy.flows()] == ["/v1/messages"]
