"""Which conversations go through as they come, to be compared with the others.

It is remembered, since the arm that a conversation begins in is its arm to its end.
"""

from __future__ import annotations

from penumbra.store.keyed_values import KeyedValues, News, Schema

HELD_OUT, SHORTENED = "held out", "shortened"
NEITHER = ""
"""It began before there were arms."""
_MEMORY = 4_000
"""Conversations."""
Arms = KeyedValues[str]
"""By the keyed hash of a conversation."""

SCHEMA = Schema("arms", str.encode, bytes.decode, _MEMORY, leaves_last=True, news=lambda arm: News.VALUE)
