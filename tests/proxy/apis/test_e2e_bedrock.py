"""Amazon Bedrock's signatures: a signed request can only be changed with its own keys."""

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, EventStreamError
from urllib3.exceptions import ProtocolError

from penumbra.wire.sigv4 import AwsKeys, Signable
from support.agents.agent import PRINTS, AnthropicAgent, bash
from support.agents.callers import HOST, SIGNING, ConverseAgent, InvokeAgent, anthropic_bedrock, boto
from support.agents.model import CAP, COMMANDS, Model, ask
from support.agents.requests import PHANTOM, assert_prefix_kept, hidden_results, results
from support.mitm import Mitmdump
from support.mitm.starter import Starter
from support.upstream import Fault, Upstream, amazon, turn
from support.upstream.script import ToolCall


@pytest.fixture(scope="session")
def signing_proxy(
    provider: Upstream, confdir: Path, starter: Starter | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mitmdump]:
    """A proxy that has the keys that the test provider knows. Tests must not change it."""
    options = {"penumbra_aws_signing": "environment", "penumbra_max_output_bytes": CAP}
    home = tmp_path_factory.mktemp("signing")
    running = Mitmdump(provider, confdir, home, options=options, environment=SIGNING, starter=starter)
    running.start()
    yield running
    running.stop()


PATH = "/model/us.anthropic.claude-3-5-sonnet-20241022-v2%3A0/converse"
KEYS = AwsKeys(amazon.KEY_ID, amazon.SECRET)


def conversation() -> bytes:
    call = {"toolUse": {"toolUseId": "tooluse_1", "name": "Bash", "input": {"command": "pytest -v"}}}
    result = {"toolUseId": "tooluse_1", "content": [{"text": PRINTS["pytest -v"]}]}
    messages = [
        {"role": "user", "content": [{"text": "Why does it fail?"}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]
    return json.dumps({"messages": messages, **ConverseAgent.API.rest}).encode()


def headers(body: bytes, keys: AwsKeys = KEYS, **more: str) -> dict[str, str]:
    plain = {"Content-Type": "application/json", **more}
    request = AWSRequest("POST", f"https://{HOST}{PATH}", plain, body)
    SigV4Auth(Credentials(keys.id, keys.secret), "bedrock", "us-east-1").add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


CONVERSATION = conversation()


@pytest.fixture
def send(clients: Any, upstream: Any) -> Any:
    def send(running: Any, body: bytes = CONVERSATION, **more: str) -> tuple[int, bytes, bool]:
        """Return the status of the answer, the body that reached the provider, and whether that was
        changed."""
        client = clients.http(running)
        answer = client.post(f"https://{HOST}{PATH}", content=body, headers=more or headers(body))
        received = upstream.requests[-1]
        return answer.status_code, received.raw_body, received.raw_body != body

    return send


def test_requests_with_a_key_are_read(send: Any, proxy: Any) -> None:
    key = {"authorization": "Bearer k", "content-type": "application/json"}
    status, body, changed = send(proxy("regular"), **key)
    assert (status, changed) == (200, True)
    (result,) = json.loads(body)["messages"][2]["content"]
    (text,) = [block["text"] for block in result["toolResult"]["content"]]
    assert "assert 702 == 700" in text
    assert len(text) < 0.7 * len(PRINTS["pytest -v"])


def test_headers_that_are_changed_were_signed_too(send: Any, signing_proxy: Any) -> None:
    """The test provider refuses what is not signed well."""
    more = {"Accept-Encoding": "gzip, exi", "X-Compression-Threshold": "100"}
    signed = headers(CONVERSATION, **more, **{"Content-Length": str(len(CONVERSATION))})
    assert "accept-encoding;content-length;content-type;host;x-amz-date;x-comp" in signed["authorization"]
    status, _, changed = send(signing_proxy, **signed)
    assert (status, changed) == (200, True)
    nothing_to_do = b'{"messages":[{"role":"user","content":[{"text":"hi"}]}]}'
    status, _, changed = send(signing_proxy, nothing_to_do, **headers(nothing_to_do, **more))
    assert (status, changed) == (200, False)


def test_a_request_is_not_signed_with_other_keys(send: Any, signing_proxy: Any) -> None:
    for keys in (AwsKeys(KEYS.id, "another"), AwsKeys("AKIDOTHER", KEYS.secret)):
        status, _, changed = send(signing_proxy, **headers(CONVERSATION, keys))
        assert (status, changed) == (403, False)
    assert signing_proxy.log().count("they are signed") == 1


def test_hidden_requests_are_signed_with_their_own_time(send: Any, signing_proxy: Any, upstream: Any) -> None:
    """A model may think for longer than a signature is valid."""
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=4)
    date = before.strftime("%Y%m%dT%H%M%SZ")
    signed = headers(CONVERSATION)
    earlier = KEYS.sign(Signable("POST", PATH, {"host": HOST, **signed}, CONVERSATION), date)
    upstream.answers(turn(ToolCall("expand_context", {"id": "shadow_no"})), turn("Done."))
    assert send(signing_proxy, **{**signed, **earlier})[0] == 200
    first, second = upstream.asked()
    assert first.header("x-amz-date") == date
    assert second.header("x-amz-date") > date
    assert second.status == 200


LOG = COMMANDS["cat worker.log"]
Start = Callable[..., Any]
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])


