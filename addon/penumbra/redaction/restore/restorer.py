"""This module replaces placeholders by their values in the arguments of a tool call that edits a file.

The arguments arrive in fragments of any size. Text is forwarded at once, up to the first placeholder with a
known value. Later text waits for the end of the call, because a second path or a repeated key may still
change which file the call edits. In case of doubt a placeholder stays.

The values are kept only in memory, separately for each conversation. Their total size is limited.
"""

from __future__ import annotations

import json
import posixpath
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

from cachetools import FIFOCache, LRUCache

from penumbra import rules
from penumbra.apis.parts import argument_strings
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.redaction.placeholder import PATTERN
from penumbra.short_texts import remembered

# A value is only written into the file from which it was read. The files are on the client's disk, so paths
# are compared as text, and only normalised paths are accepted. A relative path starts at the working folder
# that the call or the conversation states. If neither states a folder, a relative path equals only the same
# relative path. After a call that may have changed the folder, a relative path counts only if the call states
# an absolute folder.
Kind = Literal["path", "patch", ""]
"""The place where a call names the file that it edits: an argument or a patch; empty if it edits no file."""
_OF_FILES = ("read", "edit", "write")
_WORD = re.compile(r"[\w.-]+")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_SETTLED = ("read", "edit", "write", "glob", "list", "grep", "web", "plan")
"""Categories of tools whose calls do not change the working folder."""
_QUOTES = str.maketrans("", "", "\"'\\")
_DOT = re.compile(r"(?:^|[;&|(\n])[ \t]*\.[ \t]")
"""This pattern matches the shell command `.`, which runs the commands in a file."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_table = partial(rules.table, "files.yaml")


@cache
def _words(key: str) -> frozenset[str]:
    return frozenset(_table()[key])


@rules.cached
def _path_keys() -> frozenset[str]:
    return frozenset(key.casefold() for key in tools.tool_rules().arguments.path)


@rules.until_changed
@remembered(4_096)
def names_file(member: str) -> bool:
    """Return whether an argument with this name may contain the path of a file."""
    if member in folder_keys():
        return False
    words = _WORDS.findall(member)
    last = words[-1].casefold() if words else ""
    return member.casefold() in _path_keys() or last in _words("path_words")


def folder_keys() -> tuple[str, ...]:
    """Return the names of the arguments that say in which folder a call runs."""
    return tuple(_table()["folders"])


def built_in_path(tool: str) -> str:
    """Return the name of the argument with the path in calls of a provider's tool; empty for other tools."""
    return str(_table()["built_in"].get(tool, ""))


def settled(tool: str) -> bool:
    """Return whether no call of this tool can change the working folder."""
    return tools.category(tool) in _SETTLED and tool not in _table()["moving_tools"]


def moves(tool: str, texts: Iterable[str]) -> bool:
    """Return whether a call may change the working folder of later calls. `texts` are the call's strings."""
    if tool in _table()["moving_tools"]:
        return True
    if settled(tool):
        return False
    return any(
        _DOT.search(text) is not None
        or not _words("moving_words").isdisjoint(_WORD.findall(text.translate(_QUOTES).casefold()))
        for text in texts
    )


def edit_kind(tool: str) -> Kind:
    """Return where calls of a tool name the file that they edit. The result is empty for a tool of an MCP
    server, because the server may run on another machine."""
    if tools.is_mcp(tool):
        return ""
    if tool in _table()["patches"]:
        return "patch"
    return "path" if tools.category(tool) in ("edit", "write") else ""


@dataclass(frozen=True, slots=True)
class Folder:
    """A `Folder` is the working folder. Relative paths start there."""

    root: str = ""
    """Absolute path; empty if it is unknown."""
    moved: bool = False
    """True if a call may have changed the folder."""

    def file(self, path: str, workdir: str | None = None) -> str:
        """Return the normalised path of the file that `path` names; empty in case of doubt. `workdir` is the
        working folder that the call itself states."""
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
    """Return the path, with slashes, if every program finds the same file there; otherwise an empty text. A
    path with `..` may lead through a symbolic link. On some systems, a path names another file if it begins
    with a special character of the shell, or if a part of the path ends with a space or full stop."""
    drive = _DRIVE.match(path)
    if drive:
        path = path.replace("\\", "/")
    elif "\\" in path:
        # On some systems a backslash separates parts. On other systems it belongs to a name.
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
    """Return the path of the file that a call's result shows; empty in case of doubt."""
    if tools.is_mcp(tool):
        return ""
    call = classify(tool, arguments)
    if not call.path or call.category not in _OF_FILES:
        return ""
    if not call.shell and tools.category(tool) not in _OF_FILES:
        return ""
    if call.shell and not _words("elsewhere").isdisjoint(_WORD.findall(call.line)):
        return ""
    return folder.file(call.path, _workdir(arguments))


