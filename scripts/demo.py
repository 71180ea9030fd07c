"""Play a recorded coding session through a real mitmdump with Penumbra to a simulated provider.

Nothing leaves the machine, and no key is needed. Each row is one tool result when it is first sent: its size
as the agent sent it, its size as the provider got it, and the steps between. Tokens are estimates.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import string
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penumbra.compress import token_estimate
from penumbra.config.options import OPTIONS
from penumbra.config.settings import unknown_options
from support.sandbox import Mitmdump, NotStarted, Received, Response, Text, ToolCall, Turn, Upstream

RECORDING = Path(__file__).with_name("demo_conversation.json")
URL = "https://api.anthropic.com/v1/messages"
HEADERS = {"content-type": "application/json", "x-api-key": "demo", "anthropic-version": "2023-06-01"}
_BESIDE = ("Loading script", "HTTP(S) proxy listening")
"""Lines of mitmproxy's start that don't explain why it failed."""
SCHEMA = {"type": "object"}
MARK = {"type": "ephemeral"}


def made_up_secrets() -> dict[str, str]:
    """Return values that look like secrets; the recording contains only their names."""
    chance = random.Random(20)

    def letters(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
        return "".join(chance.choice(alphabet) for _ in range(count))

    return {
        "database_password": letters(14),
        "secret_key": letters(50),
        "stripe_key": "sk_live_" + letters(24),
        "github_token": "ghp_" + letters(36),
        "aws_id": "AKIA" + letters(16, string.ascii_uppercase + "234567"),
        "aws_secret": letters(40),
        "mail_password": letters(12) + "#" + letters(3),
    }


@dataclass(frozen=True)
class Step:
    """A `Step` is one tool call of the recording with the tool's output."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    result: str

    @property
    def title(self) -> str:
        """The command, or the argument that names what the call works on."""
        values = [str(value) for value in self.arguments.values()]
        return values[0].removeprefix("/srv/shop/") if values else ""


@dataclass(frozen=True)
class Recording:
    """A `Recording` has a session's prompt, its turns with their calls, and the last words."""

    prompt: str
    turns: tuple[tuple[str, tuple[Step, ...]], ...]
    answer: str

    @classmethod
    def load(cls, secrets: Mapping[str, str]) -> Recording:
        """Read the recording and put made-up secrets in."""
        text = RECORDING.read_text(encoding="utf-8")
        for name, value in secrets.items():
            text = text.replace("{{" + name + "}}", value)
        document = json.loads(text)
        numbers = itertools.count(1)
        turns = tuple(
            (turn["say"], tuple(Step(f"toolu_{next(numbers):024}", **call) for call in turn["calls"]))
            for turn in document["turns"]
        )
        return cls(document["prompt"], turns, document["answer"])

    def steps(self) -> list[Step]:
        return [step for _, steps in self.turns for step in steps]

    def answers(self) -> Iterator[Response]:
        """Return the model's text and calls, request by request."""
        for say, steps in self.turns:
            calls = [ToolCall(step.tool, step.arguments, step.id) for step in steps]
            yield Turn((*([Text(say)] if say else []), *calls))
        yield Turn((Text(self.answer),))


@dataclass
class Agent:
    """An `Agent` sends the conversation through the proxy, by HTTPS_PROXY and the CA certificate."""

    proxy: Mitmdump
    messages: list[dict[str, Any]] = field(default_factory=list)
    model: str = "claude-demo"
    user_agent: str = ""
    folder: str = ""
    """The working folder that the agent names."""

    def __post_init__(self) -> None:
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"https": self.proxy.url}),
            urllib.request.HTTPSHandler(context=self.proxy.trust()),
        )

    def ask(self, *content: dict[str, Any]) -> bytes:
        """Send a user message with a cache breakpoint at its last block, and return the request's body."""
        self.messages.append({"role": "user", "content": list(content)})
        *rest, last = content
        newest = {"role": "user", "content": [*rest, {**last, "cache_control": MARK}]}
        body = {
            "model": self.model,
            "max_tokens": 8192,
            "system": "You are a careful engineer."
            + (f"\nWorking directory: {self.folder}" if self.folder else ""),
            "tools": [{"name": name, "input_schema": SCHEMA} for name in ("Bash", "Read", "Edit", "Grep")],
            "messages": [*self.messages[:-1], newest],
        }
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {**HEADERS, **({"user-agent": self.user_agent} if self.user_agent else {})}
        request = urllib.request.Request(URL, data, headers)
        with self._opener.open(request, timeout=60) as response:
            answer = json.load(response)
        self.messages.append({"role": "assistant", "content": answer["content"]})
        return data


