"""What external compressors have answered: the same text for the same question is asked once."""

from __future__ import annotations

from penumbra.store.keyed_values import KeyedValues, Schema
from penumbra.store.table import pack_text, unpack_text

SCHEMA = Schema("compressed", pack_text, unpack_text)
Compressed = KeyedValues[str]
"""Answers by key. They are added: the first one stays, so that all who ask get the same."""
