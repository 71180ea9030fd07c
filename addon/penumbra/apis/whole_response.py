"""An answer that arrives as one JSON document: what those of all APIs have in common."""

from __future__ import annotations


class WholeResponse:
    """Keeps the document of the current turn until it is complete. See Answer."""

    keep_alive = b""

    def __init__(self, injected_tool: str) -> None:
        self._injected_tool = injected_tool
        self._body = bytearray()
        self._hidden_usage: dict[str, int] = {}
        """Figures of the turns that were continued."""
        self._continued = False

    @property
    def holding(self) -> bool:
        return bool(self._body)

    def feed(self, data: bytes) -> bytes:
        self._body += data
        return b""

    def go_on(self) -> bytes:
        self._body.clear()
        self._continued = True
        return b""

    def restart(self) -> None:
        self._body.clear()
