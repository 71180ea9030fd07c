"""JSON of an API without the addresses that it writes into each object for programs.

    {"login":"ada","id":7,"html_url":"https://example.com/ada"}
    [17 links of the API left out]

They follow from names and ids beside them. What stays is JSON as it was.
"""

from __future__ import annotations

from typing import Any

import re2

from penumbra import rules
from penumbra.compress.size import encode
from penumbra.rule_schemas.own_tables import ApiLinks

_LEAST = 5
"""Members that are worth it."""


def without(text: str) -> str | None:
    """The text without such members, and how many they were; None if there are too few."""
    short, gone = bare(text)
    return f"{short}\n[{gone} links of the API left out]" if gone >= _LEAST else None


def bare(text: str) -> tuple[str, int]:
    """The text without such members, and how many they were."""
    if not any(hint in text for hint in _rules().hints):
        return text, 0
    member, run = _patterns()
    gone = 0

    def cut(match: Any) -> bytes:
        nonlocal gone
        gone += sum(1 for _ in member.finditer(match[0]))
        return match[0][:1] if match[0][:1] == b"{" else b""

    short = run.sub(cut, encode(text))
    return (short.decode("utf-8", "surrogatepass"), gone) if gone else (text, 0)


def _rules() -> ApiLinks:
    return rules.load_as("api_links.yaml", ApiLinks)


@rules.cached
def _patterns() -> tuple[Any, Any]:
    """A member, and members one after the other with the comma in front of them, or from the beginning of an
    object on with that behind them."""
    member = "(?:" + "|".join(f"(?:{pattern})" for pattern in _rules().members) + ")"
    run = f"{member}(?:,{member})*"
    return re2.compile(member.encode()), re2.compile(rf",{run}|\{{{run},?".encode())
