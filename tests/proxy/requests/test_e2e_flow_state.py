"""What is known of a flow is forgotten at its end, whichever end that is, and no engine is held by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.agents.agent import PRINTS, bash
from support.agents.apis import CLIENTS
from support.agents.model import CAP, COMMANDS, Model, ask
from support.agents.websocket_caller import Talker
from support.mitm import eventually
from support.upstream import Fault, Hangup, turn

API = CLIENTS[0]
SCRIPT = """
from penumbra.flow import splice
{patch}
from mitmproxy import command
from penumbra.addon import Penumbra
from penumbra.flow import current_settings, state


class Tell:
    @command.command("tests.kept")
    def kept(self) -> str:
        leases = addons[0].engines._current.leases
        return f"{{len(state._STATES) - 1}} flows, {{leases - 1}} leases, {{len(current_settings._DRAINING)}} engines"


addons = [Penumbra(), Tell()]
"""
PATCHES = {"spliced": "", "replayed": 'splice.incompatible = lambda: "this is a test"'}
TOO_LONG = "prompt is too long: 250000 tokens > 200000 maximum"


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, printed in COMMANDS.items():
        monkeypatch.setitem(PRINTS, name, printed)


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
def test_nothing_is_kept_of_flows_that_have_ended(
    patch: str, own_proxy: Any, clients: Any, upstream: Any, api_key: str, tmp_path: Path
) -> None:
    script = tmp_path / "telling.py"
    script.write_text(SCRIPT.format(patch=patch))
    proxy = own_proxy("regular", script=script, penumbra_max_output_bytes=CAP)

    def nothing_is_kept() -> bool:
        # The question is a flow itself.
        return bool(proxy.command("tests.kept") == "0 flows, 0 leases, 0 engines")

    def say(*steps: Any, **more: Any) -> Any:
        upstream.script(Model(turn(bash("cat worker.log")), *steps))
        caller = API.caller(clients, proxy, api_key, False, **{"stream": True, **more})
        try:
            return caller.say("What is in the log?")
        except Exception as error:
            return error

    assert say(ask("Let me see."), turn("So.")) == "Let me see.So."
    assert eventually(nothing_is_kept), proxy.command("tests.kept")
    assert say(ask("Let me see."), turn("So."), stream=False) == "Let me see.So."
    # The hidden request is refused, fails, or breaks off; so does the client's own.
    say(ask("Let me see."), Fault(400, "no"))
    say(ask("Let me see."), Hangup())
    say(ask("Let me see."), turn("So.", "And so on, for long.", cut_after=4))
    say(Hangup())
    say(turn("So.", "And so on, for long.", cut_after=4))
    say(*[Fault(400, TOO_LONG)] * 5)
    assert eventually(nothing_is_kept), proxy.command("tests.kept")
    # A client goes away in the middle of its response, and of a hidden request.
    client = clients.http(proxy)
    for steps in ([turn("Slow.", event_delay=0.2)], [turn(first_delay=2.0)]):
        upstream.script(Model(*steps))
        with API.opened(client, api_key):
            pass
    upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("So.", first_delay=4.0)))
    caller = API.caller(clients, proxy, api_key, False, stream=True)
    caller.client = caller.client.with_options(timeout=2.0)
    with pytest.raises(Exception, match=r"(?i)timed? ?out"):
        caller.say("What is in the log?")
    assert eventually(nothing_is_kept), proxy.command("tests.kept")
    # What is refused, and what is none of ours.
    assert client.post(f"{API.host}{API.path(False)}", content=b"{", headers=API.headers(api_key)).is_error
    client.post(f"{API.host}/v1/files", content=b"x")
    client.get("http://example.org/")
    talker = Talker(proxy, key=api_key)
    upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("So.")))
    assert talker.say("What is in the log?") == "Let me see.So."
    talker.send(talker.start("And now?"))
    talker.close()
    assert eventually(nothing_is_kept), proxy.command("tests.kept")
    # What was kept for requests in flight does not keep engines that are replaced.
    proxy.set("penumbra_ledger_ttl", "3d")
    assert say(ask("Let me see."), turn("So.")) == "Let me see.So."
    assert eventually(nothing_is_kept), proxy.command("tests.kept")
