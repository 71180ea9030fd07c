"""The content of flows in mitmweb, in saved files and in exports."""

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.io import FlowReader

from penumbra.expand import reference
from penumbra.redaction.placeholder import PATTERN
from support.agents.apis import BY_NAME
from support.agents.disk import PATH, Disk, give_tools
from support.agents.model import CAP, log, refs
from support.agents.websocket_caller import opened
from support.error_shapes import PATHS, said
from support.mitm.web import Mitmweb
from support.planted import GITHUB, PASSWORD, anthropic
from support.upstream import Raw, ToolCall, encode, turn

NOTE = re.compile(rb"\[\d+ bytes, not kept by Penumbra\]")
COUNTED = "Done."


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = give_tools(monkeypatch)
    found.prints["cat worker.log"] = log()
    return found


def expand(received: Any) -> ToolCall:
    """Return a call of the injected tool, as it is called where values are put back."""
    return ToolCall(reference.EDITING_NAMES["expand_context"], {"id": refs(received)[-1]})


def session(upstream: Any) -> None:
    """Run a session in which a secret is read and put back, and an original is asked for."""

    def edit(received: Any) -> Any:
        mark = PATTERN.search(received.body.decode())
        assert mark
        line = f"DB_PASSWORD={mark[0]}"
        arguments = {"file_path": PATH, "old_string": line, "new_string": line + "\nX=1"}
        return turn(expand(received), ToolCall("Edit", arguments))

    steps = [
        lambda received: turn(
            ToolCall("Read", {"file_path": PATH}), ToolCall("Bash", {"command": "cat worker.log"})
        ),
        lambda received: turn(expand(received)),
        edit,
    ]
    upstream.script(lambda received: steps.pop(0)(received) if steps else turn(COUNTED))


