"""A result that is JSON around outputs: each output is shortened by itself, and the JSON stays JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from penumbra.compress.calls.json_envelope import Output, outputs
from penumbra.compress.calls.tools import category
from penumbra.compress.result import Policy, Shortened, ToolOutput
from penumbra.compress.size import size

_ESCAPES = 2
"""Divisor of a result's limit for each of its outputs, whose escapes take space."""


_ASKED = {"bash": "command", "other": "query"}
"""Argument that says what a call asks for, by category; a path for all other categories."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A JSON text, and what became of the outputs in it."""

    text: str
    parts: tuple[Shortened, ...]


def shorten(
    text: str,
    output: ToolOutput,
    policy: Policy,
    each: Callable[[ToolOutput, Policy], Shortened],
    quoted: bool = False,
) -> Wrapped | None:
    """The text with its outputs shortened by `each`; None if it is no such JSON, or nothing came of it.

    `quoted`: the result is what an agent reads in order to edit it. JSON may be the file itself then, unless
    it says what it answers.
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
    """The output as the result of the call that it answers."""
    arguments = output.arguments
    if part.asked:
        kind = category(output.tool)
        # The arguments of a tool with an unknown name may mean anything.
        arguments = {_ASKED.get(kind, "path"): part.asked}
    return replace(output, text=part.text, arguments=arguments, call=None)


def _literal(text: str, before: str) -> str:
    """The text as a JSON string; characters beyond ASCII are escaped if they were."""
    return json.dumps(text, ensure_ascii=before.isascii())