class Paper:
    """A `Paper` prints in colour and in the terminal's width, or plainly into files and pipes."""

    def __init__(self) -> None:
        self._coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.width = min(shutil.get_terminal_size((120, 40)).columns, 140) if sys.stdout.isatty() else 120
        self._title = max(18, self.width - 82)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured else text

    def say(self, text: str = "", *, strong: bool = False, weak: bool = False) -> None:
        print(self._paint("1" if strong else "2" if weak else "0", text) if text else "", flush=True)

    def head(self) -> None:
        titles = (
            f"{'tool':<5} {'call':<{self._title}} {'bytes':>16} {'tokens':>14} {'saved':>6}  what was done"
        )
        self.say(titles, strong=True)
        self.say("-" * self.width, weak=True)

    def row(self, step: Step, event: Mapping[str, Any]) -> None:
        sizes = [f"{before:,} -> {after:,}" for before, after in (event["bytes"], event["tokens"])]
        saved = share(*event["tokens"])
        title = step.title if len(step.title) <= self._title else step.title[: self._title - 1] + "…"
        percent = f"{saved:>6}"
        colour = "2" if saved == "0%" else "32"
        print(
            f"{step.tool:<5} {title:<{self._title}} {sizes[0]:>16} {sizes[1]:>14} "
            f"{self._paint(colour, percent)}  {self._paint('36', done_to(event))}",
            flush=True,
        )


def share(before: int, after: int) -> str:
    return f"{(before - after) / before:.0%}" if before > after else "0%"


def done_to(event: Mapping[str, Any]) -> str:
    """Return the steps that changed a result, in a few words."""
    secrets = sum(event["redactions"].values())
    words = [stage.replace("_", " ") for stage in event["stages"] if stage != "redaction"]
    words += [f"{secrets} secret{'s' * (secrets != 1)} redacted"] if secrets else []
    return ", ".join(words) or "sent as it is"


