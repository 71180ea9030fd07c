"""Redaction replaces each secret of a text by a placeholder.

`Redactor` (in `redactor.py`) takes a text and a hint: the command that printed the text, or the path of its
file. The result has the redacted text and the number of secrets by rule. `OtherBodies` redacts bodies that
are no LLM calls. `redact` and `redact_many` are for programs that use Penumbra as a library.
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
"""The default size limit of a text, in UTF-8 bytes."""
LIBRARY_KEY = b"penumbra.redact"
"""The key of the fingerprints from `redact` and `redact_many`. Anyone may know this key."""


@rules.cached
def default() -> Redactor:
    """Return the redactor of this process with Penumbra's own rules and `LIBRARY_KEY`."""
    from penumbra.redaction.redactor import Redactor

    return Redactor(LIBRARY_KEY)


def redact(text: str) -> str:
    """Return the text with `[REDACTED:<label>:<fingerprint>]` in place of each secret. Redacting the result
    again changes nothing. Raises `RedactionError`."""
    return default().redact(text).text


def redact_many(texts: Iterable[str]) -> list[str]:
    """Return the texts with their secrets replaced, in the same order. Raises `RedactionError`."""
    redactor = default()
    return [redactor.redact(text).text for text in texts]
