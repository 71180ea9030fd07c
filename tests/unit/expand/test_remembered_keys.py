"""Keys of responses are the same with remembered messages and without them."""

from __future__ import annotations

import json
from typing import Any

from penumbra.apis import prefix_hash, recognise
from penumbra.expand import hidden_exchanges
from penumbra.wire.document import Document
from penumbra.wire.prefix_memory import PrefixMemory

MESSAGES = [{"role": role, "content": f"{role} {n}"} for n in range(3) for role in ("user", "assistant")]


def keys(memory: PrefixMemory | None, start: bytes = prefix_hash.START, **more: Any) -> tuple[bytes, ...]:
    api = recognise.by_request_line("POST", "/v1/messages")
    assert api is not None
    document = Document(json.dumps({"model": "m", "messages": MESSAGES, **more}).encode())
    array = document.members(document.root)["messages"]
    if memory is not None:
        document.remember(array, memory, b"scope")
    chain = prefix_hash.read(document, array, start)
    return hidden_exchanges.read(api.wire, document, api.wire.visible(document), b"owner", b"", chain).keys


def test_names_depend_on_the_start_of_the_chain_and_its_counted_members() -> None:
    memory = PrefixMemory()
    for _ in range(2):
        plain = keys(memory)
        assert plain == keys(None)
        other_start = keys(memory, b"start")
        assert other_start == keys(None, b"start") != plain
        referable = keys(memory, input=[])
        assert referable == keys(None, input=[]) != plain