def texts(body: Any) -> dict[str, str]:
    return {
        block["tool_use_id"]: block["content"]
        for message in body["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    }


def kept_prefixes(requests: list[Received]) -> int:
    """Return the number of requests that begin with the whole request before them."""

    def known(request: Received) -> list[Any]:
        plain = json.loads((request.body or b"").replace(b',"cache_control":{"type":"ephemeral"}', b""))
        return [plain["system"], plain["tools"], *plain["messages"]]

    prompts = [known(request) for request in requests]
    return sum(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(prompts))


def written(file: Path, steps: tuple[Step, ...]) -> dict[str, Any]:
    """Return Penumbra's events of one turn's calls, which come a moment after the request."""
    wanted = {step.id for step in steps}
    limit = time.monotonic() + 20
    found: dict[str, Any] = {}
    while not wanted <= found.keys() and time.monotonic() < limit:
        time.sleep(0.01)
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        found = {entry["call"]: entry for line in lines for entry in json.loads(line)["new"]}
    return found


def play(recording: Recording, proxy: Mitmdump, upstream: Upstream, events: Path, paper: Paper) -> list[int]:
    """Play the session and return the size of each request's body as the agent sent it, in bytes."""
    upstream.answers(*recording.answers())
    agent = Agent(proxy)
    sent = [len(agent.ask({"type": "text", "text": recording.prompt}))]
    for _, steps in recording.turns:
        results = [{"type": "tool_result", "tool_use_id": step.id, "content": step.result} for step in steps]
        sent.append(len(agent.ask(*results)))
        found = written(events, steps)
        for step in steps:
            unchanged = {
                "bytes": [len(step.result.encode())] * 2,
                "tokens": [token_estimate.estimate(step.result)] * 2,
            }
            paper.row(step, found.get(step.id, {**unchanged, "stages": [], "redactions": {}}))
    return sent


def totals(
    recording: Recording, sent: list[int], upstream: Upstream, secrets: Mapping[str, str], paper: Paper
) -> None:
    """Print the totals of the session, measured at the provider."""
    requests = upstream.asked()
    arrived = [len(request.raw_body) for request in requests]
    before = {step.id: step.result for _, steps in recording.turns for step in steps}
    after = texts(requests[-1].json)
    once = [sum(map(token_estimate.estimate, side.values())) for side in (before, after)]
    carried = [pair for request in requests for pair in texts(request.json).items()]
    paid = [
        sum(token_estimate.estimate(before[name]) for name, _ in carried),
        sum(token_estimate.estimate(text) for _, text in carried),
    ]
    leaked = [name for name, value in secrets.items() if any(value.encode() in r.raw_body for r in requests)]
    paper.say("-" * paper.width, weak=True)
    rows = (
        ("results, each once", f"{once[0]:,} -> {once[1]:,} tokens", share(*once)),
        ("results, in every request that carried them", f"{paid[0]:,} -> {paid[1]:,} tokens", share(*paid)),
        (
            f"request bodies, {len(sent)} requests",
            f"{sum(sent):,} -> {sum(arrived):,} bytes",
            share(sum(sent), sum(arrived)),
        ),
    )
    for name, change, saved in rows:
        paper.say(f"{name:<46} {change:>32} {saved:>6}", strong=True)
    paper.say()
    paper.say(
        f"Prefix kept for the provider's cache: in {kept_prefixes(requests)} of {len(requests) - 1} requests."
    )
    paper.say(f"Secrets in the session: {len(secrets)}; that reached the provider: {len(leaked)}.")
    paper.say(f"Refused by the provider: {sum(request.status != 200 for request in requests)}.")


def show(step: Step, upstream: Upstream, paper: Paper) -> None:
    """Print one result as the agent sent it and as the provider got it."""
    after = texts(upstream.asked()[-1].json)[step.id]
    for title, text in (("sent by the agent", step.result), ("received by the provider", after)):
        paper.say()
        paper.say(f"== {step.tool} {step.title}: {title}", strong=True)
        print(text.rstrip("\n") if sys.stdout.isatty() else text.replace("\x1b", "\\e").rstrip("\n"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--mode", choices=["disabled", "safe", "standard", "aggressive"], help="standard")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="further options")
    parser.add_argument("--show", type=int, metavar="N", help="print result N before and after")
    wanted = parser.parse_args()
    if malformed := [item for item in wanted.set if "=" not in item]:
        parser.error(f"--set {malformed[0]}: it takes OPTION=VALUE")
    options = dict(item.split("=", 1) for item in wanted.set)
    if wrong := unknown_options(options.keys() - {option.full_name for option in OPTIONS}):
        parser.error(f"--set: {wrong[0]}")
    mode = wanted.mode or options.get("penumbra_mode", "standard")
    paper, secrets = Paper(), made_up_secrets()
    recording = Recording.load(secrets)
    steps = recording.steps()
    if wanted.show is not None and not 1 <= wanted.show <= len(steps):
        for number, step in enumerate(steps, start=1):
            print(f"{number:>3}  {step.tool:<5} {step.title}", file=sys.stderr)
        problem = f"--show {wanted.show}: there are results 1 to {len(steps)}"
        print(f"scripts/demo: error: {problem}", file=sys.stderr)
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="penumbra-demo-", ignore_cleanup_errors=True) as folder,
        Upstream(Path(folder)) as upstream,
    ):
        home, events = Path(folder) / "home", Path(folder) / "events.jsonl"
        options |= {"penumbra_mode": mode, "penumbra_events": str(events)}
        proxy = Mitmdump(upstream, Path(folder) / "conf", home, options=options)
        try:
            proxy.start()
        except NotStarted as error:
            lines = [line.partition("] ")[2] for line in str(error).split("\n")]
            reason = "; ".join(line for line in lines if line and not line.startswith(_BESIDE))
            print(f"scripts/demo: mitmdump did not start: {reason}", file=sys.stderr)
            return 1
        try:
            paper.say(
                f"A session with {len(recording.turns) + 1} requests to {URL}, mode {mode}",
                strong=True,
            )
            paper.say(f"> {recording.prompt}", weak=True)
            paper.say()
            paper.head()
            sent = play(recording, proxy, upstream, events, paper)
            totals(recording, sent, upstream, secrets, paper)
            if wanted.show is not None:
                show(steps[wanted.show - 1], upstream, paper)
        finally:
            proxy.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
