"""A tool result through the whole pipeline."""

from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Policy, Redacted, Shortened, ToolOutput

SHADOW = "shadow_" + "0" * 18
PREFIX = f"<<<SHADOW:{SHADOW}>>>\n"
"""The first line of a result whose original the model can expand."""


def shortened(text: str, tool: str = "Bash", arguments: object = None, **policy: object) -> Shortened:
    """Return the shortened form of a result, by default of an unknown command with losses allowed."""
    settings = Policy(**{"lossy": True, **policy})
    call = {"command": "./run"} if arguments is None else arguments
    return shorten(ToolOutput(text, tool, call, "call_1"), settings, Redacted, lambda _: SHADOW)
