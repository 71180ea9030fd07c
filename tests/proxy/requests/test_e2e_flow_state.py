"""Nothing is kept of a flow after its end; until then it has the settings that it began with."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.agents.agent import PRINTS, bash
from support.agents.apis import CLIENTS
from support.agents.model import CAP, COMMANDS, Model, ask
from support.agents.requests import assert_prefix_kept, hidden_results
from support.agents.websocket_caller import Talker
from support.mitm import ADDON, eventually
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
        handles = addons[0].engines.current.handles
        return f"{{len(state._STATES) - 1}} flows, {{handles - 1}} handles, {{len(current_settings._DRAINING)}} engines"


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
        return bool(proxy.command("tests.kept") == "0 flows, 0 handles, 0 engines")

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
    # The hidden request is refused, fails, or breaks off, and so does the client's own.
    say(ask("Let me see."), Fault(400, "no"))
    say(ask("Let me see."), Hangup())
    say(ask("Let me see."), turn("So.", "And so on, for long.", cut_after=4))
    say(Hangup())
    say(turn("So.", "And so on, for long.", cut_after=4))
    say(*[Fault(400, TOO_LONG)] * 5)
    assert eventually(nothing_is_kept), proxy.command("tests.kept")
    # A client leaves in the middle of its response, and of a hidden request.
    client = clients.http(proxy)
    for steps in ([turn("Slow.", event_delay=0.2)], [turn(first_delay=0.2)]):
        upstream.script(Model(*steps))
        with API.opened(client, api_key):
            pass
    upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("So.", first_delay=3.0)))
    caller = API.caller(clients, proxy, api_key, False, stream=True)
    caller.client = caller.client.with_options(timeout=1.0)
    with pytest.raises(Exception, match=r"(?i)timed? ?out"):
        caller.say("What is in the log?")
    assert eventually(nothing_is_kept), proxy.command("tests.kept")
    # Refused requests, and requests that are none of ours, leave nothing, either.
    assert client.post(f"{API.host}{API.path(False)}", content=b"{", headers=API.headers(api_key)).is_error
    client.post(f"{API.host}/v1/files", content=b"x")
    client.get("http://example.org/")
    talker = Talker(proxy, key=api_key)
    upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("So.")))
    assert talker.say("What is in the log?") == "Let me see.So."
    talker.send(talker.start("And now?"))
    talker.close()
    assert eventually(nothing_is_kept), proxy.command("tests.kept")
    # Requests in flight do not keep replaced engines.
    proxy.set("penumbra_ledger_ttl", "3d")
    assert say(ask("Let me see."), turn("So.")) == "Let me see.So."
    assert eventually(nothing_is_kept), proxy.command("tests.kept")


LOG = COMMANDS["cat worker.log"]
QUICK = "how are you"
OTHERS = {"penumbra_ledger_ttl": "3d", "penumbra_originals_ttl": "2h", "penumbra_max_output_bytes": "3072"}


def script(upstream: Any, *steps: Any) -> None:
    """Script a model that does the steps, and answers quick questions at any time."""
    model = Model(*steps)
    upstream.script(lambda got: turn("Well.") if QUICK.encode() in got.raw_body else model(got))


@pytest.fixture
def quick(clients: Any) -> Callable[[Any, str], None]:
    """Send another caller's request, which is the first one to meet the change."""

    def ask_quickly(proxy: Any, key: str = "somebody") -> None:
        answer = API.post(clients.http(proxy), key, False, QUICK)
        assert answer.status_code == 200, answer.content

    return ask_quickly


def by_option(proxy: Any, file: Path) -> None:
    for name, value in OTHERS.items():
        proxy.set(name, value)


def by_file(proxy: Any, file: Path) -> None:
    lines = "".join(f"  {name.removeprefix('penumbra_')}: {value}\n" for name, value in OTHERS.items())
    file.write_text(f"penumbra:\n{lines}")


def by_script(proxy: Any, file: Path) -> None:
    before = proxy.log().count("Penumbra is active")
    proxy.script.touch()
    assert eventually(lambda: proxy.log().count("Penumbra is active") > before)


CHANGES = [by_option, by_file, by_script]


