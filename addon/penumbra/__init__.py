"""Penumbra is a mitmproxy addon that makes the decrypted requests of LLM agents smaller and safer."""

from collections.abc import Iterable

__version__ = "0.1.0"


def redact(text: str) -> str:
    """Return the text with its secrets replaced by `[REDACTED:<label>:<fingerprint>]`. A text that is already
    redacted is returned unchanged. Every process returns the same result for the same text. Raises
    `penumbra.redaction.RedactionError` if the text can't be searched."""
    from penumbra import redaction

    return redaction.redact(text)


def redact_many(texts: Iterable[str]) -> list[str]:
    """Return the result of `redact` for each text."""
    from penumbra import redaction

    return redaction.redact_many(texts)
