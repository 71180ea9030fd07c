"""Secrets out, placeholders in.

In come a text and a hint (the command or path that it is from); out comes the text with a placeholder for
each secret, and counts by rule. `conversation/` calls `Redactor` (in `redactor.py`) for results and other
texts, and `OtherBodies` for bodies that are no LLM calls. `redact` and `redact_many` are for callers without
a key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penumbra import rules
from penumbra.errors import RedactionError as RedactionError
from penumbra.errors import TooLarge as TooLarge
from penumbra.errors import Unreadable as Unreadable
from penumbra.rule_schemas import RuleError as RuleError

if TYPE_CHECKING:
    from penumbra.redaction.redactor import Redactor

MAX_BYTES = 32 << 20
"""Default limit of one text, in UTF-8 bytes."""
LIBRARY_KEY = b"penumbra.redact"
"""Key of the fingerprints that `redact` and `redact_many` make. The key is public: a proxy that sends
fingerprints to others uses a key of its own."""


@rules.cached
def default() -> Redactor:
    """The process-wide redactor with our own rules and `LIBRARY_KEY`."""
    from penumbra.redaction.redactor import Redactor

    return Redactor(LIBRARY_KEY)


def redact(text: str) -> str:
    """The text with every secret replaced by `[REDACTED:<label>:<fingerprint>]`.

    Idempotent; the same text gives the same result in every process. Raises `RedactionError`.
    """
    return default().redact(text).text


def redact_many(texts: Iterable[str]) -> list[str]:
    """`redact` for each text."""
    redactor = default()
    return [redactor.redact(text).text for text in texts]