@pytest.fixture
def started(own_proxy: Any, tmp_path: Path) -> Callable[..., tuple[Any, Path]]:
    def start(**options: str) -> tuple[Any, Path]:
        file, main = tmp_path / "penumbra.yaml", tmp_path / "main.py"
        file.write_text(f"penumbra:\n  max_output_bytes: {CAP}\n")
        main.write_text(ADDON.read_text())
        return own_proxy("regular", script=main, penumbra_config=str(file), **options), file

    return start


def changed_meanwhile(caller: Any, upstream: Any, change: Callable[[], Any]) -> None:
    """Send two prompts, and make a change while the first one is answered; both answers must be whole."""
    gate = threading.Event()
    script(
        upstream,
        turn(bash("cat worker.log")),
        ask("Let me see.", delivery={"hold": {3: gate}}),
        turn("NEEDLE-90 it is."),
    )
    with ThreadPoolExecutor(1) as threads:
        said = threads.submit(caller.say, "What is in the log?")
        assert eventually(lambda: len(upstream.asked()) == 2)
        change()
        gate.set()
        assert said.result(30) == "Let me see.NEEDLE-90 it is."
    script(upstream, turn(bash("ls")), turn("Done."))
    assert caller.say("Go on.") == "Done."


@pytest.mark.parametrize(
    ("change", "database"),
    [(by_option, ""), (by_option, "memory"), (by_file, ""), (by_file, "memory"), (by_script, "")],
)
def test_a_stream_and_its_hidden_request_keep_their_settings_to_the_end(
    change: Any, database: str, started: Any, quick: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    proxy, file = started(penumbra_database=database)
    caller = API.caller(clients, proxy, api_key, False, stream=True)
    changed_meanwhile(caller, upstream, lambda: (change(proxy, file), quick(proxy)))
    own = [received for received in upstream.asked() if QUICK.encode() not in received.raw_body]
    assert hidden_results(own[-1]) == [LOG]
    assert_prefix_kept(own)
    assert "penumbra: an" not in proxy.log()
    assert "Traceback" not in proxy.log()


def test_requests_that_are_being_rewritten_are_sent(
    started: Any, quick: Any, clients: Any, upstream: Any
) -> None:
    """The first requests of a new engine wait for its rules, so the next change occurs before they are
    sent."""
    proxy, _ = started()
    script(upstream)
    for number in range(4):
        with ThreadPoolExecutor(4) as threads:
            proxy.set("penumbra_ledger_ttl", f"{10 + number}d")
            under_way = [threads.submit(quick, proxy, f"caller-{one}") for one in range(3)]
            proxy.set("penumbra_ledger_ttl", f"{20 + number}d")
            under_way.append(threads.submit(quick, proxy, "another"))
            for one in under_way:
                one.result(30)
    assert "refused a request" not in proxy.log()


@pytest.mark.parametrize("change", CHANGES)
def test_an_answer_on_a_socket_goes_on(
    change: Any, started: Any, quick: Any, upstream: Any, api_key: str
) -> None:
    proxy, file = started()
    caller = Talker(proxy, key=api_key)
    changed_meanwhile(caller, upstream, lambda: (change(proxy, file), quick(proxy)))
    caller.close()
    assert upstream.statuses() == {200}
    assert "penumbra: an" not in proxy.log()
    assert "Traceback" not in proxy.log()


def test_an_engine_that_is_not_used_any_more_closes(
    started: Any, quick: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    """The database of the old engine is closed once its last stream has ended."""
    proxy, file = started()
    folder = Path(f"/proc/{proxy.process.pid}/fd")
    if not folder.exists():
        pytest.skip("open files are counted in /proc")

    def open_files() -> int:
        return sum(link.resolve().name.startswith("penumbra.sqlite") for link in folder.iterdir())

    script(upstream)
    quick(proxy)
    before = open_files()
    gate = threading.Event()
    script(upstream, turn("Slow.", hold={3: gate}))
    with ThreadPoolExecutor(1) as threads:
        client = clients.http(proxy)
        slow = threads.submit(API.post, client, api_key, True, "slowly")
        assert eventually(lambda: any(b"slowly" in received.raw_body for received in upstream.asked()))
        for number in range(3):
            proxy.set("penumbra_database", str(file.parent / f"penumbra.sqlite.{number}"))
            quick(proxy)
        during = open_files()
        gate.set()
        assert API.text(slow.result(30).content) == "Slow."
    assert during > before
    assert eventually(lambda: open_files() == before)
