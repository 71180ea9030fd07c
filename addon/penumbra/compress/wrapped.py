"""Results that are JSON around outputs: each output is shortened by itself, and the JSON stays JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from penumbra.compress.calls.json_envelope import Output, outputs
from penumbra.compress.calls.tools import category
from penumbra.compress.result import Policy, Shortened, ToolOutput
from penumbra.compress.size import size

_ESCAPES = 2
"""The divisor of a result's limit for its outputs, since escapes take bytes, too."""

_ASKED = {"bash": "command", "other": "query"}
"""The argument that says what a call asks for, by category. For all other categories it is a path."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A JSON text whose outputs have been shortened, and the forms of these outputs."""

    text: str
    parts: tuple[Shortened, ...]


def shorten(
    text: str,
    output: ToolOutput,
    policy: Policy,
    each: Callable[[ToolOutput, Policy], Shortened],
    quoted: bool = False,
) -> Wrapped | None:
    """Return the text with its outputs shortened by `each`; None if it is no such JSON, or nothing is saved.

    `quoted`: an agent may edit the text that the result shows. JSON is such a file then, unless it names the
    call of each output.
    """
    asked = [inner for inner in outputs(text) if inner.asked or not quoted]
    if not asked:
        return None
    limit = policy.max_output_bytes // (_ESCAPES * len(asked))
    inside = replace(policy, max_output_bytes=limit)
    parts = [each(_output(inner, output), inside) for inner in asked]
    if not any(part.stages for part in parts):
        return None
    written: list[str] = []
    done = 0
    for inner, part in zip(asked, parts, strict=True):
        written.append(text[done : inner.start])
        written.append(
            _literal(part.text, text[inner.start : inner.end])
            if part.stages
            else text[inner.start : inner.end]
        )
        done = inner.end
    whole = "".join([*written, text[done:]])
    return Wrapped(whole, tuple(parts)) if size(whole) <= policy.max_output_bytes else None


def _output(part: Output, output: ToolOutput) -> ToolOutput:
    """Return the output as the result of its call."""
    arguments = output.arguments
    if part.asked:
        kind = category(output.tool)
        # The arguments of a tool with an unknown name may mean anything.
        arguments = {_ASKED.get(kind, "path"): part.asked}
    return replace(output, text=part.text, arguments=arguments, call=None)


def _literal(text: str, before: str) -> str:
    """Return the text as a JSON string; characters beyond ASCII are escaped if they were in `before`."""
    return json.dumps(text, ensure_ascii=before.isascii())
