"""Our options by group, for `penumbra proxy --help`."""

from __future__ import annotations

import shutil
import textwrap

from penumbra.config.declaration import CONFIG_OPTION
from penumbra.config.options import groups

_INTRODUCTION = (
    "Options of Penumbra, each as --set NAME=VALUE, as an environment variable (PENUMBRA_MODE) or in the "
    f"file that {CONFIG_OPTION} names:"
)


def text() -> str:
    """All of them with their help."""
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 110))
    lines = textwrap.wrap(_INTRODUCTION, width)
    for title, options in groups().items():
        lines += ["", f"{title}:"]
        for option in options:
            lines += _entry(option.full_name, option.description, width)
    return "\n".join(lines)


def _entry(name: str, explanation: str, width: int) -> list[str]:
    return [
        f"  {name}",
        *textwrap.wrap(explanation, width, initial_indent=" " * 6, subsequent_indent=" " * 6),
    ]