@pytest.fixture
def start(clients: Any, api_key: str, proxy: Any) -> Start:
    """An agent with an API key, or, with `signs`, one that signs its requests."""

    def start(api: str, running: Any = None, signs: bool = False, **more: Any) -> Any:
        running = running or proxy("regular", penumbra_max_output_bytes=CAP)
        token = "" if signs else api_key
        if api == "anthropic":
            return AnthropicAgent(anthropic_bedrock(clients, running, token), **more)
        kind = ConverseAgent if api == "converse" else InvokeAgent
        return kind(boto(running, token=token), token=token, **more)

    return start


@both_ways
@pytest.mark.parametrize("api", ["converse", "invoke"])
def test_a_failing_continuation(api: str, stream: bool, start: Start, upstream: Any) -> None:
    upstream.script(Model(turn(bash("cat worker.log")), ask("One moment."), Fault(400, "Too many cats.")))
    agent = start(api, stream=stream)
    if stream:
        with pytest.raises(ProtocolError, match="ended prematurely"):
            agent.say("What is in the log?")
        return
    # The client's own request was valid, so the status is one after which clients try again.
    with pytest.raises(ClientError, match="status 400") as caught:
        agent.say("What is in the log?")
    assert caught.value.response["Error"]["Code"] == "InternalServerException"


@pytest.mark.parametrize("api", ["converse", "invoke"])
def test_an_error_in_the_middle_of_a_stream(api: str, start: Start, upstream: Any) -> None:
    """The client gets the provider's own error, after a hidden request, too."""
    for step in (ask("One moment.", delivery={"error_after": 2}), ask("Well.")):
        failing = turn("abc", delta=1, error_after=4)
        upstream.script(Model(turn(bash("cat worker.log")), step, failing))
        with pytest.raises(EventStreamError) as caught:
            start(api, stream=True).say("What is in the log?")
        assert caught.value.response["Error"]["Code"] == "throttlingException"
    upstream.script(Model(turn(bash("cat worker.log")), ask("Well."), turn("a" * 99, cut_after=2)))
    with pytest.raises(ProtocolError):
        start(api, stream=True).say("What is in the log?")


def test_signed_requests_are_signed_anew(start: Start, upstream: Any, signing_proxy: Any) -> None:
    for api in ("converse", "invoke", "anthropic"):
        for stream in (False, True):
            upstream.requests.clear()
            upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("NEEDLE-90 it is.")))
            agent = start(api, signing_proxy, signs=True, stream=stream)
            assert agent.say("What is in the log?").endswith("NEEDLE-90 it is.")
            upstream.script(Model(turn("Done.")))
            assert agent.say("Go on.") == "Done."
            assert [request.problem for request in upstream.asked() if request.problem] == []
            assert all(
                "SignedHeaders" in str(request.header("authorization")) for request in upstream.asked()
            )
            assert hidden_results(upstream.asked()[-1]) == [LOG]
            assert len(upstream.asked()) == 4
            assert_prefix_kept(upstream.asked())


def test_signed_requests_pass_untouched_with_one_line(start: Start, upstream: Any, own_proxy: Any) -> None:
    running = own_proxy("regular", penumbra_max_output_bytes=CAP)
    for api in ("converse", "invoke", "anthropic"):
        upstream.script(Model(turn(bash("cat worker.log")), turn("So it is.")))
        agent = start(api, running, signs=True, stream=True)
        assert agent.say("What is in the log?") == "So it is."
        assert upstream.statuses() == {200}
        assert dict(results(upstream.asked()[-1].json))["Bash"] == LOG
        assert PHANTOM not in str(upstream.asked()[-1].json)
    assert running.log().count("they are signed") == 1


def test_without_botocore_the_model_cannot_ask(
    start: Start, upstream: Any, own_proxy: Any, tmp_path: Path
) -> None:
    script = tmp_path / "without.py"
    script.write_text(
        "import sys\nsys.modules['botocore'] = None\nfrom penumbra.addon import Penumbra\naddons = [Penumbra()]\n"
    )
    running = own_proxy("regular", script=script, forked=False, penumbra_max_output_bytes=CAP)
    upstream.answers(turn(bash("cat worker.log")), turn("Done."))
    agent = start("converse", running, stream=True)
    assert agent.say("What is in the log?") == "Done."
    assert all(PHANTOM not in str(request.json) for request in upstream.asked())
    assert len(dict(results(upstream.asked()[-1].json))["Bash"]) < len(LOG)
    assert running.log().count("penumbra-proxy[bedrock]") == 1
