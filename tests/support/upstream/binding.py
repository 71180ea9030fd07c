"""Signatures of thinking blocks, bound to the conversation before them. A signature is a keyed hash over the
block's text and everything that the provider received before: tools, system and messages, in one canonical
spelling. The hash leaves out parts that clients may change: `cache_control`, and the form of a lone text (a
string or a block). The hash also leaves out the system block that starts with `x-anthropic-billing-header:`,
which differs in every request."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

_KEY = b"key of the test provider"
_BILLING = "x-anthropic-billing-header:"


def blocks(content: Any) -> list[dict[str, Any]]:
    """Return a message's or a system prompt's content as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _plain(value: Any) -> Any:
    """Return the value without cache breakpoints, and with texts always as blocks."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _plain(item) for key, item in value.items() if key != "cache_control"}
    if kept.get("type") == "tool_result" and "content" in kept:
        kept["content"] = blocks(kept["content"])
    return kept


def canonical(value: Any) -> str:
    """Return a canonical spelling of a value."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def preamble(body: dict[str, Any]) -> list[str]:
    """Return the parts before the messages, in the order of the cache."""
    system = [
        block for block in blocks(body.get("system")) if not str(block.get("text", "")).startswith(_BILLING)
    ]
    return [canonical(tool) for tool in body.get("tools") or []] + [canonical(block) for block in system]


def _extend(chain: str, part: str) -> str:
    return hashlib.sha256(f"{chain}\n{part}".encode("utf-8", "surrogatepass")).hexdigest()


def walk(body: dict[str, Any]) -> Iterator[tuple[int, int, dict[str, Any], str]]:
    """Yield each block of the messages with its place and the digest of its prefix."""
    chain = _extend("", "\n".join(preamble(body)))
    for i, message in enumerate(body.get("messages") or []):
        for j, block in enumerate(blocks(message.get("content"))):
            yield i, j, block, chain
            chain = _extend(chain, f"{message.get('role')} {canonical(block)}")


def digest(body: dict[str, Any], answered: list[dict[str, Any]]) -> str:
    """Return the digest of a whole request and of the blocks that answer it so far."""
    longer = {**body, "messages": [*body["messages"], {"role": "assistant", "content": [*answered, {}]}]}
    return [prefix for *_, prefix in walk(longer)][-1]


def sign(text: str, prefix: str) -> str:
    """Return a signature for a thinking block."""
    claims = json.dumps({"text": _extend("", text), "prefix": prefix})
    seal = hmac.new(_KEY, claims.encode(), "sha256").hexdigest()
    return base64.b64encode(f"{seal}{claims}".encode()).decode()


def claims(signature: Any) -> dict[str, str] | None:
    """Return the contents of a signature; None if it is not one of this module."""
    try:
        text = base64.b64decode(signature, validate=True).decode()
    except (ValueError, TypeError):
        return None
    seal, content = text[:64], text[64:]
    if not hmac.compare_digest(seal, hmac.new(_KEY, content.encode(), "sha256").hexdigest()):
        return None
    found: dict[str, str] = json.loads(content)
    return found


def covers(found: dict[str, str], text: str) -> bool:
    """Return whether the signature was made for this text."""
    return found["text"] == _extend("", text)
