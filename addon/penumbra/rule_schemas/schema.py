"""Conversion of rule files to their types. An error names the key that is wrong. A schema is a subclass of
`Strict`, whose docstrings describe the keys. `Regex` marks texts that must be patterns for RE2. This package
reads no files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache
from threading import RLock
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import re2

from penumbra.linear import QUIET

_REGEX = "re2"
Regex = Annotated[str, _REGEX]
"""A pattern for RE2, which has no look-around and no back-references."""
Regexes = str | tuple[str, ...]
"""One pattern or several."""
AnyRegex = Annotated[Regexes, _REGEX]
"""A pattern, or several patterns. One of several patterns must match."""
Size = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_LONGEST = 60
"""The greatest number of characters of a value in an error."""
T = TypeVar("T")
_ONE_AT_A_TIME = RLock()
"""msgspec analyses a type at the first conversion to this type. The process crashes if two threads do that at
once."""


class RuleError(ValueError):
    """An error in a rule file. The message is one line with file, rule, key, value and the allowed values."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping in a rule file. Unknown keys are errors."""


class Choice:
    """A mapping whose type depends on which of several keys the mapping has."""

    kinds: ClassVar[Mapping[str, type[Strict]]] = {}

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        """The converted mapping."""

    @classmethod
    def kind_of(cls, value: Any) -> type[Strict]:
        """Return the type of `value`. Raises ValueError."""
        if not isinstance(value, dict):
            raise ValueError(f"got {shown(value)}, allowed: a mapping")
        named = [name for name in cls.kinds if name in value]
        if len(named) != 1:
            got = " and ".join(named) or ", ".join(map(str, value)) or "nothing"
            raise ValueError(f"got {got}, allowed: exactly one of {', '.join(cls.kinds)}")
        return cls.kinds[named[0]]


def _converted(value: Any, kind: type[T]) -> T:
    with _ONE_AT_A_TIME:
        return msgspec.convert(value, kind, dec_hook=_choose)


def convert(kind: type[T], value: Any, where: str) -> T:
    """Return `value` as its type. `where` (file and rule) is the beginning of the RuleError's message."""
    try:
        return _converted(value, kind)
    except (msgspec.ValidationError, ValueError) as error:
        problem = next(problems(kind, value), str(error))
    raise RuleError(f"{where}: {problem}")


def entries(kind: type[T], content: Any, key: str, named_by: str, file: str) -> tuple[list[T], list[str]]:
    """Return the valid entries in the list `key` of a file, converted to `kind`, and a line about each wrong
    entry. `named_by` is the key of an entry's name."""
    if not isinstance(content, dict) or not isinstance(content.get(key, []), list):
        return [], [f"{file}: {key}: got {shown(content)}, allowed: a mapping with a list {key}"]
    good: list[T] = []
    wrong: list[str] = []
    for entry in content.get(key, ()):
        name = entry.get(named_by, "?") if isinstance(entry, dict) else "?"
        try:
            good.append(_converted(entry, kind))
        except (msgspec.ValidationError, ValueError):
            wrong += [f"{file}: {name}: {problem}" for problem in problems(kind, entry)]
    return good, wrong


def _choose(kind: type, value: Any) -> Any:
    if not issubclass(kind, Choice):
        raise NotImplementedError
    return kind(_converted(value, kind.kind_of(value)))


def problems(kind: Any, value: Any, path: str = "") -> Iterator[str]:
    """Yield every problem of a value: `steps[1].mim: unknown key, did you mean min?`."""
    try:
        _converted(value, kind)
        return
    except (msgspec.ValidationError, ValueError) as error:
        message = str(error).partition(" - at ")[0]
    try:
        kind = _settled(kind, value)
    except ValueError as error:
        yield f"{path}: {error}".removeprefix(": ")
        return
    wrong = [problem for part in _parts(kind, value, path) for problem in problems(*part)]
    if _is_struct(kind) and isinstance(value, dict):
        wrong += _of_keys(kind, value, path)
    if get_origin(kind) is dict and get_origin(get_args(kind)[0]) is Literal and isinstance(value, dict):
        keys = get_args(get_args(kind)[0])
        wrong += [_unknown(key, keys, path) for key in value if key not in keys]
    if wrong:
        yield from wrong
    elif _is_struct(kind) and isinstance(value, dict):
        yield f"{path}: {message}".removeprefix(": ")
    else:
        yield f"{path}: got {shown(value)}, allowed: {allowed(kind)}".removeprefix(": ")