def _workdir(arguments: Any) -> str | None:
    members = arguments.get("action", arguments) if isinstance(arguments, Mapping) else {}
    folder = tools.first_of(members, folder_keys()) if isinstance(members, Mapping) else None
    return folder if isinstance(folder, str) else None


def stated_folder(opening: str, data: bytes) -> str:
    """Return the absolute working folder that `opening` (the first user turn) states; empty if it states
    none, or if `data` (the whole request) states several."""
    pattern = _table()["stated"]
    if (stated := re.search(pattern, opening)) is None:
        return ""
    if len(set(re.findall(pattern.encode(), data))) != 1:
        return ""
    path = _plain(stated[1])
    return path if _is_absolute(path) else ""


MAX_SCOPES = 256
MAX_CHARACTERS = 1_000_000
"""The greatest total size of the `Read`s in one scope. A scope is usually a conversation."""
_OF_EACH = 500
"""A `Read` counts as this number of characters plus those of its values."""
_LONGEST_LINE = 1_000
"""The greatest number of characters in a line of a value."""
_NUMBERED = re.compile(r"\n[ \t]*[0-9]+[ \t]*[\t:|\u2192]")


@dataclass(frozen=True, slots=True)
class Read:
    """A `Read` is one tool result: the file that it shows, and the values that were redacted in it."""

    path: str
    values: Mapping[str, str] = field(repr=False)
    """Maps each placeholder to its secret value."""

    def size(self) -> int:
        """Return the number of characters in the values, plus `_OF_EACH`, which is for key and path."""
        return _OF_EACH + sum(map(len, self.values.values()))


class Values:
    """A `Values` contains, for each file, the values that one response may get."""

    def __init__(self, reads: Iterable[Read] = ()) -> None:
        """Collect the values of `reads`. A placeholder with several values is left out."""
        self._by_path: dict[str, dict[str, str]] = {}
        every: dict[str, str] = {}
        clashing: set[str] = set()
        for read in reads:
            for mark, value in read.values.items():
                if every.setdefault(mark, value) != value:
                    clashing.add(mark)
                if read.path:
                    self._by_path.setdefault(read.path, {})[mark] = value
        for values in self._by_path.values():
            for mark in clashing:
                values.pop(mark, None)
        self._known = frozenset(mark for values in self._by_path.values() for mark in values)

    def __contains__(self, mark: str) -> bool:
        """Return whether any file has a value for a placeholder."""
        return mark in self._known

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, path: str) -> Mapping[str, str]:
        """Return the values that were read from a file, by placeholder."""
        return self._by_path.get(path, {})

    def every(self) -> dict[str, str]:
        """Return the values of all files, by placeholder."""
        return {mark: value for values in self._by_path.values() for mark, value in values.items()}

    def __repr__(self) -> str:
        return f"<Values of {len(self._by_path)} files>"


class Vault:
    """A `Vault` keeps the values of each scope in memory. A scope is usually a conversation. A `Vault` is
    thread-safe. A full `Vault` drops the least recently used scope. A full scope drops its oldest result.
    `repr` shows only sizes."""

    def __init__(self, *, scopes: int = MAX_SCOPES, characters: int = MAX_CHARACTERS) -> None:
        self._scopes: LRUCache[bytes, FIFOCache[bytes, Read]] = LRUCache(scopes)
        self._characters = characters
        self._lock = threading.Lock()

    def has(self, scope: bytes, key: bytes) -> bool:
        """Return whether the scope contains the result with this key."""
        with self._lock:
            return key in self._scopes.get(scope, ())

    def keep(self, scope: bytes, key: bytes, path: str, values: Mapping[str, str]) -> None:
        """Store the values that were redacted in a result. `path` is the file of the result; empty if
        unknown."""
        with self._lock:
            reads = self._scopes.get(scope)
            if reads is None:
                reads = self._scopes[scope] = FIFOCache(self._characters, Read.size)
            read = Read(path, dict(values))
            if key not in reads and read.size() <= self._characters:
                reads[key] = read

    def values(self, scope: bytes, keys: Iterable[bytes]) -> Values:
        """Return the values of the results with these keys."""
        with self._lock:
            reads: Mapping[bytes, Read] = self._scopes.get(scope, {})
            return Values([reads[key] for key in keys if key in reads])

    def __repr__(self) -> str:
        return f"<Vault of {len(self._scopes)} scopes>"


