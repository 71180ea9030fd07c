"""`penumbra replay` reads calls of LLMs in flows and HAR."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow

from penumbra.cli import replay
from penumbra.cli.command import Failure
from support.apis import BY_ID, printed

LONG = "".join(f"tests/test_{number}.py::test_it PASSED\n" for number in range(400)) + "400 passed in 3 s\n"
URL = "https://api.anthropic.com/v1/messages"


def _body(turns: int) -> dict[str, Any]:
    results = (f"run {number}\n{LONG}" for number in range(turns))
    said = printed(*results, words="run the tests", arguments=lambda _: {"command": "pytest -v"})
    messages = BY_ID["anthropic-messages"].written(said)
    tools = [{"name": "Bash", "input_schema": {"type": "object"}}]
    return {"model": "claude-opus-4-5", "max_tokens": 9, "tools": tools, "messages": messages}


def _flow(url: str, body: bytes, coding: str = "") -> http.HTTPFlow:
    made = tflow.tflow()
    headers = {"x-api-key": "k", "content-type": "application/json"}
    made.request = http.Request.make("POST", url, body, headers)
    if coding:
        made.request.headers["content-encoding"] = coding
        made.request.content = body
    return made


def _har(turns: int) -> dict[str, Any]:
    request = {
        "method": "POST",
        "url": URL,
        "httpVersion": "HTTP/1.1",
        "headers": [{"name": "x-api-key", "value": "k"}],
        "postData": {"mimeType": "application/json", "text": json.dumps(_body(turns))},
        "cookies": [],
        "queryString": [],
    }
    response = {"status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "headers": [], "cookies": []}
    entry = {
        "startedDateTime": "2026-11-20T08:00:00.000Z",
        "time": 1,
        "request": request,
        "response": {**response, "content": {"size": 0, "mimeType": "text/plain", "text": ""}},
        "timings": {"send": 0, "wait": 0, "receive": 0},
    }
    return {"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": [entry]}}


def test_flows_of_a_conversation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "flows"
    changed = _flow(URL, json.dumps(_body(1)).encode())
    changed.metadata["penumbra"] = {}
    with path.open("wb") as file:
        writer = FlowWriter(file)
        for turns in range(3):
            writer.add(_flow(URL, json.dumps(_body(turns)).encode(), "gzip" if turns else ""))
        writer.add(_flow("https://example.org/", b"hello"))
        writer.add(changed)
        file.write(b"broken")
    assert replay.main(["--json", str(path)]) == 0
    said = json.loads(capsys.readouterr().out)
    read = said["read"]
    assert (read["requests"], read["others"], read["already"], read["cut"]) == (3, 1, 1, 1)
    assert (read["conversations"], said["requests"]["count"], said["results"]["count"]) == (1, 3, 2)
    # The first result is in two requests, the second in one.
    before, after = said["results"]["tokens"]
    assert after < before / 2
    assert before / 3 < said["results"]["resent_tokens"][0] < before
    assert said["results"]["dollars_saved"] > 0


def test_a_har_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "calls.har"
    path.write_text(json.dumps(_har(1)))
    assert replay.main([str(path), "--html", str(tmp_path / "page.html")]) == 0
    out = capsys.readouterr().out
    assert "1 file read, 1 call of LLMs" in out
    assert "1 of 1 result would be shorter" in out
    assert "pytest" in (tmp_path / "page.html").read_text()


def test_a_request_has_no_fewer_tokens_than_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Digits have more tokens than as many bytes of words."""
    body = _body(1)
    body["messages"][-1]["content"][0]["content"] = "2026-01-01 00:00:00.123456 0.98\n" * 400
    with (tmp_path / "flows").open("wb") as file:
        FlowWriter(file).add(_flow(URL, json.dumps(body).encode()))
    assert replay.main(["--json", str(tmp_path / "flows")]) == 0
    said = json.loads(capsys.readouterr().out)
    before, after = said["results"]["tokens"]
    assert after < before / 2
    assert said["requests"]["input_tokens"] > before


def test_files_without_a_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert replay.main([str(tmp_path / "empty")]) == 1
    with pytest.raises(Failure, match="is no file"):
        replay.main([str(tmp_path / "nothing")])


def test_a_file_without_requests_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, calls = tmp_path / "README.md", tmp_path / "calls.har"
    text.write_text("# A project\n")
    calls.write_text(json.dumps(_har(1)))
    said = r"README.md: neither flows of mitmproxy \(`mitmdump -w FILE`\) nor HAR that can be read"
    with pytest.raises(Failure, match=f"^replay: {said}$") as ended:
        replay.main([str(text)])
    assert ended.value.code == 2
    assert replay.main([str(text), str(calls)]) == 0
    output = capsys.readouterr().out
    assert "files      1 file read, 1 call of LLMs" in output
    assert re.search(f"^not read   {said}$", output, re.MULTILINE)