def patterns(kind: Any, value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, pattern) of every pattern in a valid value."""
    kind = _settled(kind, value)
    if get_origin(kind) is Annotated and _REGEX in get_args(kind)[1:]:
        for number, pattern in enumerate([value] if isinstance(value, str) else value):
            yield (path if isinstance(value, str) else f"{path}[{number}]"), pattern
        return
    for part in _parts(kind, value, path):
        yield from patterns(*part)


def broken_patterns(kind: Any, value: Any) -> Iterator[str]:
    """Yield one line for each pattern that RE2 does not accept."""
    for path, pattern in patterns(kind, value):
        try:
            re2.compile(pattern, QUIET)
        except re2.error as error:
            yield f"{path}: got {shown(pattern)}, allowed: a pattern of RE2 ({reason(error)})"


def reason(error: re2.error) -> str:
    text = error.args[0] if error.args else "invalid pattern"
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return text.replace("\n", " ")


def shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = {"True": "true", "False": "false", "None": "nothing"}.get(repr(value), repr(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _parts(kind: Any, value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    kind = _settled(kind, value)
    if get_origin(kind) is Annotated:
        kind = _settled(get_args(kind)[0], value)
    origin = get_origin(kind)
    if origin in (list, tuple) and isinstance(value, list):
        items = get_args(kind)
        for number, item in enumerate(value):
            yield items[min(number, len(items) - 1) if items[-1] is not ... else 0], item, f"{path}[{number}]"
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield get_args(kind)[1], item, f"{path}.{key}".lstrip(".")
    elif _is_struct(kind) and isinstance(value, dict):
        for field in _fields(kind):
            if field.encode_name in value:
                yield field.type, value[field.encode_name], f"{path}.{field.encode_name}".lstrip(".")


def _settled(kind: Any, value: Any) -> Any:
    """Return the type in a union that fits a value. Raises ValueError."""
    if isinstance(kind, type) and issubclass(kind, Choice):
        return kind.kind_of(value)
    if get_origin(kind) in (Union, UnionType) and value is not None:
        fitting = [part for part in get_args(kind) if isinstance(value, _python_type(part))]
        return _settled(fitting[0], value) if len(fitting) == 1 else kind
    return kind


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _python_type(kind: Any) -> type:
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    origin = get_origin(kind) or kind
    if _is_struct(origin):
        return dict
    return list if origin is tuple else origin if isinstance(origin, type) else object


def _of_keys(kind: type[msgspec.Struct], value: Mapping[Any, Any], path: str) -> Iterator[str]:
    """Yield a problem for each unknown or missing key."""
    fields = {field.encode_name: field for field in _fields(kind)}
    for key in value:
        if key not in fields:
            yield _unknown(key, fields, path)
    for name, field in fields.items():
        if field.required and name not in value:
            yield f"{path}.{name}: missing, allowed: {allowed(field.type)}".lstrip(".")


def _unknown(key: Any, keys: Iterable[str], path: str) -> str:
    near = difflib.get_close_matches(str(key), list(keys), 1)
    hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(keys)}"
    return f"{path}.{key}: unknown key, {hint}".lstrip(".")


def allowed(kind: Any) -> str:
    """Return a description of a type, in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [limit for limit in arguments[1:] if isinstance(limit, msgspec.Meta)]
        least = next((limit.ge for limit in limits if limit.ge is not None), None)
        most = next((limit.le for limit in limits if limit.le is not None), None)
        word = "a pattern of RE2" if _REGEX in arguments else allowed(arguments[0])
        word += " or a list of them" if _REGEX in arguments and arguments[0] is not str else ""
        word += "" if least is None else f" from {least}"
        characters = next((limit.min_length for limit in limits if limit.min_length is not None), None)
        word += "" if characters is None else f" of {characters} characters at least"
        return word + ("" if most is None else f" to {most}")
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return " or ".join(allowed(part) for part in arguments if part is not NoneType)
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return f"a list of {'patterns of RE2' if arguments[0] == Regex else _several(arguments[0])}"
    if origin in (list, tuple):
        return "a list"
    return _WORDS.get(kind, "a mapping")


def _several(kind: Any) -> str:
    return {str: "texts", int: "whole numbers", list: "lists"}.get(_python_type(kind), "mappings")


_WORDS = {date: "a date", str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
