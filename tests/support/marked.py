"""Texts in which `⟦ ⟧` mark the secrets. `¦` splits a token of such a text, and is no part of it."""

import re

from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor

_MARKED = re.compile("⟦([^⟧]*)⟧")


def check(redactor: Redactor, marked: str, call: str = "") -> None:
    """Check that redaction replaces exactly the marked values, and that no other pass replaces more."""
    marked = marked.replace("¦", "")
    secrets, text = _MARKED.findall(marked), _MARKED.sub(r"\1", marked)
    redacted = redactor.redact(text, call).text
    between = PATTERN.split(redacted)
    assert len(between) == len(secrets) + 1, (marked, redacted)
    restored = "".join(part for pair in zip(between, [*secrets, ""], strict=True) for part in pair)
    assert restored == text, (marked, redacted)
    assert redactor.redact(redacted, call).text == redacted, marked


def check_value(redactor: Redactor, text: str, value: str) -> None:
    """Check that redaction replaces exactly the value, wherever the text has it."""
    check(redactor, text.replace(value, f"⟦{value}⟧"))
