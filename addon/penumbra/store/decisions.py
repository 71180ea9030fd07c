"""This module stores the decisions about results. The form in which a result was first sent is final, unless
a long conversation must become smaller. The key of a decision is a keyed hash of caller, call and text. If
the id of the call is not unique, the hash also covers the earlier calls."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from penumbra.store.keyed_values import News, Schema
from penumbra.store.table import pack_text, unpack_text

_MEMORY_CHARACTERS = 32_000_000
_ENTRY_CHARACTERS = 500
KNOWN_VALUE = "known-value"
"""Rule name for values that are secrets only because of an earlier text of the caller."""
PLACEHOLDER_NOTE = "placeholder_note"
"""The name of the stage that adds a note to the end of a result whose call contained placeholders."""


class Facts(Struct, frozen=True, omit_defaults=True):
    """A `Facts` describes a decision for display. Sizes are those of the text before and after the change."""

    how: str = "kept"
    """`kept` (as it came), `shortened`, `duplicate`, `adopted` (already seen raw by the provider),
    `superseded` (made useless by a later result) or `recovered` (shortened so that the request fits)."""
    loss: int = 0
    stages: tuple[str, ...] = ()
    family: str = ""
    referents: tuple[str, ...] = ()
    """Keys (hex) of the earlier texts to which this text refers."""
    ref: str = ""
    """Reference by which the model can ask for the original; empty if nothing was left out."""
    bytes_before: int = 0
    bytes_after: int = 0
    characters_before: int = 0
    lines_before: int = 0
    token_mark: int = 0
    """Token count in the original text (`Original token count: 8123`); 0 if there is none."""
    tokens_before: int = 0
    tokens_after: int = 0
    redactions: Mapping[str, int] = msgspec.field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    """Stages that were skipped for lack of time."""
    asked: str = ""
    """The external compressor's outcome, as in `compress.result.Asked.how`."""


class Decision(Struct, frozen=True):
    """A `Decision` is the form in which a text is sent. `text` is None if the text is sent unchanged."""

    text: str | None
    facts: Facts


def referents(decided: Mapping[bytes, Decision]) -> frozenset[bytes]:
    """Return the keys of the texts to which decisions refer."""
    return frozenset(
        bytes.fromhex(key) for decision_made in decided.values() for key in decision_made.facts.referents
    )


def _weigh(decision: Decision) -> int:
    return _ENTRY_CHARACTERS + len(decision.text or "")


def _news(decision: Decision) -> News:
    facts = decision.facts
    if facts.how == "kept":
        return News.NOTHING
    is_made_again = facts.how in ("shortened", "duplicate") and not facts.skipped and not facts.asked
    # Other proxies know neither the caller's earlier secrets nor whether a result was new.
    knows_more = KNOWN_VALUE in facts.redactions or PLACEHOLDER_NOTE in facts.stages
    is_made_again = is_made_again and not knows_more
    return News.KEY if is_made_again else News.VALUE


_DECODER = msgspec.json.Decoder(Facts)


def _pack(decision: Decision) -> bytes:
    """Return the record of a decision: the size of the facts, the facts that differ from their defaults, and
    the text if it was changed."""
    facts = msgspec.json.encode(decision.facts)
    form = b"" if decision.text is None else pack_text(decision.text)
    return len(facts).to_bytes(4, "big") + facts + form


def _unpack(record: bytes) -> Decision:
    """Return the decision in a record of any release. Unknown facts are ignored, and missing facts get
    defaults."""
    end = 4 + int.from_bytes(record[:4], "big")
    facts, form = _DECODER.decode(record[4:end]), record[end:]
    return Decision(unpack_text(form) if form else None, facts)


SCHEMA = Schema("decisions", _pack, _unpack, _MEMORY_CHARACTERS, _weigh, leaves_last=True, news=_news)
