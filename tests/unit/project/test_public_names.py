"""Tests use the public names of what they test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PRIVATE = re.compile(r"_[A-Za-z](?:(?!__)\w)*")


def private_names(code: str) -> Iterator[str]:
    """Yield the private names that code reads, imports or replaces, but for those that it defines itself."""
    nodes = list(ast.walk(ast.parse(code)))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    own |= {
        node.target.id
        for node in nodes
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    own |= {
        node.attr
        for node in attributes
        if isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    names = [node.attr for node in attributes]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penumbra"):
            names += [alias.name for alias in node.names]
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            (".setattr", ".delattr", "getattr")
        ):
            names += [
                one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
    yield from (name for name in names if PRIVATE.fullmatch(name) and name not in own)


def test_no_private_name_is_used() -> None:
    used = {str(path): list(private_names(path.read_text(encoding="utf-8"))) for path in TESTS.rglob("*.py")}
    assert {path: names for path, names in used.items() if names} == {}


@pytest.mark.parametrize(
    "code",
    [
        "store._rows",
        "from penumbra.rules import _ours",
        'patch.setattr(store, "_rows", 1)',
        "store._f()",
        "store._x = 1",
    ],
)
def test_private_names_are_found(code: str) -> None:
    assert len(list(private_names(code))) == 1
