"""Compute a provider's bill for whole conversations that are sent turn by turn, with prompt caching.

Each turn's request contains all turns before it, as an agent sends it. Each conversation is forwarded in
these ways, and each bill is compared with that of the unchanged conversation (`direct`):

    safe, standard, aggressive   the modes; standard is the default
    priced                       standard, and superseded results are shortened again wherever that pays
    lossless                     standard, with nothing left out but what is over the hard limit

The unit is one input token that is not cached. Tokens are estimates, and output tokens are left out.

    tokens     tokens sent
    prefix     the share of each request that the next one begins with
    evidence   names, paths and numbers that the assistant used and could know only from a result, and that
               stood in the request of that turn
    dearest    the conversation with the worst bill
    forecast   the bill that Penumbra's price model computes from sizes alone, against the replayed one

Without files, the demo's recording is played, once as it is and once with its work done twice.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penumbra.apis import recognise
from penumbra.apis.formats import FORMATS
from penumbra.compress import token_estimate
from penumbra.compress.result import Mode
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.cache_price import Prices, prices
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.expand import reference
from penumbra.expand.reference import References
from penumbra.redaction import default
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document

RECORDING = Path(__file__).with_name("demo_conversation.json")
MODELS = {"anthropic-messages": "claude-opus-5-5", "openai-chat": "gpt-5"}
MESSAGES = {
    "anthropic-messages": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}
_COMPRESS = Settings(adopt="compress")
WAYS = {
    "safe": replace(_COMPRESS, mode=Mode.SAFE),
    "standard": _COMPRESS,
    "aggressive": replace(_COMPRESS, mode=Mode.AGGRESSIVE),
    "priced": replace(_COMPRESS, supersede="priced"),
    "lossless": replace(_COMPRESS, lossy="off"),
}
WORD = re.compile(r"[A-Za-z_$][\w$]*(?:[./-][\w$]+)*|\d{3,}")
COLUMNS = "{:<34} {:<18} {:>5} {:>11}" + " {:>10}" * len(WAYS)
TABLE = "{:<12} {:>8} {:>8} {:>8} {:>10} {:>9} {:>10}"
Body = dict[str, Any]


def recording(times: int) -> Iterator[list[Body]]:
    """Return the requests of the demo's session for each API, with its work done `times` times."""
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
    """Return the requests of one conversation, one in each line, of any API in `MESSAGES`."""
    requests = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            body = json.loads(line)
            chat_or_anthropic = "anthropic-messages" if "system" in body else "openai-chat"
            others = {"input": "openai-responses", "contents": "gemini"}
            api = next((api for key, api in others.items() if key in body), chat_or_anthropic)
            requests.append({"api": api, **body})
    return requests


class Forwarder:
    """A `Forwarder` rewrites a conversation's requests, one after the other, as Penumbra does."""

    def __init__(self, settings: Settings, redact: Any) -> None:
        self._settings = settings
        self._redact = redact
        self._known: dict[bytes, Decision] = {}
        self._line_indexes = LineIndexes()
        self._past = ConversationState()
        self.lines: list[str] = []

    def forward(self, body: Body) -> bytes:
        api = next(one for one in recognise.apis() if one.id == body["api"])
        data = plain(body)
        request = read.read(Document(data), api, self._settings, b"s" * 32)
        if request is None:
            return data
        wire = FORMATS[api.format]
        name = reference.name_for(wire.tools(request.document))
        if name is not None:
            wire.declare(request.document, reference.tool(name))
        references = References(b"k" * 32, b"c" * 32, name or reference.NAMES[0], True)
        made, line = rewrite.compose(
            Inputs(request, self._known, self._redact, references, state=self._past), None, self._line_indexes
        )
        self._known |= made.decisions
        self._past = replace(self._past, idle=5.0)
        if line:
            self.lines.append(line)
        return made.body


def plain(body: Body) -> bytes:
    return json.dumps({key: value for key, value in body.items() if key != "api"}).encode()


def parts(body: bytes) -> list[str]:
    """Return the parts of a request that a provider's cache compares."""
    value = json.loads(body)
    heads = ("tools", "system", "instructions", "systemInstruction")
    found = [json.dumps(value[key]) for key in heads if key in value]
    for message in next(value[key] for key in ("messages", "input", "contents") if key in value):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [message]
        found += [message.get("role", "") + json.dumps(block) for block in blocks]
    return found


class Bill:
    """A `Bill` sums the cost of a conversation from the bytes of its requests."""

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
        self.evidence = 0

    def add(self, body: bytes) -> None:
        now = parts(body)
        sizes = [self._sizes.setdefault(part, token_estimate.estimate(part)) for part in now]
        same = 0
        while same < min(len(now), len(self._before)) and now[same] == self._before[same]:
            same += 1
        if self._before:
            self.kept.append(same / len(self._before))
        total, known = sum(sizes), sum(sizes[:same])
        cached = known - known % self.price.step if known >= self.price.minimum else 0
        self.cost += cached * self.price.read + (total - cached) * self.price.write
        self.forecast.add(self._last, total)
        self.sent += total
        self._before, self._last = now, total


