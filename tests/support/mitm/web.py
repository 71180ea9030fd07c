"""A mitmweb with the addon."""

import contextlib
import json
import random
import re
import socket
import sys
import urllib.request
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from support.mitm import Mitmdump

IS_11 = metadata.version("mitmproxy").startswith("11.")
PASSWORD = "a-password-of-the-tests"


def free_port() -> int:
    """Return a port outside of the range from which the system gives ports, so that no other process takes it
    meanwhile."""
    while True:
        port = random.randrange(20_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@dataclass
class Mitmweb(Mitmdump):
    """A `Mitmweb` is a mitmweb that was started from the command line, without a browser."""

    web_port: int = 0

    def command_line(self) -> list[str]:
        self.web_port = self.web_port or free_port()
        _, *arguments = super().command_line()
        options = {"web_open_browser": "false", "web_port": str(self.web_port)}
        options |= {} if IS_11 else {"web_password": PASSWORD}
        more = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
        drop = arguments.index("flow_detail=0")
        return [
            str(Path(sys.executable).with_name("mitmweb")),
            *arguments[: drop - 1],
            *arguments[drop + 1 :],
            *more,
        ]

    def _ready(self, earlier: int) -> re.Match[str] | None:
        if "Penumbra is active" not in self.log()[earlier:]:
            return None
        return re.compile(r"proxy listening at [^\n]*?:(\d{2,5})\b").search(self.log(), earlier)

    def address(self, path: str = "/") -> str:
        """Return an address of mitmweb's page."""
        token = "" if IS_11 else f"?token={PASSWORD}"
        return f"http://127.0.0.1:{self.web_port}{path}{token}"

    def text(self, flow: str, part: str, view: str = "auto") -> tuple[str, str]:
        """Return the name of the view and the text that mitmweb's page shows for a flow's `request` or
        `response`."""
        path = f"/flows/{flow}/{part}/content/{quote(view)}.json"
        with urllib.request.urlopen(self.address(path), timeout=30) as response:
            found: dict[str, Any] = json.load(response)
        if "text" in found:
            return found["view_name"], found["text"]
        lines = ("".join(text for _, text in line) for line in found["lines"])
        return found["description"], "\n".join(lines)
