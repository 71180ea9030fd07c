"""Texts that can't be searched for secrets.

By default its request is refused; an operator may have the text masked or passed on instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from penumbra.compress import time_budget
from penumbra.compress.result import Redacted
from penumbra.redaction import RedactionError, TooLarge

Redact = Callable[[str, str], Redacted]
"""Takes a text and a hint (path or command). Raises RedactionError."""
SECONDS = 30.0
"""Processor time for the texts of one request: as much as several megabytes take that are full of secrets."""
RULE = "unscanned"
"""Under this name masked texts are counted."""
_MASK = re.compile(rf"\[REDACTED:{RULE}:[0-9]{{1,15}} bytes\]")
_log = logging.getLogger(__name__)


def bounded(redact: Redact, seconds: float = SECONDS) -> Redact:
    """`redact` for so much processor time altogether. What would take longer is not searched: it raises
    TooLarge."""
    allowance = time_budget.Allowance(seconds)

    def attempt(text: str, hint: str) -> Redacted:
        try:
            return allowance.spend(lambda: redact(text, hint))
        except time_budget.Overrun:
            raise TooLarge(f"the search takes more than {seconds:g} s of processor time") from None

    return attempt


def forgiving(redact: Redact, failure: str) -> Redact:
    """`redact` itself for `refuse`; for `mask` and `pass`, one that never raises RedactionError.

    A mask says how many UTF-8 bytes it stands for. Each failure is one log line, without any content.
    """
    if failure == "refuse":
        return redact

    def attempt(text: str, hint: str) -> Redacted:
        try:
            return redact(text, hint)
        except RedactionError as error:
            if failure == "pass":
                _log.warning("Penumbra passes on a text that was not searched for secrets: %s", error)
                return Redacted(text)
            if _MASK.fullmatch(text):
                return Redacted(text)
            _log.warning("Penumbra masks a text that was not searched for secrets: %s", error)
            return Redacted(mask(text), {RULE: 1})

    return attempt


def mask(text: str) -> str:
    """Return what stands for a text that was not searched."""
    return f"[REDACTED:{RULE}:{len(text.encode('utf-8', 'surrogatepass'))} bytes]"
