"""A projection for programs. Names, sizes and counts; no content but the calls of the largest results."""

from __future__ import annotations

from typing import Any

from penumbra.projection.figures import Figures, LargeResult, Requests, Sums

NOTE = (
    "A projection: the results as a proxy would have sent them. System prompts and declarations of tools are "
    "in recorded requests, not in session logs; what the model would have asked back is not known."
)


def content(figures: Figures, read: dict[str, int]) -> dict[str, Any]:
    """The figures. `read`: what was read of files, and what was not."""
    return {
        "projection": NOTE,
        "read": {**read, "conversations": figures.conversations, "failed": figures.failed},
        "results": _sums(figures.results),
        "requests": _requests(figures.requests),
        "agents": {
            name: {"requests": _requests(requests), "results": _sums(sums)}
            for name, (requests, sums) in figures.agents.items()
        },
        "tools": [{"tool": tool, "kind": kind, **_sums(sums)} for (tool, kind), sums in figures.ranked],
        "secrets": {"by_rule": dict(figures.secrets), "different_values": len(figures.values)},
        "largest": [_large(large) for large in figures.largest],
    }


def _sums(sums: Sums) -> dict[str, Any]:
    return {
        "count": sums.results,
        "changed": sums.changed,
        "tokens": [sums.before, sums.after],
        "resent_tokens": [sums.resent_before, sums.resent_after],
        "dollars_saved": round(sums.dollars, 6),
    }


def _requests(requests: Requests) -> dict[str, Any]:
    return {
        "count": requests.count,
        "input_tokens": requests.input,
        "input_tokens_counted_by_provider": requests.counted_input,
        "input_dollars": round(requests.dollars, 6),
        "injected_tool_tokens": requests.declared,
        "injected_tool_dollars": round(requests.declared_dollars, 6),
        "without_known_price": requests.unpriced,
    }


def _large(large: LargeResult) -> dict[str, Any]:
    return {
        "tool": large.tool,
        "kind": large.kind,
        "call": large.call,
        "source": large.source,
        "how": large.facts.how,
        "stages": list(large.facts.stages),
        "tokens": [large.facts.tokens_before, large.facts.tokens_after],
    }
