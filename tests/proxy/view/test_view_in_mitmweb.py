"""The view "Penumbra", the marks and the commands in a real mitmweb, which a browser looks at."""

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from proxy.page.conftest import HOSTILE, SECRET, TOOL
from proxy.page.test_page_in_browser import lacking
from support import browser as browsers
from support.agents.model import CAP, Model, ask
from support.mitm import eventually
from support.mitm.web import Mitmweb
from support.upstream.script import ToolCall, turn


@pytest.fixture
def mitmweb(upstream: Any, confdir: Path, tmp_path: Path) -> Any:
    """`mitmweb(**options)` returns a running mitmweb."""
    made: list[Mitmweb] = []

    def start(**options: str) -> Mitmweb:
        made.append(Mitmweb(upstream, confdir, tmp_path / f"web{len(made)}", options=options))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.stop()


LOG = "\n".join(
    [
        *(f"2026-01-01 00:00:{n % 60:02d} INFO worker idle, nothing to do" for n in range(30)),
        f"2026-01-01 00:01:00 ERROR \x1b[31mlost\x1b[0m token={SECRET}",
        HOSTILE,
        *(
            f"tests/test_{n}.py::test_it PASSED    \x1b[32m[{n}%]\x1b[0m {n * 7919 % 10007} of {n * 31 % 997}"
            for n in range(120)
        ),
    ]
)


class Talk:
    """A `Talk` is a client of the SDK, which streams."""

    def __init__(self, client):
        self._client = client
        self.messages = [{"role": "user", "content": f"Which job is slow? The token is {SECRET}."}]

    def say(self, *content):
        """Send the next request; return the id of the call that the model makes."""
        if content:
            self.messages.append({"role": "user", "content": list(content)})
        with self._client.messages.stream(
            model="claude-sonnet-5", max_tokens=99, tools=[TOOL], messages=self.messages
        ) as stream:
            said = stream.get_final_message()
        blocks = [block.model_dump(exclude_none=True) for block in said.content]
        self.messages.append({"role": "assistant", "content": blocks})
        return next((block["id"] for block in blocks if block["type"] == "tool_use"), "")


def result(call):
    return {"type": "tool_result", "tool_use_id": call, "content": LOG}


def flows(web):
    with urllib.request.urlopen(web.address("/flows"), timeout=30) as response:
        return json.load(response)


def looked_at(web, row):
    """Return what a browser shows of a flow, by its row: the text, and the number of elements in it."""
    with browsers.Browser(width=1400) as browser:
        browser.open(web.address())
        browser.until(f"document.querySelectorAll('.flow-table tbody tr').length > {row}")
        events = "['mousedown', 'mouseup', 'click'].forEach(kind => row.dispatchEvent(new MouseEvent(kind, {bubbles: true})))"
        browser.run(f"{{const row = document.querySelectorAll('.flow-table tbody tr')[{row}]; {events}}}")
        browser.until("document.body.innerText.includes('NEW RESULTS')")
        return browser.run(
            "[document.body.innerText, document.querySelectorAll('.flow-detail script, .flow-detail img').length]"
        )


