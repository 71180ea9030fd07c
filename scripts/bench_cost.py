"""What a provider would bill for whole conversations, sent turn by turn, with prompt caching.

Each conversation is sent as its agent would: every turn's request holds all before it. `direct`: as they
are; `penumbra`: what Penumbra forwards; `off`: the same without a look at older results. Unit: one input
token that nobody has cached; tokens are estimates; output is left out. `forecast` is the bill that the
price model of Penumbra expects for what it forwards, from sizes alone. `kept`: how much of each request
stands at the beginning of the next one.

Without files, the recording of the demo is played, once as it is and once with its work done twice over.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from penumbra import rewrite
from penumbra.history.cache_cost import Forecast, prices
from penumbra.history.shelves import Shelves
from penumbra.recovery import recoverer
from penumbra.recovery.lessons import Past
from penumbra.redaction import default
from penumbra.settings import Settings
from penumbra.shadow.ledger import Decision
from penumbra.shadow.refs import Shadows
from penumbra.text import tokens
from penumbra.wire import recognise
from penumbra.wire.document import Document

RECORDING = Path(__file__).with_name("demo_conversation.json")
MODELS = {"anthropic-messages": "claude-opus-5-5", "openai-chat": "gpt-5"}
Body = dict[str, Any]


def recording(times: int) -> Iterator[list[Body]]:
    """The requests of the demo's session, for each API; its work done `times` over."""
    session = json.loads(RECORDING.read_text(encoding="utf-8"))
    for api, wire in (("anthropic-messages", anthropic), ("openai-chat", chat)):
        turns = [
            (f"r{again}t{number}", turn)
            for again in range(times)
            for number, turn in enumerate(session["turns"])
        ]
        requests = []
        for count in range(len(turns) + 1):
            messages = [{"role": "user", "content": session["prompt"]}]
            for name, turn in turns[:count]:
                messages += wire(name, turn)
            requests.append({"api": api, "model": MODELS[api], "max_tokens": 9, "messages": messages})
        yield requests


def anthropic(name: str, turn: Body) -> list[Body]:
    calls = [(f"toolu_{name}c{n:<020}".replace(" ", "0"), call) for n, call in enumerate(turn["calls"])]
    uses = [{"type": "tool_use", "id": i, "name": c["tool"], "input": c["arguments"]} for i, c in calls]
    results = [{"type": "tool_result", "tool_use_id": i, "content": c["result"]} for i, c in calls]
    said = [{"type": "text", "text": turn["say"]}] if turn.get("say") else []
    return [{"role": "assistant", "content": said + uses}, {"role": "user", "content": results}]


def chat(name: str, turn: Body) -> list[Body]:
    calls = [(f"call_{name}c{n:<020}".replace(" ", "0"), call) for n, call in enumerate(turn["calls"])]
    made = [
        {
            "id": i,
            "type": "function",
            "function": {"name": c["tool"], "arguments": json.dumps(c["arguments"])},
        }
        for i, c in calls
    ]
    results = [{"role": "tool", "tool_call_id": i, "content": c["result"]} for i, c in calls]
    return [{"role": "assistant", "content": turn.get("say"), "tool_calls": made}, *results]


def of_file(path: Path) -> list[Body]:
    """Requests of one conversation, a line each, in order: Anthropic Messages or Chat Completions."""
    requests = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            body = json.loads(line)
            api = "anthropic-messages" if "max_tokens" in body and "system" in body else "openai-chat"
            requests.append({"api": api, **body})
    return requests


class Forwarder:
    """What Penumbra makes of a conversation's requests, one after the other."""

    def __init__(self, settings: Settings, redact: Any) -> None:
        self._settings = settings
        self._redact = redact
        self._known: dict[bytes, Decision] = {}
        self._shelves = Shelves()
        self._past = Past()
        self.lines: list[str] = []

    def forward(self, body: Body) -> bytes:
        api = next(one for one in recognise.apis() if one.id == body["api"])
        data = json.dumps({key: value for key, value in body.items() if key != "api"}).encode()
        request = rewrite.read(Document(data), api, self._settings, b"s" * 32)
        if request is None:
            return data
        shadows = Shadows(b"k" * 32, b"c" * 32, "expand_context", True)
        made, line = recoverer.rewritten(
            request, self._known, {}, self._past, self._redact, shadows, None, self._shelves
        )
        self._known |= made.decisions
        self._past = replace(self._past, idle=5.0)
        if line:
            self.lines.append(line)
        return made.body


