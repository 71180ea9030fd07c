"""Which file a value was read from, and which one a call edits: only what is beyond doubt.

Paths are compared as text: nothing here looks at a disk, since it is the client's. A relative path is
resolved against the folder that the conversation says it works in; without that, it equals only the
same relative path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

from penumbra import rules
from penumbra.calls import tools
from penumbra.calls.classify import classify

Kind = Literal["path", "patch", ""]
"""How a call names the file that it edits: in a member, or within a patch; empty: it is no edit."""
_OF_FILES = ("read", "edit", "write")
_WORD = re.compile(r"[\w.-]+")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@cache
def _table() -> Mapping[str, Any]:
    loaded: dict[str, Any] = rules.load("files.yaml")
    return loaded


@cache
def _elsewhere() -> frozenset[str]:
    return frozenset(_table()["elsewhere"])


@cache
def path_keys() -> frozenset[str]:
    """The members of a call's arguments that may name its file."""
    return frozenset(tools.table()["arguments"]["path"])


def folder_keys() -> tuple[str, ...]:
    """The members of a call's arguments that name the folder in which it runs."""
    return tuple(_table()["folders"])


def edit_kind(tool: str) -> Kind:
    """What kind of file edit a tool makes. MCP servers may run anywhere: their tools are no edits."""
    if tool.casefold().startswith(tuple(tools.table()["mcp_prefixes"])):
        return ""
    if tool in _table()["patches"]:
        return "patch"
    return "path" if tools.category(tool) in ("edit", "write") else ""


def read_from(tool: str, arguments: Any, root: str) -> str:
    """The file whose text a call's result shows; empty if that is not sure. `root` as of `working_folder`."""
    if tool.casefold().startswith(tuple(tools.table()["mcp_prefixes"])):
        return ""
    call = classify(tool, arguments)
    if not call.path or call.category not in _OF_FILES:
        return ""
    if not call.shell and tools.category(tool) not in _OF_FILES:
        return ""
    if call.shell and not _elsewhere().isdisjoint(_WORD.findall(call.line)):
        return ""
    return resolved(call.path, _folder(arguments, root) if call.shell else root)


def _folder(arguments: Any, root: str) -> str:
    given = arguments.get("action", arguments) if isinstance(arguments, Mapping) else {}
    folder = tools.first_of(given, _table()["folders"]) if isinstance(given, Mapping) else None
    return resolved(folder, root) if isinstance(folder, str) else root


def working_folder(opening: str, folders: Iterable[Any]) -> str:
    """The absolute folder that a conversation works in; empty if it is not known.

    `opening` is the text of the first user turn; `folders` are the arguments of calls. What is stated
    counts; else the folder of the calls, where they name only one.
    """
    stated = re.search(_table()["stated"], opening)
    if stated:
        return resolved(stated[1].strip(), "")
    named = {_folder(arguments, "") for arguments in folders} - {""}
    return named.pop() if len(named) == 1 else ""


def resolved(path: str, root: str) -> str:
    """The path in its simplest spelling, absolute if it is or `root` is known; empty for an empty one."""
    path = path.strip()
    if not path or "\0" in path:
        return ""
    if _DRIVE.match(path) or ("\\" in path and "/" not in path):
        path = path.replace("\\", "/")
    if root and not path.startswith(("/", "~")) and not _DRIVE.match(path):
        path = f"{root}/{path}"
    return posixpath.normpath(path)
