"""The examples in files of secret rules: what must go from a text, and what must stay."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.rule_schemas.secret_rules import SecretRule

SPLIT = "¦"
"""Parts a secret, so that no file holds a whole one."""
_MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)


def plain(example: str) -> str:
    """The text of an example, without its marks."""
    return example.replace(SPLIT, "").replace("⟦", "").replace("⟧", "")


def problems(rule: SecretRule, redactor: Redactor, alone: Redactor) -> Iterator[str]:
    """One line, which begins with the key, for each example that does not hold.

    `redactor` works by all rules, `alone` by this one.
    """
    for number, example in enumerate(rule.examples.match):
        key = f"examples.match[{number}]"
        redacted = redactor.redact(plain(example)).text
        wanted = _MARKED.sub("⟦⟧", example.replace(SPLIT, ""))
        if not _MARKED.search(example):
            yield f"{key}: nothing in it is marked by ⟦ ⟧"
        elif PATTERN.sub("⟦⟧", redacted) != wanted:
            yield f"{key}: got {PATTERN.sub('⟦⟧', redacted)!r}, the example says {wanted!r}"
        elif not alone.redact(plain(example)).counts.get(rule.id):
            yield f"{key}: another rule takes it out, this one does not"
    for number, example in enumerate(rule.examples.no_match):
        redacted = redactor.redact(plain(example)).text
        if redacted != plain(example):
            yield f"examples.no_match[{number}]: got {redacted!r}, the example says that it stays"
