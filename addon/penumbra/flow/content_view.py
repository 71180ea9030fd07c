"""The view "Penumbra" of requests and responses in mitmweb, mitmproxy and mitmdump.

mitmproxy 12 asks its views for a text, mitmproxy 11 for lines of marked texts: each has a class of its own,
without the base that the other version does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mitmproxy import contentviews

from penumbra.explain.text_lines import Line, Mark
from penumbra.flow.explainer import NOT_OURS, Explainer

if TYPE_CHECKING:
    from mitmproxy.contentviews import Metadata

NAME = "Penumbra"
_EMPTY = " "
"""mitmweb gives a line with nothing in it no height."""
_STYLES = {
    Mark.HEAD: "header",
    Mark.TEXT: "text",
    Mark.NOTE: "offset",
    Mark.REMOVED: "error",
    Mark.ADDED: "Token_Name_Tag",
}
"""By names that mitmproxy 11 has colours for."""


class TextView:
    """For mitmproxy 12. State: who makes its texts."""

    name = NAME
    syntax_highlight = "none"

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer

    def render_priority(self, data: bytes, metadata: Metadata) -> float:
        """Above all others for calls of LLMs, below all for everything else."""
        return self.explainer.priority(metadata.flow, _message(vars(metadata))) if data else NOT_OURS

    def prettify(self, data: bytes, metadata: Metadata) -> str:
        """The text. Never raises."""
        lines = self.explainer.lines(metadata.flow, _message(vars(metadata)), data)
        return "\n".join(line.text or _EMPTY for line in lines)

    def __lt__(self, other: Any) -> bool:
        return bool(self.name < other.name)


class LinesView:
    """For mitmproxy 11. State: who makes its texts."""

    name = NAME

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer

    def render_priority(self, data: bytes, **metadata: Any) -> float:
        """Above all others for calls of LLMs, below all for everything else."""
        return self.explainer.priority(metadata.get("flow"), _message(metadata)) if data else NOT_OURS

    def __call__(self, data: bytes, **metadata: Any) -> tuple[str, Iterator[list[tuple[str, str]]]]:
        """What it is, and its lines. Never raises."""
        return NAME, _styled(self.explainer.lines(metadata.get("flow"), _message(metadata), data))

    def __lt__(self, other: Any) -> bool:
        return bool(self.name < other.name)


def _message(metadata: dict[str, Any]) -> Any:
    return metadata.get("websocket_message") or metadata.get("http_message")


def _styled(lines: list[Line]) -> Iterator[list[tuple[str, str]]]:
    for line in lines:
        yield [(_STYLES[line.mark], line.text or _EMPTY)]


# Of the process, as mitmproxy's list of views: a reload of the script makes a new addon.
_VIEWS: list[TextView | LinesView] = []


def install(explainer: Explainer) -> None:
    """Have the view, with the texts of this one."""
    if _VIEWS:
        _VIEWS[0].explainer = explainer
        return
    is_new = hasattr(contentviews, "Contentview")
    _VIEWS.append(TextView(explainer) if is_new else LinesView(explainer))
    add: Any = contentviews.add
    add(_VIEWS[0])
