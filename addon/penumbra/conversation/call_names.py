"""How a reference names an earlier call: by what the model can see of it, its tool and its path or command.

Ids of calls are not shown to most models.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, NamedTuple

from penumbra.compress.calls.classify import classify
from penumbra.compress.calls.tools import first_of

_LONGEST = 60
"""Characters of a path, of which the end is shown, or of a command, of which it is the beginning."""
_ASKED = ("pattern", "query", "url", "uri", "prompt", "name")
"""Arguments that tell calls of a tool apart which has neither path nor command."""


class CallName(NamedTuple):
    """A call as a reference names it."""

    name: str
    """`Read src/a.ts`; the tool alone if nothing tells its calls apart."""
    path: str
    """The file that the call reads or writes; empty if it is none, or more than one."""


def call_name(tool: str, arguments: Any) -> CallName:
    """The name of a call; `arguments` decoded. Never raises."""
    call = classify(tool, arguments)
    path = posixpath.normpath(call.path.replace("\\", "/")) if call.path else ""
    if call.shell and call.line:
        what = _beginning(call.line)
    elif path:
        what = path if len(path) <= _LONGEST else f"…{path[1 - _LONGEST :]}"
    else:
        asked = first_of(arguments, _ASKED) if isinstance(arguments, Mapping) else None
        what = _beginning(asked) if isinstance(asked, str) else ""
    return CallName(_plain(f"{tool} {what}" if what else tool), path)


def same_file(one: str, other: str) -> bool:
    """Whether two paths may be spellings of one file: the same, or one of them the end of the other.
    A call that shows several files has no path: it may show any."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return not shorter or longer == shorter or longer.endswith(f"/{shorter.removeprefix('/')}")


def _beginning(text: str) -> str:
    line = " ".join(text[: 4 * _LONGEST].split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _plain(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name)
