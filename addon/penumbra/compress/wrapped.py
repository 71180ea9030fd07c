"""Shortening of JSON whose strings are the outputs of commands. Each output is shortened by itself, and the
JSON stays valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from penumbra.compress.calls.json_envelope import Output, outputs
from penumbra.compress.calls.tools import category
from penumbra.compress.result import Policy, Shortened, ToolOutput
from penumbra.compress.size import size

_ESCAPES = 2
"""The limit of a result is divided by this number for the sum of its outputs, since JSON escapes add
bytes."""

_ASKED = {"bash": "command", "other": "query"}
"""The argument with the command or query of a call, by the tool's category. Other categories have `path`."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A `Wrapped` is a JSON text with shortened outputs, and the forms of these outputs."""

    text: str
    parts: tuple[Shortened, ...]


def shorten(
    text: str,
    output: ToolOutput,
    policy: Policy,
    each: Callable[[ToolOutput, Policy], Shortened],
    quoted: bool = False,
) -> Wrapped | None:
    """Return the text with its outputs shortened by `each`; None if the text is no such JSON or nothing is
    saved.

    With `quoted`, an agent may edit the text that the result shows. Only outputs whose call the JSON names
    are shortened then, since other JSON may be the file itself.
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
    """Return an output in the JSON as a separate tool result, with the arguments of its call."""
    arguments = output.arguments
    if part.asked:
        kind = category(output.tool)
        # The arguments of an unknown tool may mean anything.
        arguments = {_ASKED.get(kind, "path"): part.asked}
    return replace(output, text=part.text, arguments=arguments, call=None)


def _literal(text: str, before: str) -> str:
    """Return the text as a JSON string. Characters beyond ASCII are escaped if `before`, the replaced string,
    has none."""
    return json.dumps(text, ensure_ascii=before.isascii())
