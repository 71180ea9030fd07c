"""How much of a YAML file of the user's is read: what is nested too deep ends a parser, and
with it the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 4_000_000
DEEPEST = 100
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooMuch(yaml.YAMLError):
    """Beyond these bounds."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def read(path: Path) -> str:
    """The text of a file.

    Raises OSError, UnicodeDecodeError, and YAMLError where it goes beyond the bounds or is no YAML.
    """
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TooMuch(f"more than {MOST_BYTES:,} bytes")
    text = data.decode().replace("\r\n", "\n")
    depth = 0
    try:
        # Events come one by one, from a parser that does not call itself.
        for event in yaml.parse(text, Loader=LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise TooMuch(f"nested deeper than {DEEPEST}")
    except yaml.MarkedYAMLError as error:
        # PyYAML has a bound of its own since 6.0.4, and reads ahead of the events.
        if "nesting depth" in str(error):
            raise TooMuch(f"nested deeper than {DEEPEST}") from None
        raise
    return text
