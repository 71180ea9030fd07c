"""Where the page is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLACE = re.compile(r"(?:(?P<host>[\w.-]+|\[[0-9a-f:.]+\]):)?(?P<port>[0-9]{1,5})", re.ASCII | re.IGNORECASE)
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Port 0: through the proxy only."""

    is_on: bool = True
    host: str = LOOPBACK
    port: int = 0

    def __str__(self) -> str:
        if not self.port:
            return "proxy" if self.is_on else "off"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return str(self.port) if self.host == LOOPBACK else f"{host}:{self.port}"


def parse(text: str) -> PagePlace | None:
    """`off`, `proxy`, a port, or a host and a port; None: none of these."""
    if text in ("off", "false"):
        return PagePlace(is_on=False)
    if text in ("proxy", "on", "true"):
        return PagePlace()
    match = _PLACE.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65_536:
        return None
    return PagePlace(host=(match["host"] or LOOPBACK).strip("[]"), port=int(match["port"]))
