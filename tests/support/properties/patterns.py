"""Patterns of rules."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from penumbra.compress.families.patterns import Pattern
from support.properties.source import Source, as_text


@cache
def _patterns() -> Sequence[tuple[str, Pattern]]:
    """Every pattern that is matched line by line, from rules/commands."""
    from penumbra import rules

    found: list[tuple[str, Pattern]] = []
    folder = Path(str(rules.__file__)).parents[2] / "rules" / "commands"
    import yaml

    def walk(where: str, value: Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(inner, dict | list):
                walk(where, inner)
            elif isinstance(inner, str) and isinstance(key, str) and ("^" in inner or "\\" in inner):
                try:
                    found.append((f"{where}: {key}", Pattern(inner)))
                except Exception:  # It is no pattern.
                    continue

    for file in sorted(folder.glob("*.yaml")):
        walk(file.name, yaml.safe_load(file.read_text(encoding="utf-8")))
    assert found
    return found


_SECONDS = 2.0


def rule_patterns(data: bytes) -> None:
    """No pattern takes long for a line, whatever the line repeats."""
    source = Source(data)
    name, pattern = source.one(_patterns())
    pieces = (
        "a", " ", "0", "/", ":", ".", "-", "_", "=", "(", '"', "aa ", "0.0", "./", " ->", "\t", "[",
        "error", "ok ", ",",
    )  # fmt: skip
    unit = "".join(source.some(pieces, as_text, 6)) or " "
    head = "".join(source.some(pieces, as_text, 8))
    line = (head + unit * 2_000)[:1_999] + source.one(("", "!", "\x00"))
    began = time.thread_time()
    pattern.match(line)
    spent = time.thread_time() - began
    assert spent < _SECONDS, f"{name} takes {spent:.1f} s for {line[:80]!r}"
