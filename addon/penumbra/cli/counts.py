"""How commands say a number of things."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 request`, `1,200 requests`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
