"""Restoration of values in the arguments of a file edit.

The arguments of a call arrive in fragments of any size, and are passed on at once up to the first placeholder
with a known value. The rest waits for the end of the call, since only then it is certain which file the call
edits: a second path, a doubled key or a second section may follow. Any uncertain placeholder stays.

The values are in memory only, bounded, and apart for each conversation.
"""

from __future__ import annotations

import json
import posixpath
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from cachetools import FIFOCache, LRUCache

from penumbra import rules
from penumbra.apis.parts import argument_strings
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.redaction.placeholder import PATTERN
from penumbra.short_texts import remembered

# A value is put back only into the file that it was read from. Paths are compared as text, since the files
# are on the client's disk, so only a path in its simplest spelling names a file at all. A relative path
# starts from the folder that the call names, or that the conversation says it works in. Without either it
# equals only the same relative path; after a change of folder it equals no path.
Kind = Literal["path", "patch", ""]
"""How a call names the file that it edits: by a member or in a patch; empty if the call is no edit."""
_OF_FILES = ("read", "edit", "write")
_WORD = re.compile(r"[\w.-]+")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_SETTLED = ("read", "edit", "write", "glob", "list", "grep", "web", "plan")
"""Categories of tools whose calls leave the folder as it is."""
_QUOTES = str.maketrans("", "", "\"'\\")
_DOT = re.compile(r"(?:^|[;&|(\n])[ \t]*\.[ \t]")
"""Matches the shell's command that runs the lines of a file as its own."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@cache
def _table() -> Mapping[str, Any]:
    loaded: dict[str, Any] = rules.load("files.yaml")
    return loaded


@cache
def _words(key: str) -> frozenset[str]:
    return frozenset(_table()[key])


@rules.cached
def _path_keys() -> frozenset[str]:
    return frozenset(key.casefold() for key in tools.tool_rules().arguments.path)


@rules.until_changed
@remembered(4_096)
def names_file(member: str) -> bool:
    """Return whether a member of a call's arguments may name a file, by its name."""
    if member in folder_keys():
        return False
    words = _WORDS.findall(member)
    last = words[-1].casefold() if words else ""
    return member.casefold() in _path_keys() or last in _words("path_words")


def folder_keys() -> tuple[str, ...]:
    """Return the members of a call's arguments that name the folder in which it runs."""
    return tuple(_table()["folders"])


def built_in_path(tool: str) -> str:
    """Return the member that names the file in calls of a tool that the provider declares, or nothing."""
    return str(_table()["built_in"].get(tool, ""))


def settled(tool: str) -> bool:
    """Return whether no call of this tool can change a folder."""
    return tools.category(tool) in _SETTLED and tool not in _table()["moving_tools"]


def moves(tool: str, texts: Iterable[str]) -> bool:
    """Return whether a call may change the folder of later relative paths. `texts`: the strings of its
    arguments."""
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
    """Return how a tool names the file that it edits. Tools of MCP servers, which may run anywhere, are no
    edits."""
    if tools.is_mcp(tool):
        return ""
    if tool in _table()["patches"]:
        return "patch"
    return "path" if tools.category(tool) in ("edit", "write") else ""


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of relative paths."""

    root: str = ""
    """Absolute path; empty if it is unknown."""
    moved: bool = False
    """True if a call may have changed the folder."""

    def file(self, path: str, workdir: str | None = None) -> str:
        """Return the one file that a path names, in its only spelling; empty in doubt.

        `workdir`: the folder in which the call itself says that it runs.
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
    """Return the path, with slashes, if it means one file to every reader, else nothing.

    A path that normalising changes may cross a link. A path that begins with a special character of the
    shell, or has parts that some systems cut off, may name another file.
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
    """Return the file whose text a call's result shows; empty in doubt."""
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
    """Return the absolute folder that a conversation works in; empty if none is stated, or more than one.

    `opening`: the text of the first user turn; `data`: the whole request, which must not name another.
    """
    pattern = _table()["stated"]
    if (stated := re.search(pattern, opening)) is None:
        return ""
    if len(set(re.findall(pattern.encode(), data))) != 1:
        return ""
    path = _plain(stated[1])
    return path if _is_absolute(path) else ""


