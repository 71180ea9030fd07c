"""Services that shorten results, as the YAML file describes them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Provider:
    """An entry of `providers`: whom to ask for a summary."""

    auth: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class Api:
    """`pipes.tool_output.api`: a service that shortens results."""

    endpoint: str = ""
    api_key: str = field(default="", repr=False)
    model: str = ""
    timeout: float = 30.0
    """Seconds."""
    query_agnostic: bool = False
    """The service is not told what the user wants to know."""
