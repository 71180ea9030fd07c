"""Schemas of the rule files that users can't add to, from own_tables.yaml."""

from datetime import date
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from msgspec import Meta, defstruct, field

from penumbra import rule_schemas
from penumbra.rule_schemas.providers import Providers
from penumbra.rule_schemas.schema import AnyRegex, Count, Regex, Share, Size, Strict

_WORDS: dict[str, Any] = {
    "text": str,
    "flag": bool,
    "whole": int,
    "number": float,
    "positive": Annotated[float, Meta(ge=0)],
    "date": date,
    "anything": Any,
    "count": Count,
    "size": Size,
    "share": Share,
    "pattern": Regex,
    "patterns": AnyRegex,
    "text or whole": str | int,
}


def _type(value: Any) -> Any:
    """Return the type that a value of own_tables.yaml stands for."""
    if isinstance(value, list):
        return tuple[_type(value[0]), ...]
    if isinstance(value, str):
        if value in _WORDS:
            return _WORDS[value]
        if value.endswith(" or null"):
            return _type(value.removesuffix(" or null")) | None
        return Literal[*value.split(" | ")]  # type: ignore[valid-type]
    if "tuple" in value:
        return tuple[*map(_type, value["tuple"])]  # type: ignore[misc]
    return dict[str, _type(value["*"])] if "*" in value else _struct("table", value)  # type: ignore[misc]


def _struct(name: str, keys: dict[str, Any], base: type[Strict] = Strict) -> type[Strict]:
    fields: list[Any] = []
    for names, value in keys.items():
        for key in names.split(", "):
            alone = key.strip("()")
            default: Any = {"default": None} if key != alone else {}
            fields.append((alone + "_" * iskeyword(alone), _type(value), field(name=alone, **default)))
    return defstruct(name, fields, bases=(base,), frozen=True, kw_only=True)


_TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SCHEMAS: dict[str, type[Strict]] = {
    name: _type(keys)
    if "*" in keys
    else _struct(name, keys, Providers if name == "providers.yaml" else Strict)
    for name, keys in _TABLES.items()
}


def schema_of(name: str) -> type[Strict]:
    """Return the type of any file below `rules/`."""
    return SCHEMAS.get(name) or rule_schemas.schema_of(name)