MAX_SCOPES = 256
MAX_CHARACTERS = 1_000_000
"""Size of the results of one scope."""
_OF_EACH = 500
"""Size of a result without values. A scope has room for 2,000 of them."""
_LONGEST_LINE = 1_000
"""Characters of the longest line whose values count: agents cut longer lines, and a cut value is another
value."""
_NUMBERED = re.compile(r"\n[ \t]*[0-9]+[ \t]*[\t:|\u2192]")


@dataclass(frozen=True, slots=True)
class Read:
    """One result: the file that it shows, and the values that were taken out of it."""

    path: str
    values: Mapping[str, str] = field(repr=False)
    """Placeholder -> value. Secret."""

    def size(self) -> int:
        """Return the characters of the values, and `_OF_EACH` for the key and the path."""
        return _OF_EACH + sum(map(len, self.values.values()))


class Values:
    """The values that may go back into one response, by file."""

    def __init__(self, reads: Iterable[Read] = ()) -> None:
        """Take the values of `reads`, without those that share a placeholder with another value."""
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
        """Return whether some file has a value for a placeholder."""
        return mark in self._known

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, path: str) -> Mapping[str, str]:
        """Return placeholder -> value, of the values that were read from a file."""
        return self._by_path.get(path, {})

    def every(self) -> dict[str, str]:
        """Return placeholder -> value, of all files."""
        return {mark: value for values in self._by_path.values() for mark, value in values.items()}

    def __repr__(self) -> str:
        return f"<Values of {len(self._by_path)} files>"


class Vault:
    """Values that were read in each conversation. Safe between threads.

    The oldest scopes, and the oldest results of a scope, are forgotten first. Nothing of them is ever
    written anywhere; `repr` tells sizes only.
    """

    def __init__(self, *, scopes: int = MAX_SCOPES, characters: int = MAX_CHARACTERS) -> None:
        self._scopes: LRUCache[bytes, FIFOCache[bytes, Read]] = LRUCache(scopes)
        self._characters = characters
        self._lock = threading.Lock()

    def has(self, scope: bytes, key: bytes) -> bool:
        """Return whether a result is kept."""
        with self._lock:
            return key in self._scopes.get(scope, ())

    def keep(self, scope: bytes, key: bytes, path: str, values: Mapping[str, str]) -> None:
        """Keep the values that a scan took out of a result. `path` is the file that the result shows, or
        empty."""
        with self._lock:
            reads = self._scopes.get(scope)
            if reads is None:
                reads = self._scopes[scope] = FIFOCache(self._characters, Read.size)
            read = Read(path, dict(values))
            if key not in reads and read.size() <= self._characters:
                reads[key] = read

    def values(self, scope: bytes, keys: Iterable[bytes]) -> Values:
        """Return the values of results, by their keys."""
        with self._lock:
            reads: Mapping[bytes, Read] = self._scopes.get(scope, {})
            return Values([reads[key] for key in keys if key in reads])

    def __repr__(self) -> str:
        return f"<Vault of {len(self._scopes)} scopes>"


def exact(values: Mapping[str, str], text: str) -> dict[str, str]:
    """Return the values of a scanned text that are certainly spelt as in the file that the text shows.

    A tool may have cut, numbered or coloured the others, or escaped them for a JSON document of its own.
    """
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
"""Lines with stars that name no file."""
_ODD_BREAKS = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Matches a character that only some readers of a patch take for the end of a line."""


@dataclass(frozen=True, slots=True)
class Edited:
    """How the calls of a tool name the file that they edit."""

    member: str = ""
    """The only member of the arguments that names a file; empty if a patch in the arguments does."""
    in_lines: bool = False
    """True if the text stands after the signs that begin a patch's lines."""


