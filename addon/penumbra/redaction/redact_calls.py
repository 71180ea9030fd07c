"""This module limits the time of redaction, handles texts that can't be searched, and redacts names.

By default, a request with a text that can't be searched is refused. The operator may choose to mask or to
forward the text instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from penumbra.compress import time_budget
from penumbra.compress.result import Redacted
from penumbra.errors import one_line
from penumbra.redaction import RedactionError, TooLarge
from penumbra.short_texts import LONGEST, remembered

Redact = Callable[[str, str], Redacted]
"""A function that redacts a text with a hint (path or command). Raises RedactionError."""
SECONDS = 30.0
"""The seconds of processor time for the texts of one request."""
RULE = "unscanned"
"""The rule id under which masked texts are counted."""
_MASK = re.compile(rf"\[REDACTED:{RULE}:[0-9]{{1,15}} bytes\]")
_log = logging.getLogger(__name__)


def bounded(redact: Redact, seconds: float = SECONDS) -> Redact:
    """Return `redact` with a limit of processor time for all texts together. Raises TooLarge."""
    allowance = time_budget.Allowance(seconds)

    def attempt(text: str, hint: str) -> Redacted:
        try:
            return allowance.spend(lambda: redact(text, hint))
        except time_budget.Overrun:
            raise TooLarge(f"the search takes more than {seconds:g} s of processor time") from None

    return attempt


def forgiving(redact: Redact, failure: str) -> Redact:
    """Return `redact` itself if `failure` is `refuse`. For `mask` and `pass`, return a function that never
    raises RedactionError. Each failure is logged without any content, unless the text is already a mask."""
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
    """Return the mask for a text that was not searched. The mask states the number of UTF-8 bytes."""
    return f"[REDACTED:{RULE}:{len(text.encode('utf-8', 'surrogatepass'))} bytes]"


_MOST = 100
"""The greatest number of characters of a name that are shown."""
ShowName = Callable[[str], str]


def shown_names(redact: Callable[[str, str], Redacted]) -> ShowName:
    """Return a function that prepares a name to be shown, in one short line without secrets."""

    def show(name: str) -> str:
        try:
            clean = one_line(redact(name, "").text)
        except RedactionError:
            return "(not searched)"
        return clean if len(clean) <= _MOST else f"{clean[:_MOST]}…"

    short = remembered(4_096)(show)

    # A long name is not cut and searched, because half of a secret may not be found.
    return lambda name: short(name) if len(name) <= LONGEST else f"(a name of {len(name)} characters)"
