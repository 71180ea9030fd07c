"""This module runs the examples in the files of command rules. An example is an output with its expected
form."""

from __future__ import annotations

from collections.abc import Iterator

from penumbra import rules
from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.tools import category
from penumbra.compress.families.shorten import apply
from penumbra.compress.result import Loss
from penumbra.rule_schemas.command_rules import CommandExample, CommandFile
from penumbra.rule_schemas.schema import convert

_TOOLS = ("grep", "glob", "list")
"""Tools of these categories have families without a command line."""


def examples() -> Iterator[CommandExample]:
    """Yield all examples in the loaded rule files."""
    for file in rules.load_folder("commands"):
        yield from convert(CommandFile, file.content, file.name).examples


def call_of(line: str) -> Call:
    """Return the call of an example. The example names a command line or a search tool."""
    return classify(line, {}) if category(line) in _TOOLS else classify("Bash", {"command": line})


def problems(example: CommandExample) -> Iterator[str]:
    """Yield a message about each key of the example that differs from the result."""
    call = call_of(example.call)
    if call.family != example.family:
        yield f"family: got {call.family or 'none'}, the example says {example.family}"
        return
    result = apply(example.text, call, lossy=example.lossy)
    if result is None or example.gives is None:
        if result is not None:
            yield "gives: the text was shortened, the example says that it is left alone"
        elif example.gives is not None:
            yield "gives: the text was left alone"
        return
    if result.text != example.gives:
        yield f"gives: {_difference(result.text, example.gives)}"
    if result.loss is not Loss[example.loss.upper()]:
        yield f"loss: got {result.loss.name.lower()}, the example says {example.loss}"
    by = example.shortened_by or example.family
    if result.family != by:
        yield f"as: got {result.family}, the example says {by}"


def _difference(text: str, wanted: str) -> str:
    lines, others = text.split("\n"), wanted.split("\n")
    pairs = zip([*lines, None], [*others, None], strict=False)
    at, (line, other) = next((at, pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    wanted_line = "the text's end" if other is None else repr(other[:100])
    return f"line {at}: got {'the end' if line is None else repr(line[:100])}, the example says {wanted_line}"