def edited(tool: str, declared: Mapping[str, str]) -> Edited | None:
    """Return how calls of a tool name their file; None if the tool is no edit, or the file is uncertain.

    `declared`: by name of tool, the only property of its schema that names a file, or nothing.
    """
    kind = edit_kind(tool)
    if not kind:
        return None
    member = declared[tool] if tool in declared else built_in_path(tool)
    if member:
        return Edited(member, in_lines=kind == "patch")
    return Edited(in_lines=True) if kind == "patch" else None


@dataclass(slots=True, repr=False)
class Restorer:
    """A `Restorer` puts values back into the arguments of one call. `freeform`: they are a patch, else
    JSON."""

    values: Values
    folder: Folder
    how: Edited
    freeform: bool = False
    used: dict[str, str] = field(default_factory=dict)
    """Placeholder -> value, of the values that went back."""
    note: Callable[[str, str, Mapping[str, str]], None] | None = None
    """Called at the end of a call that got values: with its arguments as written and as sent, and the
    values."""
    _pieces: list[str] = field(default_factory=list)
    _passed: int = 0
    """Number of characters that were passed on."""
    _tail: str = ""
    _waits: bool = False

    def feed(self, fragment: str) -> str:
        """Return the characters that can be passed on after a fragment; may be empty."""
        self._pieces.append(fragment)
        if self._waits:
            return ""
        text = self._tail + fragment
        out = text[: self._certain(text)]
        self._tail = text[len(out) :]
        self._passed += len(out)
        return out

    def finish(self) -> str:
        """Return the rest of the arguments, at the end of the call."""
        if not self._tail and not self._waits:
            return ""
        text = "".join(self._pieces)
        out: list[str] = []
        at = self._passed
        for match, path in self._marks(text):
            value = self.values.of(path).get(match[0]) if path else None
            # A patch is made of lines that begin with a sign: a value of several lines can't stand there.
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
        """Return the number of characters before the first placeholder that may get its value, or its
        beginning."""
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
        """Yield the placeholders, each with the file that it would be written to; none if one is in doubt."""
        marks = list(PATTERN.finditer(text))
        if self.freeform:
            places = patch_marks(text, self.folder, None)
        else:
            places = json_marks(text, self.folder, self.how)
        # Placeholders in keys, or spelt with escapes, are in one of the two lists only.
        if [mark for mark, _ in places] != [match[0] for match in marks]:
            return
        yield from ((match, path) for match, (_, path) in zip(marks, places, strict=True))


def restorer_of(
    tool: str, values: Values, folder: Folder, declared: Mapping[str, str], *, freeform: bool
) -> Restorer | None:
    """Return a restorer for a call's arguments; None if nothing may go back into them. `freeform`: they are
    text, else JSON."""
    how = edited(tool, declared) if values else None
    if how is None or (freeform and how.member):
        return None
    return Restorer(values, folder, how, freeform)


def may_become(text: str) -> bool:
    """Return whether a text that begins with a bracket may be the beginning of a placeholder."""
    if len(text) <= len(_HEAD):
        return _HEAD.startswith(text)
    return text.startswith(_HEAD) and _BEGUN.fullmatch(text, len(_HEAD)) is not None


def json_marks(text: str, folder: Folder, how: Edited) -> list[tuple[str, str]]:
    """Return the placeholders in JSON arguments, in order, each with the file that it is written to; none if
    the arguments can be read in two ways."""
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
    """Return the placeholders of a patch, whose sections name their files; none if a line can be read in two
    ways."""
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
    """Return whether a reader that ignores white space may take a line for one with a file's name."""
    return line.strip().startswith("***")


def _lines(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from _ODD_BREAKS.sub("\n", text).split("\n")


class _Doubled(ValueError):
    """An object has two members of one name."""


def _object(text: str) -> dict[str, Any] | None:
    """Return the arguments; None if they are no object, or if two readers may see different members.

    Names that differ only in case count as one name, as they do for some readers.
    """

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
    """Yield the names of all members at any depth."""
    if isinstance(value, dict):
        yield from value
        for member in value.values():
            yield from _keys(member)
    elif isinstance(value, list):
        for member in value:
            yield from _keys(member)
