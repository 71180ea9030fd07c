"""The tables of docs/rules.md, from the schemas. `python tests/support/rule_tables.py` puts them into the page."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import msgspec

from penumbra.rule_schemas import command_rules, providers, secret_rules, tool_rules
from penumbra.rule_schemas.schema import Strict, allowed

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
SHOWN: tuple[tuple[type[Strict], str], ...] = (
    (command_rules.CommandFile, "A file"),
    (command_rules.FamilyRule, "A family"),
    (command_rules.ShapeRule, "`shape`"),
    (command_rules.StepRule, "Any step"),
    *((kind, f"`{name}`") for name, kind in command_rules.AnyStep.kinds.items()),
    (command_rules.Within, "`within`"),
    (command_rules.CommandExample, "An example"),
    (secret_rules.SecretFile, "A file"),
    (secret_rules.SecretRule, "A rule"),
    (secret_rules.SecretExamples, "`examples`"),
    (tool_rules.Tools, "`tools.yaml`"),
    (tool_rules.VerbRule, "`verbs`"),
    (tool_rules.ToolArguments, "`arguments`"),
    (providers.Providers, "`providers.yaml`"),
    (providers.ApiRule, "`apis`"),
)
_SHORT = {
    "a pattern of RE2 or a list of them": "patterns",
    "a list of patterns of RE2": "patterns",
    "a pattern of RE2": "pattern",
    "a list of ": "",
    "a whole number from ": "number from ",
    "a number from ": "number from ",
    "a mapping": "mapping",
    "a text": "text",
    "true or false": "boolean",
    " or ": "/",
}
"""The types of values as the page's tables name them."""
_PLACE = re.compile(r"<!-- (\w+\.\w+) -->\n(?:\n.*?\n)?<!-- end -->", re.DOTALL)


def _words(kind: type[Strict]) -> dict[str, str]:
    """Return the description of each field in the schema's source, by attribute."""
    node = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(node, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(str(words.value.value)).replace("\n", " ").replace("|", "\\|")
        for field, words in zip(node.body, node.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(words, ast.Expr)
        and isinstance(words.value, ast.Constant)
    }


def _value(field: Any) -> str:
    """Return the type of a field, then `required` or its default."""
    kind = allowed(field.type)
    for words, short in _SHORT.items():
        kind = kind.replace(words, short)
    if field.required:
        return f"{kind}; required"
    value = field.default if field.default is not msgspec.NODEFAULT else None
    return kind if value in (None, "", (), False) else f"{kind}; `{str(value).lower()}`"


def table(kind: type[Strict]) -> str:
    """Return one schema as a table, without the fields that have no description: others can't use them."""
    words = _words(kind)
    rows = [
        f"| `{field.encode_name}` | {_value(field)} | {words[field.name]} |"
        for field in msgspec.structs.fields(kind)
        if field.name in words
    ]
    title = next(title for shown, title in SHOWN if shown is kind)
    about = inspect.getdoc(kind) or ""
    head = f"**{title}.** {about}" if not about.startswith(title) else about
    return "\n".join((head, "", "| key | value | meaning |", "|---|---|---|", *rows))


def names() -> dict[str, type[Strict]]:
    """Return the schemas by module and class, as the page names them."""
    return {f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}": kind for kind, _ in SHOWN}


def filled(page: str) -> str:
    """Return the page with its tables as the schemas have them."""
    schemas = names()
    return _PLACE.sub(
        lambda place: f"<!-- {place[1]} -->\n\n{table(schemas[place[1]])}\n\n<!-- end -->", page
    )


def places(page: str) -> list[str]:
    """Return the schemas that the page shows."""
    return [place[1] for place in _PLACE.finditer(page)]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
