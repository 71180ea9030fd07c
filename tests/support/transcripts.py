"""Requests in which agents send earlier results as plain text, from transcripts.yaml."""

import json
from dataclasses import dataclass, replace
from typing import Any

from support.apis import BY_ID, Api
from support.filled import filled, load
from support.planted import GITHUB

MESSAGES = BY_ID["anthropic-messages"]
URL_PASSWORD = "Xk9vTq2L" + "m7wPz4R"
LINES = {
    "token": f"GITHUB_TOKEN={GITHUB}",
    "url": f"DATABASE_URL=postgres://app:{URL_PASSWORD}@db.internal:5432/app",
}
"""A tool's output, by kind of secret."""
SECRETS = {"token": GITHUB, "url": URL_PASSWORD}


@dataclass(frozen=True)
class Shape:
    """A `Shape` is one way to write results into a request."""

    name: str
    api: Api
    members: dict[str, Any]
    """Members of the request, with holes for the output of a tool."""
    tools: bool = False
    """True if the request declares tools."""

    def body(self, output: str, **more: Any) -> bytes:
        holes = {"$OUTPUT": output, "$JSON": json.dumps(output)[1:-1]}
        made = {**self.api.rest, **filled(self.members, holes), **more}
        if not self.tools:
            made.pop("tools", None)
        return json.dumps(made).encode()


def _shape(name: str, api: str, tools: bool = False, **members: Any) -> Shape:
    return Shape(name, BY_ID[api], members, tools)


SHAPES = tuple(_shape(name, **shape) for name, shape in load(__file__).items())
WITH_TOOLS = tuple(replace(shape, tools=True) for shape in SHAPES if not shape.name.startswith("CrewAI"))
"""The shapes in requests that declare tools. Words of the model are left out, since they are not searched
there."""