def exact(values: Mapping[str, str], text: str) -> dict[str, str]:
    """Return the values that are probably the same in the text and in its file. A tool may have truncated,
    numbered, coloured or escaped the other values."""
    is_json = text.lstrip()[:1] in ("{", "[")
    return {
        mark: value
        for mark, value in values.items()
        if max(map(len, value.split("\n"))) <= _LONGEST_LINE
        and "\x1b" not in value
        and "[REDACTED:" not in value
        and not _NUMBERED.search(value)
        and not (is_json and "\\" in value)
    }


_HEAD = "[REDACTED:"
_BEGUN = re.compile(r"[a-z0-9][a-z0-9-]{0,39}(?::[a-z2-7]{0,6})?|")
_SECTION = re.compile(r"\*\*\* (?:Update|Add|Delete) File: (.+)")
_MOVE = "*** Move to: "
_FIRST, _LAST = "*** Begin Patch", "*** End Patch"
_SILENT = (_FIRST, _LAST, "*** End of File")
"""Lines of a patch that begin with `***` and contain no path."""
_ODD_BREAKS = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""This pattern matches a character that is a line break for some programs only."""


@dataclass(frozen=True, slots=True)
class Edited:
    """An `Edited` says where the calls of a tool name the file that they edit."""

    member: str = ""
    """The name of the only argument with a path; empty if the path is in a patch."""
    in_lines: bool = False
    """True if the new text is in a patch. Each line of a patch begins with `+`, `-` or a space."""


def edited(tool: str, declared: Mapping[str, str]) -> Edited | None:
    """Return where the calls of a tool name their file; None if the tool edits no file or the file is
    uncertain. `declared` maps a tool to its only argument that may contain a path, or to an empty string."""
    kind = edit_kind(tool)
    if not kind:
        return None
    member = declared[tool] if tool in declared else built_in_path(tool)
    if member:
        return Edited(member, in_lines=kind == "patch")
    return Edited(in_lines=True) if kind == "patch" else None


@dataclass(slots=True, repr=False)
class Restorer:
    """A `Restorer` replaces placeholders by values in the arguments of one call. With `freeform`, the
    arguments are a patch and not JSON."""

    values: Values
    folder: Folder
    how: Edited
    freeform: bool = False
    used: dict[str, str] = field(default_factory=dict)
    """The values that the call got, by placeholder."""
    note: Callable[[str, str, Mapping[str, str]], None] | None = None
    """A function to be called after a call that got values: with the arguments that the model wrote, the
    arguments with values, and the values."""
    _pieces: list[str] = field(default_factory=list)
    _passed: int = 0
    """The number of characters that `feed` has returned."""
    _tail: str = ""
    _waits: bool = False

    def feed(self, fragment: str) -> str:
        """Take a fragment, and return the text that the client can get now. The text may be empty."""
        self._pieces.append(fragment)
        if self._waits:
            return ""
        text = self._tail + fragment
        out = text[: self._certain(text)]
        self._tail = text[len(out) :]
        self._passed += len(out)
        return out

    def finish(self) -> str:
        """End the call, and return the text that `feed` has not returned, with values."""
        if not self._tail and not self._waits:
            return ""
        text = "".join(self._pieces)
        out: list[str] = []
        at = self._passed
        for match, path in self._marks(text):
            value = self.values.of(path).get(match[0]) if path else None
            # Each line of a patch begins with a sign, so a value with several lines would break the patch.
            if value is None or (self.how.in_lines and ("\n" in value or "\r" in value)):
                continue
            self.used[match[0]] = value
            spelt = value if self.freeform else json.dumps(value, ensure_ascii=False)[1:-1]
            out += (text[at : match.start()], spelt)
            at = match.end()
        rest = "".join((*out, text[at:]))
        if self.used and self.note is not None:
            self.note(text, text[: self._passed] + rest, self.used)
        self._pieces, self._passed, self._tail, self._waits = [], 0, "", False
        return rest

    def _certain(self, text: str) -> int:
        """Return the number of characters before the first placeholder that has a value or is incomplete."""
        at = 0
        while (bracket := text.find("[", at)) >= 0:
            mark = PATTERN.match(text, bracket)
            if mark is not None and mark[0] in self.values:
                self._waits = True
                return bracket
            if mark is None and may_become(text[bracket:]):
                return bracket
            at = mark.end() if mark else bracket + 1
        return len(text)

    def _marks(self, text: str) -> Iterator[tuple[re.Match[str], str]]:
        """Yield each placeholder with the file to which the call writes it. If one is uncertain, yield
        none."""
        marks = list(PATTERN.finditer(text))
        if self.freeform:
            places = patch_marks(text, self.folder, None)
        else:
            places = json_marks(text, self.folder, self.how)
        # The lists differ if a placeholder is in a key, or has escaped characters.
        if [mark for mark, _ in places] != [match[0] for match in marks]:
            return
        yield from ((match, path) for match, (_, path) in zip(marks, places, strict=True))


def restorer_of(
    tool: str, values: Values, folder: Folder, declared: Mapping[str, str], *, freeform: bool
) -> Restorer | None:
    """Return a restorer for the arguments of a call; None if they may get no values. With `freeform`, the
    arguments are plain text and not JSON."""
    how = edited(tool, declared) if values else None
    if how is None or (freeform and how.member):
        return None
    return Restorer(values, folder, how, freeform)


def may_become(text: str) -> bool:
    """Return whether a text that begins with `[` may be the beginning of a placeholder."""
    if len(text) <= len(_HEAD):
        return _HEAD.startswith(text)
    return text.startswith(_HEAD) and _BEGUN.fullmatch(text, len(_HEAD)) is not None


def json_marks(text: str, folder: Folder, how: Edited) -> list[tuple[str, str]]:
    """Return the placeholders in JSON arguments, each with the file to which the call writes it. The list is
    empty if the arguments are ambiguous."""
    arguments = _object(text)
    if arguments is None:
        return []
    named = [key for key in _keys(arguments) if names_file(key)]
    workdirs = [arguments[key] for key in arguments if key in folder_keys()]
    if len(workdirs) > 1 or not all(isinstance(each, str) for each in workdirs):
        return []
    workdir = workdirs[0] if workdirs else None
    texts = list(argument_strings(arguments))
    if how.member:
        path = arguments.get(how.member)
        if named != [how.member] or not isinstance(path, str):
            return []
        if how.in_lines and any(_is_header(line) for line in _lines(texts)):
            return []
        file = folder.file(path, workdir)
        return [(match[0], file) for each in texts for match in PATTERN.finditer(each)]
    patches = [each for each in texts if each.startswith(_FIRST)]
    if named or len(patches) != 1 or any(PATTERN.search(each) for each in texts if each not in patches):
        return []
    return patch_marks(patches[0], folder, workdir)


def patch_marks(patch: str, folder: Folder, workdir: str | None) -> list[tuple[str, str]]:
    """Return the placeholders in a patch, each with the file of its section; empty if a line is ambiguous."""
    lines = patch.split("\n")
    if lines[0] != _FIRST or _ODD_BREAKS.search(patch):
        return []
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        if section := _SECTION.fullmatch(line):
            sections.append((folder.file(section[1], workdir), []))
        elif line.startswith(_MOVE) and sections:
            sections[-1] = ("", sections[-1][1])
        elif line not in _SILENT and _is_header(line):
            return []
        marks = [match[0] for match in PATTERN.finditer(line)]
        if marks and (section or not sections):
            return []
        if marks:
            sections[-1][1].extend(marks)
    return [(mark, file) for file, marks in sections for mark in marks]


def _is_header(line: str) -> bool:
    """Return whether a line is the header of a patch. Some programs ignore white space in headers."""
    return line.strip().startswith("***")


def _lines(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from _ODD_BREAKS.sub("\n", text).split("\n")


class _Doubled(ValueError):
    """A `_Doubled` is raised for a JSON object with a repeated member."""


def _object(text: str) -> dict[str, Any] | None:
    """Return the arguments; None if they are no JSON object or have two members with the same name. Names
    that differ only in case count as the same name, because some programs ignore case."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name.casefold() for name, _ in pairs}) != len(pairs):
            raise _Doubled
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _keys(value: Any) -> Iterator[str]:
    """Yield the names of all members at every depth."""
    if isinstance(value, dict):
        yield from value
        for member in value.values():
            yield from _keys(member)
    elif isinstance(value, list):
        for member in value:
            yield from _keys(member)
