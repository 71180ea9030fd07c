"""This module finds and reads the rule files. The rules are YAML files below `rules/`. An installed wheel has
this folder in the package, and a clone has it at the top. Rules of the user's own folder (see `user_rules`)
come first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

from penumbra.rule_schemas import RuleError, has_schema, schema_of
from penumbra.rule_schemas.schema import Strict, convert

# Limits for a user's YAML file. A deeply nested file could crash the parser and the process.
MOST_BYTES = 4_000_000
DEEPEST = 100
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooMuch(yaml.YAMLError):
    """A `TooMuch` is raised for a YAML file above `MOST_BYTES`, or nested deeper than `DEEPEST`."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def read(path: Path) -> str:
    """Return the text of a file. Raises OSError, UnicodeDecodeError, and YAMLError if the file exceeds the
    bounds or is not YAML."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TooMuch(f"more than {MOST_BYTES:,} bytes")
    text = data.decode().replace("\r\n", "\n")
    depth = 0
    try:
        # The event parser does not recurse, so deep nesting can't crash it.
        for event in yaml.parse(text, Loader=LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise TooMuch(f"nested deeper than {DEEPEST}")
    except yaml.MarkedYAMLError as error:
        # PyYAML since 6.0.4 reads ahead and may reach its own depth limit first.
        if "nesting depth" in str(error):
            raise TooMuch(f"nested deeper than {DEEPEST}") from None
        raise
    return text


_PACKAGE = Path(__file__).resolve().parent
_Struct = TypeVar("_Struct", bound=Strict)
_Value = TypeVar("_Value")
_Function = TypeVar("_Function")


class RuleFile(NamedTuple):
    name: str
    """The path relative to the rules folder."""
    content: Any
    is_users: bool = False


_users: Mapping[str, Any] = {}
"""Content of the user's folder, by the name of the file."""
_version = 0
"""A number that changes whenever the user's rules change."""
_clear: list[Callable[[], None]] = []
"""Functions that empty the caches of values derived from rules."""


@cache
def directory() -> Path:
    """Return the folder of the rule files. Raises FileNotFoundError if the installation is broken."""
    for candidate in (_PACKAGE / "rules", _PACKAGE.parents[1] / "rules"):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"no rules folder beside {_PACKAGE}")


def load(name: str) -> Any:
    """Return the content of one rule file with the user's additions. `name` is relative to the rules folder
    (`"providers.yaml"`). Raises RuleError if the content does not fit its schema."""
    content = _ours(name)
    if has_schema(name):
        convert(schema_of(name), content, name)
    return _joined(_users[name], content) if name in _users else content


@cache
def table(name: str) -> Mapping[str, Any]:
    """Return the content of a file that users can't extend. The file is read once."""
    loaded: dict[str, Any] = load(name)
    return loaded


def load_as(name: str, kind: type[_Struct]) -> _Struct:
    """Return the content of a file with the user's additions, as an object of the type `kind`."""
    content = _ours(name)
    return convert(kind, _joined(_users[name], content) if name in _users else content, name)


@lru_cache(maxsize=2)
def _ours(name: str) -> Any:
    """Return the content of Penumbra's own file, from a cache, since several modules read it."""
    return parse(directory() / name, name)


def load_folder(name: str, without: re.Pattern[str] | None = None) -> Iterator[RuleFile]:
    """Yield every YAML file of a subfolder: first the user's, then Penumbra's, in the order of names.
    `without` is a pattern for parts of Penumbra's files that need not be read."""
    for key, content in _users.items():
        if key.startswith(f"{name}/"):
            yield RuleFile(key, content, is_users=True)
    for path in sorted((directory() / name).glob("*.yaml")):
        key = f"{name}/{path.name}"
        yield RuleFile(key, parse(path, key, without) if without else parse(path, key))


def parse(path: Path, name: str, without: re.Pattern[str] | None = None) -> Any:
    """Return the content of a YAML file. Errors refer to the file by `name`. Raises RuleError."""
    try:
        text = path.read_text(encoding="utf-8") if path.is_relative_to(directory()) else read(path)
        return yaml.load(without.sub("", text) if without else text, Loader=LOADER)
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{name}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise RuleError(f"{name}: no YAML{line}: {getattr(error, 'problem', '') or 'unreadable'}") from None


def add(users: Mapping[str, Any]) -> None:
    """Replace the content of the user's folder by `users`, which was checked."""
    global _users, _version
    if not users and not _users:
        return
    _users = users
    _version += 1
    for clear in _clear:
        clear()


def until_changed(function: _Function) -> _Function:
    """Return a function with `cache_clear`, whose cache is emptied when the user's rules change."""
    _clear.append(function.cache_clear)  # type: ignore[attr-defined]
    return function


def cached(function: Callable[[], _Value]) -> Callable[[], _Value]:
    """Cache a value that is derived from rules, until the user's rules change."""

    @until_changed
    @cache
    @wraps(function)
    def current() -> _Value:
        version = _version
        made = function()
        # If another thread has changed the rules meanwhile, the value is derived again.
        return made if version == _version else current()

    return current


def _joined(first: Any, second: Any) -> Any:
    """Merge two contents. Lists are joined; for other values, the first content wins."""
    if isinstance(first, dict) and isinstance(second, dict):
        both = {key: _joined(value, second[key]) if key in second else value for key, value in first.items()}
        return both | {key: value for key, value in second.items() if key not in first}
    if isinstance(first, list) and isinstance(second, list):
        return [*first, *second]
    return first