def speaker(message: Body) -> str:
    """Return whose message it is: `model`, `result` or `other`."""
    text = json.dumps(message)[:400]
    kind = str(message.get("type", ""))
    if message.get("role") in ("assistant", "model") or kind.endswith("_call") or kind == "reasoning":
        return "model"
    is_result = message.get("role") == "tool" or kind.endswith("_output")
    return "result" if is_result or '"tool_result"' in text or '"functionResponse"' in text else "other"


def evidence(requests: list[Body]) -> list[set[str]]:
    """Return, for each request, the words from results that its response is the first to use."""
    key = MESSAGES[requests[0]["api"]]
    turn = 0
    heads = json.dumps({name: value for name, value in requests[0].items() if name != key})
    origin = dict.fromkeys(WORD.findall(heads), "other")
    found: list[set[str]] = [set() for _ in requests]
    for position, message in enumerate(requests[-1][key]):
        while turn + 1 < len(requests) and len(requests[turn + 1][key]) <= position:
            turn += 1
        who = speaker(message)
        for word in set(WORD.findall(json.dumps(message, ensure_ascii=False))):
            if len(word) < 3:
                continue
            if who == "model" and origin.get(word) == "result":
                found[turn].add(word)
            origin[word] = "model" if who == "model" else origin.get(word, who)
    return found


@dataclass(slots=True)
class Forecast:
    """A `Forecast` sums the cost of a conversation that the price model expects, turn by turn."""

    price: Prices
    total: float = 0.0

    def add(self, kept: int, sent: int) -> float:
        """Add a request of `sent` tokens, the first `kept` of which were sent before; return its cost."""
        cached = min(kept, sent)
        cached = cached - cached % self.price.step if cached >= self.price.minimum else 0
        cost = cached * self.price.read + (sent - cached) * self.price.write
        self.total += cost
        return cost


@dataclass
class Total:
    """A `Total` sums the bills of all conversations that are forwarded in one way."""

    cost: float = 0.0
    sent: int = 0
    kept: list[float] = field(default_factory=list)
    evidence: int = 0
    ratios: list[float] = field(default_factory=list)
    forecast: float = 0.0

    def add(self, bill: Bill, direct: Bill) -> None:
        self.cost += bill.cost
        self.sent += bill.sent
        self.kept += bill.kept
        self.evidence += bill.evidence
        self.ratios.append(bill.cost / direct.cost)
        self.forecast += bill.forecast.total


def replay(requests: list[Body], forwarder: Forwarder | None, used: list[set[str]]) -> Bill:
    """Return the bill of one conversation that is forwarded in one way."""
    bill = Bill(requests[0]["api"], requests[0].get("model", ""))
    for body, words in zip(requests, used, strict=True):
        sent = forwarder.forward(body) if forwarder else plain(body)
        bill.add(sent)
        if words:
            there = set(WORD.findall(json.dumps(json.loads(sent), ensure_ascii=False)))
            bill.evidence += len(words & there)
    return bill


def conversation(name: str, requests: list[Body], redact: Any, totals: dict[str, Total]) -> None:
    """Forward one conversation in all ways and print its line."""
    used = evidence(requests)
    direct = replay(requests, None, used)
    totals["direct"].add(direct, direct)
    shown = []
    reasons: list[str] = []
    for way, settings in WAYS.items():
        forwarder = Forwarder(settings, redact)
        bill = replay(requests, forwarder, used)
        totals[way].add(bill, direct)
        shown.append(f"{bill.cost / direct.cost - 1:+.1%}")
        reasons += forwarder.lines if way == "priced" else []
    print(COLUMNS.format(name[:34], requests[0]["api"], len(requests), f"{direct.cost:,.0f}", *shown))
    for reason in dict.fromkeys(reasons):
        if reason.startswith("rewrote"):
            print(f"    priced: {reason}")


def table(totals: dict[str, Total]) -> None:
    direct = totals.pop("direct")
    print()
    print(TABLE.format("all", "bill", "tokens", "prefix", "evidence", "dearest", "forecast"))
    for way, total in totals.items():
        print(
            TABLE.format(
                way,
                f"{total.cost / direct.cost - 1:+.1%}",
                f"{total.sent / direct.sent - 1:+.1%}",
                f"{sum(total.kept) / max(1, len(total.kept)):.1%}",
                f"{total.evidence / max(1, direct.evidence):.1%}",
                f"{max(total.ratios) - 1:+.1%}",
                f"{total.forecast / total.cost - 1:+.1%}",
            )
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="conversations: one request a line, in order")
    wanted = parser.parse_args()
    print(COLUMNS.format("conversation", "api", "turns", "direct", *WAYS))
    redact = default().redact
    played = [(path.stem, of_file(path)) for path in wanted.files] or [
        (f"demo, {times} times", requests) for times in (1, 2) for requests in recording(times)
    ]
    totals = {way: Total() for way in ("direct", *WAYS)}
    for name, requests in played:
        if requests:
            conversation(name, requests, redact, totals)
    table(totals)
    return 0


if __name__ == "__main__":
    sys.exit(main())
