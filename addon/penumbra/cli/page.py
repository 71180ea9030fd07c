"""`penumbra page` prints the link to the web page of each proxy that runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penumbra.cli.command import Failure, Parser, settings
from penumbra.errors import one_line
from penumbra.metrics import running

USAGE = """\
usage: penumbra page [--help]

Prints the link of the page with the figures, for each proxy that runs here. A link to penumbra.local is
for a browser that goes through the proxy. With --set penumbra_page=8765 at the start, every browser of this
machine can open the link. The link opens the page for everybody, and is the same after a restart.
"""


def main(arguments: Sequence[str]) -> int:
    """Print the links and return 0. Raises Failure."""
    Parser("page").read(arguments)
    settings()
    entries = [entry for entry in running.running(running.folder()) if entry.get("page")]
    reached = [entry for entry in entries if entry.get("proxy") or not _is_through_proxy(entry)]
    for entry in reached:
        print(_line(entry))
    if not entries:
        raise Failure(
            "no proxy with a page is running here; penumbra proxy --set penumbra_page=8765 starts one"
        )
    if not reached:
        raise Failure(
            "no browser can go through the proxy that runs here, by its mode: start it with "
            "--set penumbra_page=8765 for a page of its own"
        )
    return 0


def _is_through_proxy(entry: Mapping[str, Any]) -> bool:
    return str(entry["page"]).startswith("http://penumbra.local/")


def _line(entry: Mapping[str, Any]) -> str:
    through = f"  (through the proxy at {one_line(str(entry['proxy']))})" if _is_through_proxy(entry) else ""
    return one_line(str(entry["page"])) + through