def saved(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(FlowReader(file).stream())


@pytest.fixture
def play(disk: Disk, clients: Any, api_key: str, own_proxy: Any, upstream: Any) -> Any:
    """`play(name, stream, file, **options)` returns the flows that a session leaves in a file."""

    def play(name: str, stream: bool, file: Path, **options: str) -> list[Any]:
        options |= {"penumbra_restore_secrets": "edits", "penumbra_max_output_bytes": CAP}
        running = own_proxy("regular", save_stream_file=str(file), **options)
        session(upstream)
        agent = BY_NAME[name].caller(clients, running, api_key, False, stream=stream)
        assert agent.say("Go.") == COUNTED
        assert f"DB_PASSWORD={PASSWORD}\nX=1\n" in disk.files[PATH]
        assert upstream.statuses() == {200}
        running.stop()
        return saved(file)

    return play


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("name", ["anthropic", "chat"])
def test_a_saved_file_shows_placeholders(
    name: str, stream: bool, play: Any, upstream: Any, tmp_path: Path
) -> None:
    file = tmp_path / "flows"
    found = play(name, stream, file)
    contents = [message.raw_content for flow in found for message in (flow.request, flow.response)]
    assert len(contents) == 2 * len(upstream.asked())
    assert not any(NOTE.search(content) for content in contents)
    assert PASSWORD.encode() not in file.read_bytes()
    assert any(PATTERN.search(content.decode()) and b"old_string" in content for content in contents[1::2])


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("name", ["anthropic", "responses", "gemini"])
def test_blank_flows(name: str, stream: bool, play: Any, upstream: Any, tmp_path: Path) -> None:
    """The client and the model get everything, hidden answers, too; a saved file has none of it."""
    file = tmp_path / "flows"
    found = play(name, stream, file, hardump=str(tmp_path / "har"), penumbra_blank_flows="all")
    assert len(found) == len(upstream.asked())
    for flow in found:
        assert NOTE.fullmatch(flow.request.raw_content)
        assert NOTE.fullmatch(flow.response.raw_content)
    har = json.loads((tmp_path / "har").read_text())
    assert len(har["log"]["entries"]) == len(found)
    data = file.read_bytes() + json.dumps(har).encode()
    for text in (PASSWORD, "NEEDLE-90", COUNTED, "old_string"):
        assert text.encode() not in data


def web(running: Mitmweb, path: str) -> bytes:
    """Return the answer of mitmweb's own interface."""
    with urllib.request.urlopen(running.address(path), timeout=30) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("blank", ["off", "secrets", "all"])
def test_mitmweb(
    blank: str, clients: Any, api_key: str, upstream: Any, confdir: Path, tmp_path: Path
) -> None:
    running = Mitmweb(upstream, confdir, tmp_path / "web", options={"penumbra_blank_flows": blank})
    api = BY_NAME["anthropic"]
    try:
        client = clients.http(running.start())
        bodies = [api.body("Plain words.", True), api.body("More words.", False)]
        for body in (*bodies, anthropic(f"GITHUB_TOKEN={GITHUB}\n")):
            answer = client.post(f"{api.host}/v1/messages", json=body, headers=api.headers(api_key))
            assert answer.status_code == 200
            assert b"Understood" in answer.content
        flows = json.loads(web(running, "/flows"))
        parts = ("request", "response")
        contents = [
            [web(running, f"/flows/{flow['id']}/{part}/content.data") for part in parts] for flow in flows
        ]
    finally:
        running.stop()
    *plain, secret = contents
    assert len(plain) == 2
    for content in plain:
        assert [bool(NOTE.fullmatch(part)) for part in content] == [blank == "all"] * 2
    assert [bool(NOTE.fullmatch(part)) for part in secret] == [blank != "off"] * 2
    assert GITHUB.encode() not in b"".join(map(b"".join, contents)) + json.dumps(flows).encode()
    assert (b"[REDACTED:github-token:" in secret[0]) == (blank == "off")


def test_a_refused_request_is_blanked_too(
    clients: Any, api_key: str, own_proxy: Any, upstream: Any, tmp_path: Path
) -> None:
    file, api = tmp_path / "flows", BY_NAME["anthropic"]
    options = {"penumbra_redaction_max_bytes": "1k", "penumbra_blank_flows": "secrets"}
    running = own_proxy("regular", save_stream_file=str(file), **options)
    body = anthropic(f"GITHUB_TOKEN={GITHUB}\n" * 40)
    answer = clients.http(running).post(f"{api.host}/v1/messages", json=body, headers=api.headers(api_key))
    assert answer.status_code >= 400
    assert b"search this request for secrets" in answer.content
    running.stop()
    (flow,) = saved(file)
    assert NOTE.fullmatch(flow.request.raw_content)
    assert GITHUB.encode() not in file.read_bytes()


WORDS = "words that nobody is to keep"


@pytest.mark.parametrize("blank", ["off", "secrets"])
def test_messages(blank: str, api_key: str, own_proxy: Any, upstream: Any, tmp_path: Path) -> None:
    file = tmp_path / "flows"
    options = {"penumbra_websocket": "rewrite", "penumbra_blank_flows": blank, "save_stream_file": str(file)}
    running = own_proxy("reverse", **options)
    request = {"type": "response.create", "model": "m", "input": [{"role": "user", "content": WORDS}]}
    with opened(running, api_key) as socket:
        socket.send(json.dumps(request))
        while '"type": "response.completed"' not in (event := socket.recv(30)):
            assert event
    running.stop()
    with file.open("rb") as saved:
        flows = [flow for flow in FlowReader(saved).stream() if flow.websocket is not None]
    contents = [message.content for flow in flows for message in flow.websocket.messages]
    assert len(contents) > 3
    assert all(b"not kept by Penumbra" in content for content in contents) == (blank == "secrets")
    assert (WORDS.encode() in file.read_bytes()) == (blank == "off")
    assert WORDS.encode() in upstream.asked()[0].raw_body


BODY = json.dumps(anthropic(f"GITHUB_TOKEN={GITHUB}"), ensure_ascii=False)
UNREADABLE = {
    "unknown coding": ("lzma", BODY.encode(), 400),
    "coding that is none": ("zstd", BODY.encode(), 400),
    "cut off": ("zstd", encode("zstd", BODY.encode())[:-9], 400),
    "data behind its end": ("gzip", encode("gzip", BODY.encode()) + BODY.encode(), 400),
    "too large": ("", (BODY + " " * 300_000).encode(), 413),
    "too large when decoded": ("gzip", encode("gzip", (BODY + " " * 300_000).encode()), 413),
    "no JSON": ("", BODY[:-1].encode(), 400),
    "a comment": ("", (BODY + "// x").encode(), 400),
    "a mark in front": ("", BODY.encode("utf-8-sig"), 400),
    "two bytes a letter": ("", BODY.encode("utf-16"), 400),
    "not UTF-8": ("", BODY.replace("hi", "\xe9").encode("latin-1"), 400),
    "deep nesting": (
        "",
        BODY.replace('"m"', "[" * 100_000 + "]" * 100_000).replace('"hi"', '"' + GITHUB + '"').encode(),
        400,
    ),
}


@pytest.fixture
def ask(proxy: Any, clients: Any) -> Any:
    def ask(coding: str, body: bytes, *, path: str = PATHS["anthropic-messages"], **more: Any) -> Any:
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        headers |= {"content-encoding": coding} if coding else {}
        running = proxy("reverse", penumbra_max_body_bytes="280k", **more.pop("options", {}))
        answer = clients.http(running).post(running.url + path, content=body, headers={**headers, **more})
        assert GITHUB not in answer.text + running.log()
        return answer

    return ask


@pytest.mark.parametrize("name", UNREADABLE)
def test_nothing_is_sent(name: str, ask: Any, upstream: Any) -> None:
    coding, body, status = UNREADABLE[name]
    answer = ask(coding, body)
    assert upstream.requests == []
    assert answer.status_code == status
    message = said("anthropic-messages", status, answer.json())
    assert message.startswith(
        "Penumbra could not search this request for secrets and did not send it: its body"
    )


@pytest.mark.parametrize("name", ["cut off", "too large", "no JSON"])
def test_a_mask_can_not_be_put_on_a_body(name: str, ask: Any, upstream: Any) -> None:
    coding, body, status = UNREADABLE[name]
    assert ask(coding, body, options={"penumbra_redaction_failure": "mask"}).status_code == status
    assert upstream.requests == []


@pytest.mark.parametrize(
    "options", [{"penumbra_redaction_failure": "pass"}, {"penumbra_redact_secrets": "false"}]
)
def test_an_operator_may_let_it_pass(options: Any, ask: Any, upstream: Any) -> None:
    for coding, body, _ in UNREADABLE.values():
        ask(coding, body, options=options)
        assert upstream.requests[-1].raw_body == body
    assert len(upstream.requests) == len(UNREADABLE)


def test_traffic_that_is_no_call_passes(ask: Any, upstream: Any) -> None:
    """Paths that need their bytes, texts without secrets, and empty bodies pass."""
    coding, body, _ = UNREADABLE["cut off"]
    for path in ("/v1/embeddings", "/v1/oauth/token", "/api/event_logging/batch"):
        upstream.pages[path] = Raw(body=b"{}")
        ask(coding, body, path=path)
        assert upstream.requests[-1].raw_body == body
    for kind, plain in (
        ("multipart/form-data; boundary=x", b"--x--"),
        ("text/plain", b"model=m"),
        ("", b" "),
    ):
        ask("", plain, **({"content-type": kind} if kind else {}))
        assert upstream.requests[-1].raw_body == plain
    assert len(upstream.requests) == 6