def parts(body: bytes) -> list[str]:
    """What a provider's cache compares, piece by piece."""
    value = json.loads(body)
    found = [json.dumps(value[key]) for key in ("tools", "system") if key in value]
    for message in value["messages"]:
        content = message.get("content")
        blocks = content if isinstance(content, list) else [message]
        found += [message["role"] + json.dumps(block) for block in blocks]
    return found


class Bill:
    """The bill of a conversation, from the very bytes."""

    def __init__(self, api: str, model: str) -> None:
        format_name = next(one.format for one in recognise.apis() if one.id == api)
        self.price = prices(format_name, model, b"")
        self.forecast = Forecast(self.price)
        self.cost = 0.0
        self.sent = 0
        self._before: list[str] = []
        self._sizes: dict[str, int] = {}
        self._last = 0
        self.kept: list[float] = []

    def add(self, body: bytes) -> None:
        """One request."""
        now = parts(body)
        sizes = [self._sizes.setdefault(part, tokens.estimate(part)) for part in now]
        same = 0
        while same < min(len(now), len(self._before)) and now[same] == self._before[same]:
            same += 1
        if self._before:
            self.kept.append(same / len(self._before))
        total, held = sum(sizes), sum(sizes[:same])
        cached = held - held % self.price.step if held >= self.price.minimum else 0
        self.cost += cached * self.price.read + (total - cached) * self.price.write
        self.forecast.add(self._last, total)
        self.sent += total
        self._before, self._last = now, total


def row(name: str, requests: list[Body], redact: Any, line: str) -> dict[str, Bill]:
    """One conversation, in all ways; prints its line."""
    ways = {
        "direct": None,
        "penumbra": Settings(adopt="compress", supersede="priced"),
        "off": Settings(adopt="compress", supersede="off"),
    }
    bills: dict[str, Bill] = {}
    said: list[str] = []
    for way, settings in ways.items():
        bill = bills[way] = Bill(requests[0]["api"], requests[0].get("model", ""))
        forwarder = Forwarder(settings, redact) if settings else None
        for body in requests:
            plain = json.dumps({key: value for key, value in body.items() if key != "api"}).encode()
            bill.add(forwarder.forward(body) if forwarder else plain)
        said += forwarder.lines if forwarder and way == "penumbra" else []
    direct, ours, off = bills["direct"].cost, bills["penumbra"], bills["off"]
    kept = sum(ours.kept) / max(1, len(ours.kept))
    print(
        line.format(
            name[:34],
            requests[0]["api"],
            len(requests),
            f"{direct:,.0f}",
            f"{ours.cost / direct - 1:+.1%}",
            f"{off.cost / direct - 1:+.1%}",
            f"{ours.sent / bills['direct'].sent - 1:+.1%}",
            f"{ours.forecast.total / ours.cost - 1:+.1%}",
            f"{kept:.1%}",
        )
    )
    for reason in dict.fromkeys(said):
        if reason.startswith("rewrote"):
            print(f"    {reason}")
    return bills


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench_cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="conversations: one request a line, in order")
    wanted = parser.parse_args()
    line = "{:<34} {:<18} {:>5} {:>11} {:>9} {:>8} {:>8} {:>9} {:>7}"
    print(
        line.format("conversation", "api", "turns", "direct", "penumbra", "off", "tokens", "forecast", "kept")
    )
    redact = default().redact
    played = [(path.stem, of_file(path)) for path in wanted.files] or [
        (f"demo, {times} times", requests) for times in (1, 2) for requests in recording(times)
    ]
    all_bills = [row(name, requests, redact, line) for name, requests in played if requests]
    direct = sum(bills["direct"].cost for bills in all_bills)
    ours = sum(bills["penumbra"].cost for bills in all_bills)
    print(
        f"all: {ours / direct - 1:+.1%} of the direct bill; dearest: "
        f"{max(bills['penumbra'].cost / bills['direct'].cost - 1 for bills in all_bills):+.1%}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
