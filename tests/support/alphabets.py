"""The characters of patterns and modules, of which hard texts are made."""

import ast
import inspect
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from penumbra.linear import Linear

Tree = Any
LONGEST = 12
"""Characters; longer constants are left out."""


def _of_class(items: list[tuple[Any, Any]]) -> list[str]:
    """Return some characters inside a class and some outside of it."""
    named = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " "}
    listed = []
    for code, given in items:
        if code is codes.LITERAL:
            listed.append(chr(given))
        elif code is codes.RANGE:
            listed.append(chr(given[0]))
        elif code is codes.CATEGORY:
            listed.append(named.get(str(given), "a"))
    if items[0][0] is not codes.NEGATE:
        return listed[:4]
    return [character for character in 'a \n"\\1.-' if character not in listed][:2] + listed[:2]


def pieces(tree: Tree) -> Iterator[str]:
    """Yield the literals of a pattern, and a character for each part that is none."""
    run = ""
    for code, given in tree:
        if code is codes.LITERAL:
            run += chr(given)
            continue
        if run:
            yield run
        run = ""
        if code is codes.NOT_LITERAL:
            yield from (chr(given), "b" if given == ord("a") else "a")
        elif code is codes.ANY:
            yield "a"
        elif code is codes.IN:
            yield from _of_class(given)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from pieces(given[2])
        elif code is codes.SUBPATTERN:
            yield from pieces(given[3])
        elif code is codes.BRANCH:
            for branch in given[1][:12]:
                yield from pieces(branch)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from pieces(given[1])
        elif code is codes.ATOMIC_GROUP:
            yield from pieces(given)
    if run:
        yield run


def of_pattern(source: str | bytes, flags: int = 0) -> list[str]:
    """Return the pieces of a pattern, each once; none if the pattern is written for another engine than
    `re`."""
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    try:
        return list(dict.fromkeys(pieces(parser.parse(text, flags & ~re.UNICODE))))
    except re.error:
        return []


def of_module(module: ModuleType) -> list[str]:
    """Return the pieces of a module's patterns and its short constants, each once: signs first, then
    words."""
    found: list[str] = []
    for value in vars(module).values():
        if isinstance(value, re.Pattern | Linear):
            found += of_pattern(value.pattern, getattr(value, "flags", 0))
    tree = ast.parse(inspect.getsource(module))
    shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in shown and isinstance(node.value, str | bytes):
            value = node.value
            found.append(value.decode("latin-1") if isinstance(value, bytes) else value)
    short = dict.fromkeys(each for each in found if 0 < len(each) <= LONGEST)
    return sorted(short, key=lambda each: (each.isidentifier(), list(short).index(each)))