def test_a_flow_shows_its_changes(mitmweb, own_proxy, clients, upstream, tmp_path):
    web = mitmweb(penumbra_page_originals="on", penumbra_max_output_bytes=CAP)
    talk = Talk(clients.anthropic(web))
    call = turn(ToolCall("Bash", {"command": f"cat worker.log  # {SECRET}"}))
    upstream.script(Model(call, ask(), turn("The first.")))
    talk.say(result(talk.say()))
    upstream.script(Model(turn("Bye.")))
    talk.say({"type": "text", "text": "Go on."})
    first, second, hidden, third = eventually(lambda: found if len(found := flows(web)) == 4 else None)
    text = {
        (number, part): web.text(flow["id"], part)
        for number, flow in enumerate((first, second, hidden, third))
        for part in ("request", "response")
    }

    # The view is the default, and shows no secret, also where the client has sent some.
    assert all(name == "Penumbra" for name, _ in text.values())
    assert not any(SECRET in shown for _, shown in text.values())

    _, shown = text[1, "request"]
    assert "NEW RESULTS" in shown
    assert "Bash toolu_" in shown
    assert re.search(
        r"[\d,]+ -> [\d,]+ bytes; about [\d,]+ -> [\d,]+ tokens \(-\d\d%\);\s+shortened by", shown
    )
    assert re.search(r"^  - +31 .* ERROR \\x1b\[31mlost\\x1b\[0m token=\[REDACTED:", shown, re.M)
    assert re.search(r"^  \+ +\d+ .* ERROR lost token=\[REDACTED:", shown, re.M)
    assert HOSTILE in shown
    assert "\x1b" not in shown
    assert shown.index("NEW RESULTS") < shown.index("CONVERSATION")
    assert "Which job is slow?" in shown

    # The view shows the message instead of its events, and names what the client does not see.
    _, shown = text[0, "response"]
    warning, _, call, *_ = shown.split("\n")
    assert warning.endswith("which this view replaces by placeholders: github-token 1")
    assert call.startswith("call Bash toolu_")
    assert '"command": "cat worker.log  # [REDACTED:' in shown
    _, shown = text[1, "response"]
    assert "The first." in shown
    assert "hidden from the client: the model asked for shadow_" in shown
    assert hidden["id"] in shown
    assert "hidden request" in text[2, "request"][1]
    assert "The first." in text[2, "response"][1]
    _, shown = text[3, "request"]
    assert "expand_context" in shown
    assert "(hidden from the client)" in shown
    assert "RESULTS, the latest first" in shown
    assert "  -    31 2026-01-01" in shown

    if browsers.program():
        text, elements = looked_at(web, 2)
        assert "worker idle, nothing to do" in text
        assert HOSTILE in text
        assert SECRET not in text
        assert elements == 0

    commands_are_there(web, tmp_path)
    files_are_shown(web, own_proxy("regular", started=False))
    if not browsers.program():
        lacking("Chromium")


def commands_are_there(web, tmp_path):
    """All commands exist, with the types that mitmproxy completes."""
    shown = web.command("penumbra.explain @all")
    assert any("NEW RESULTS" in line for line in shown)
    (reference,) = web.command("penumbra.references")
    original = web.command(f"penumbra.expand {reference}")
    assert "2026-01-01 00:00:07 INFO worker idle, nothing to do" in original
    assert not any(SECRET in line for line in original)
    assert set(web.command("penumbra.tables")) > {"everything", "days", "results"}
    for table in ("everything", "results"):
        web.command(f"penumbra.export {table} {tmp_path / table}")
        assert "Bash" in eventually((tmp_path / table).read_text), table
    assert "requests" in web.command("penumbra.stats")
    for shown, found in (
        ("~comment 'results changed'", 2),
        ("~marker new_moon", 3),
        ("~meta results_changed...[1-9]", 2),
        ("~meta github-token", 2),
    ):
        assert len(web.command(f'view.flows.resolve "{shown}"')) == found, shown


def files_are_shown(web, other):
    """A mitmdump without the earlier proxy's memory shows what was done, and no original."""
    web.command(f"save.file '~marker new_moon' {other.home}.flows")
    other.options = {
        "rfile": f"{other.home}.flows",
        "server": "false",
        "flow_detail": "3",
        "penumbra_page_originals": "on",
    }
    assert other.launch().wait(60) == 0
    found = other.log()
    assert found.count("shortened by") == 4, found
    assert "its original is not kept any more" in found
    assert "NEW RESULTS" in found
    assert SECRET not in found

    web.command("penumbra.forget")
    assert web.command("penumbra.references") == []
    assert "its original is not kept any more" in web.text(flows(web)[1]["id"], "request")[1]
