"""Compute the bill of a conversation with pauses, whose first turns bypass Penumbra.

The later turns go through Penumbra, in each of these ways:

    direct     all turns go unchanged
    raw        results of the first turns stay unchanged (penumbra_adopt=raw)
    auto       they stay unchanged until the cache is cold, when a change costs nothing (the default)

The provider is simulated: its prompt cache drops a prefix that is not asked for during its life. Tokens are
estimates, and the model asks for no originals. `pauses` is the bill of the turns after a pause alone; `cold
turns` are the turns in which earlier results became smaller, by the bill's cache reads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench_conversations import Tools, dump, exchange

from penumbra.apis.prefix_hash import PromptHead
from penumbra.apis.recognise import by_request_line
from penumbra.apis.usage import BilledTokens
from penumbra.compress import token_estimate
from penumbra.config.settings import load
from penumbra.conversation.cache_price import Prices, prices
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import Accepted, EngineSettings, Incoming
from penumbra.metrics import amounts
from penumbra.metrics.cache_miss import Prompt, found_cold
from support.upstream import binding

WAYS = ("direct", "raw", "auto")
PATH, HOST = "/v1/messages", "api.anthropic.com:443"
HEADERS = {"content-type": "application/json", "x-api-key": "key", "anthropic-version": "2023-06-01"}
_START = 1_800_000_000.0
_BETWEEN = 20.0
"""Seconds from turn to turn."""


@dataclass
class Provider:
    """A `Provider` bills requests with a prompt cache whose entries expire."""

    price: Prices
    seen: dict[int, float] = field(default_factory=dict)
    """The time of the last request for each prefix, by the prefix's hash."""

    def bill(self, body: bytes, now: float) -> BilledTokens:
        """Return what one request costs, and keep its prefixes."""
        read = json.loads(body)
        parts = binding.preamble(read) + [
            f"{message['role']} {binding.canonical(block)}"
            for message in read["messages"]
            for block in binding.blocks(message["content"])
        ]
        cached, total, chain = 0, 0, 0
        is_known = True
        for part in parts:
            chain = hash((chain, part))
            total += token_estimate.estimate(part)
            is_known = is_known and now - self.seen.get(chain, 0.0) <= self.price.life
            cached = total if is_known else cached
            self.seen[chain] = now
        cached = cached if cached >= self.price.minimum else 0
        return BilledTokens(cached=cached, written=total - cached)

    def units(self, billed: BilledTokens) -> float:
        """Return the price in uncached input tokens."""
        return billed.cached * self.price.read + billed.written * self.price.write


@dataclass
class Bill:
    """A `Bill` has the cost of one way."""

    units: float = 0.0
    after_pauses: float = 0.0
    read: int = 0
    written: int = 0
    cold: Counter[str] = field(default_factory=Counter)


def conversation(turns: int, model: str) -> list[bytes]:
    """Return the requests of a conversation, in order."""
    tools = Tools(random.Random(turns))
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Why is it slow?"}]}
    ]
    made = []
    for number in range(turns):
        messages += exchange(tools, number)
        made.append(json.dumps({**json.loads(dump(messages)), "model": model}, ensure_ascii=False).encode())
    return made


async def billed(way: str, requests: list[bytes], met: int, pauses: dict[int, float], model: str) -> Bill:
    """Return the bill of a conversation whose first `met` turns bypass Penumbra. `pauses`: before turns."""
    settings = load({"database": "memory", "adopt": "raw" if way == "raw" else "auto"}, {})
    engine, api, now = Engine(EngineSettings.of(settings)), by_request_line("POST", PATH), _START
    assert api is not None
    conversations = engine.stores.conversations
    conversations.clock = conversations.steady = lambda: now
    provider, bill = Provider(prices("anthropic", model, requests[0])), Bill()
    try:
        for number, body in enumerate(requests, 1):
            now += pauses.get(number, _BETWEEN)
            accepted = None
            if way != "direct" and number > met:
                incoming = Incoming(api, body, HEADERS, {}, "127.0.0.1", HOST, PATH)
                accepted = await engine.process(incoming, settings)
                assert isinstance(accepted, Accepted)
                body = accepted.rewritten.body
            tokens = provider.bill(body, now)
            bill.units += provider.units(tokens)
            bill.after_pauses += provider.units(tokens) if number in pauses else 0.0
            bill.read, bill.written = bill.read + tokens.cached, bill.written + tokens.written
            if accepted is not None and (turn := accepted.cold_turn) is not None:
                price = provider.price
                prompt = Prompt(now, model, PromptHead(), (), price.minimum, price.life, is_automatic=False)
                bill.cold[found_cold(prompt, turn, tokens)] += 1
    finally:
        engine.close()
    return bill


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--met", type=int, default=12, help="turns that go past Penumbra (12)")
    parser.add_argument("--pauses", default="16,26,34", help="turns with a pause before them (16,26,34)")
    parser.add_argument("--minutes", type=float, default=30, help="length of a pause (30)")
    parser.add_argument("--model", default="claude-sonnet-4-5")
    given = parser.parse_args()
    pauses = {int(turn): given.minutes * 60 for turn in given.pauses.split(",") if turn}
    requests = conversation(given.turns, given.model)
    price = amounts.price(given.model)
    print(f"{given.turns} turns of {given.model}, the first {given.met} past Penumbra, {len(pauses)} pauses")
    print(f"{'':8}{'bill':>9}{'':>9}{'pauses':>9}{'read':>12}{'written':>12}  cold turns")
    direct = 0.0
    for way in WAYS:
        bill = asyncio.run(billed(way, requests, given.met, pauses, given.model))
        direct = direct or bill.units
        dollars = [units * (price.input if price else 0.0) / 1e6 for units in (bill.units, bill.after_pauses)]
        part = f"{bill.units / direct - 1:+.1%}" if way != "direct" else ""
        cold = ", ".join(f"{count} {name}" for name, count in bill.cold.items())
        print(f"{way:8}{dollars[0]:9.3f}{part:>9}{dollars[1]:9.3f}{bill.read:12,}{bill.written:12,}  {cold}")


if __name__ == "__main__":
    main()
