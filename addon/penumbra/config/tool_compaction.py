"""The options about superseded results: what counts as superseded, and what stays of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAMES = (
    *("inputTrimBytes", "outputTrimBytes", "excludedTools", "toolIdentifierFields"),
    *("toolOnly", "compactArguments", "staleReads"),
)
"""As YAML files and JSON spell them."""


@dataclass(frozen=True, slots=True)
class ToolCompaction:
    """What is superseded, and which fields of it stay. Sizes in UTF-8 bytes."""

    input_trim_bytes: int = 100
    output_trim_bytes: int = 100
    excluded_tools: frozenset[str] = frozenset()
    tool_identifier_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tool_only: bool = False
    """Tools without identifier fields have one group each, whatever their arguments."""
    arguments: bool = False
    """Older calls lose their large arguments too."""
    stale_reads: bool = True
    """A read is superseded when its file was written afterwards."""
    unknown: tuple[str, ...] = ()
    """Names that mean nothing here."""

    @classmethod
    def read(cls, given: Any) -> ToolCompaction:
        """The options under the names of `NAMES`; what has the wrong type is as if left out."""
        given = given if isinstance(given, Mapping) else {}
        fields = given.get("toolIdentifierFields")
        names = given.get("excludedTools")
        return cls(
            input_trim_bytes=_bytes(given.get("inputTrimBytes")),
            output_trim_bytes=_bytes(given.get("outputTrimBytes")),
            excluded_tools=frozenset(_texts(names)),
            tool_identifier_fields={
                tool: tuple(_texts(keys))
                for tool, keys in (fields.items() if isinstance(fields, Mapping) else ())
                if isinstance(tool, str) and _texts(keys)
            },
            tool_only=given.get("toolOnly") is True,
            arguments=given.get("compactArguments") is True,
            stale_reads=given.get("staleReads") is not False,
            unknown=tuple(str(name) for name in given if name not in NAMES),
        )


def _bytes(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 100


def _texts(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, (list, tuple)) else []
