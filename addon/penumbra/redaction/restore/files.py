"""Which file a value was read from, and which one a call edits: only what is beyond doubt.

Paths are compared as text: nothing here looks at a disk, since it is the client's. So only a path in its
simplest spelling names a file at all. A relative path starts from the folder that the call names, or that
the conversation says it works in; without either it equals only the same relative path, and after a
change of folder nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from penumbra import rules
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.short_texts import remembered

Kind = Literal["path", "patch", ""]
"""How a call names the file that it edits: in a member, or within a patch; empty: it is no edit."""
_OF_FILES = ("read", "edit", "write")
_WORD = re.compile(r"[\w.-]+")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_SETTLED = ("read", "edit", "write", "glob", "list", "grep", "web", "plan")
"""Categories of tools whose calls change no folder."""
_QUOTES = str.maketrans("", "", "\"'\\")
_DOT = re.compile(r"(?:^|[;&|(\n])[ \t]*\.[ \t]")
"""The shell's command that runs a file's lines as its own."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@cache
def _table() -> Mapping[str, Any]:
    loaded: dict[str, Any] = rules.load("files.yaml")
    return loaded


@cache
def _elsewhere() -> frozenset[str]:
    return frozenset(_table()["elsewhere"])


@rules.cached
def _path_keys() -> frozenset[str]:
    return frozenset(key.casefold() for key in tools.tool_rules().arguments.path)


@cache
def _path_words() -> frozenset[str]:
    return frozenset(_table()["path_words"])


@rules.until_changed
@remembered(4_096)
def names_file(member: str) -> bool:
    """Whether a member of a call's arguments may name a file, by its name."""
    if member in folder_keys():
        return False
    words = _WORDS.findall(member)
    last = words[-1].casefold() if words else ""
    return member.casefold() in _path_keys() or last in _path_words()


def folder_keys() -> tuple[str, ...]:
    """The members of a call's arguments that name the folder in which it runs."""
    return tuple(_table()["folders"])


def built_in_path(tool: str) -> str:
    """The member that names the file in calls of a tool that the provider declares; or empty."""
    return str(_table()["built_in"].get(tool, ""))


def settled(tool: str) -> bool:
    """Whether no call of this tool can change a folder."""
    return tools.category(tool) in _SETTLED and tool not in _table()["moving_tools"]


def moves(tool: str, texts: Iterable[str]) -> bool:
    """Whether a call may change the folder that later relative paths start from.

    `texts`: the strings of its arguments.
    """
    if tool in _table()["moving_tools"]:
        return True
    if settled(tool):
        return False
    return any(
        _DOT.search(text) is not None
        or not _moving_words().isdisjoint(_WORD.findall(text.translate(_QUOTES).casefold()))
        for text in texts
    )


@cache
def _moving_words() -> frozenset[str]:
    return frozenset(_table()["moving_words"])


def edit_kind(tool: str) -> Kind:
    """What kind of file edit a tool makes. MCP servers may run anywhere: their tools are no edits."""
    if tools.is_mcp(tool):
        return ""
    if tool in _table()["patches"]:
        return "patch"
    return "path" if tools.category(tool) in ("edit", "write") else ""


@dataclass(frozen=True, slots=True)
class Folder:
    """Where relative paths start."""

    root: str = ""
    """Absolute; empty if it is not known."""
    moved: bool = False
    """A call may have gone elsewhere: relative paths are in doubt."""

    def file(self, path: str, workdir: str | None = None) -> str:
        """The one file that a path names, in its only spelling; empty if that is in doubt.

        `workdir`: the folder that the call itself says it runs in.
        """
        path = _plain(path)
        if not path or _is_absolute(path):
            return path
        if workdir is not None:
            workdir = _plain(workdir)
            if not workdir or (self.moved and not _is_absolute(workdir)):
                return ""
            path = f"{workdir}/{path}"
            if _is_absolute(path):
                return path
        if self.moved:
            return ""
        return f"{self.root}/{path}" if self.root else path


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or _DRIVE.match(path) is not None


def _plain(path: str) -> str:
    """The path, with slashes, if it means one file to every reader; empty for any other.

    What changes when it is normalised may cross a link on its way; what begins with a sign of a shell's,
    and what some systems cut off, may stand for something else.
    """
    drive = _DRIVE.match(path)
    if drive:
        path = path.replace("\\", "/")
    elif "\\" in path:
        # A separator, or a part of a name: that depends on the system.
        return ""
    if not path or not path.isprintable() or path != path.strip() or path[0] in "~$%" or path[:2] == "//":
        return ""
    parts = path.split("/")
    if any(part in (".", "..") or part.endswith((" ", ".")) for part in parts):
        return ""
    if drive and ":" in path[2:]:
        return ""
    return path if posixpath.normpath(path) == path and path != "." else ""


def read_from(tool: str, arguments: Any, folder: Folder) -> str:
    """The file whose text a call's result shows; empty if that is not sure."""
    if tools.is_mcp(tool):
        return ""
    call = classify(tool, arguments)
    if not call.path or call.category not in _OF_FILES:
        return ""
    if not call.shell and tools.category(tool) not in _OF_FILES:
        return ""
    if call.shell and not _elsewhere().isdisjoint(_WORD.findall(call.line)):
        return ""
    return folder.file(call.path, _workdir(arguments))


def _workdir(arguments: Any) -> str | None:
    given = arguments.get("action", arguments) if isinstance(arguments, Mapping) else {}
    folder = tools.first_of(given, folder_keys()) if isinstance(given, Mapping) else None
    return folder if isinstance(folder, str) else None


def stated_folder(opening: str, data: bytes) -> str:
    """The absolute folder that a conversation works in; empty if none is stated, or more than one.

    `opening`: the text of the first user turn; `data`: the whole request, of which no part may say
    anything else.
    """
    pattern = _table()["stated"]
    if (stated := re.search(pattern, opening)) is None:
        return ""
    if len(set(re.findall(pattern.encode(), data))) != 1:
        return ""
    path = _plain(stated[1])
    return path if _is_absolute(path) else ""
