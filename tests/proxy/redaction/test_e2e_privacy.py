"""What stays in flows: in mitmweb, in saved files, in exports."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.io import FlowReader

from penumbra.expand import reference
from penumbra.redaction.placeholder import PATTERN
from support.agents.apis import CLIENTS
from support.agents.disk import PATH, Disk, give_tools
from support.agents.model import CAP, log, refs
from support.mitm.web import Mitmweb
from support.planted import GITHUB, PASSWORD, anthropic
from support.upstream import ToolCall, turn

NOTE = re.compile(rb"\[\d+ bytes, not kept by Penumbra\]")
BY_NAME = {api.name: api for api in CLIENTS}
COUNTED = "Done."


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = give_tools(monkeypatch)
    found.prints["cat worker.log"] = log()
    return found


def expand(received: Any) -> ToolCall:
    """A call of the injected tool, as it is called where values are put back."""
    return ToolCall(reference.EDITING_NAMES["expand_context"], {"id": refs(received)[-1]})


def session(upstream: Any) -> None:
    """A secret is read and put back, and an original is asked for."""

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
    """`play(name, stream, file, **options)`: the flows that a session leaves in a file."""

    def play(name: str, stream: bool, file: Path, **options: str) -> list[Any]:
        options |= {"penumbra_restore_secrets": "edits", "penumbra_max_output_bytes": CAP}
        running = own_proxy("regular", save_stream_file=str(file), **options)
        session(upstream)
        agent = BY_NAME[name].caller(clients, running, api_key, False, stream=stream)
        assert agent.say("Go.") == COUNTED
        assert f"DB_PASSWORD={PASSWORD}\nX=1\n" in disk.files[PATH]
        assert {one.status for one in upstream.asked()} == {200}
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
    """The client and the model get everything, hidden answers too; a saved file has none of it."""
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
    """What mitmweb's own interface answers."""
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
