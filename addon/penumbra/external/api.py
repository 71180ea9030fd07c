"""A compression service: Compresr's, or any that speaks the same contract.

    POST {endpoint}          X-API-Key: {api_key}
    {"tool_output": text, "tool_name": name, "compression_model_name": model,
     "query": question and intent, "target_compression_ratio": share to take away}

    200 {"success": true, "data": {"compressed_output": text,
         "original_tokens": n, "compressed_tokens": n}}

`query` is left out where the service is query-agnostic, and the ratio where none is wanted. The
service's ratio is a strength from 0 to 1, so it gets what is to go, not what is to stay. A response
with `success` false, or with an error's status, is a failure. Relative endpoints are Compresr's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from penumbra.config.settings import Api as ApiSettings
from penumbra.external.http import Call, Http
from penumbra.external.strategy import Failure, Response, Task

HOME = "https://api.compresr.ai"
PATH = "/api/compress/tool-output/"
MODEL = "toc_latte_v1"
_ANSWERS = ("compressed_output", "compressed_context")


@dataclass(frozen=True, slots=True)
class Api:
    """The service that the settings name."""

    settings: ApiSettings
    http: Http
    name: str = "api"
    protects: bool = True

    @property
    def model(self) -> str:
        return self.settings.model or MODEL

    @property
    def identity(self) -> str:
        return f"{address(self.settings.endpoint)} {self.model} {self.settings.query_agnostic}"

    def fits(self, task: Task) -> bool:
        return True

    async def shorten(self, task: Task) -> Response:
        headers = {"x-api-key": self.settings.api_key} if self.settings.api_key else {}
        call = Call(address(self.settings.endpoint), headers, self._body(task))
        limit = 6 * len(task.text) + 65_536
        return read(await self.http.post(call, self.settings.timeout, limit))

    def _body(self, task: Task) -> dict[str, Any]:
        body: dict[str, Any] = {
            "tool_output": task.text,
            "tool_name": task.tool or "unknown",
            "compression_model_name": self.model,
        }
        if not self.settings.query_agnostic:
            body["query"] = "\n".join(filter(None, (task.question, task.intent))) or "What does it say?"
        if task.ratio is not None:
            body["target_compression_ratio"] = round(1 - task.ratio, 6)
        return body


def address(endpoint: str) -> str:
    """Where the calls go: a base URL without a path gets the contract's own."""
    url = urljoin(HOME, endpoint)
    return urljoin(url, PATH) if urlsplit(url).path in ("", "/") else url


def read(response: Any) -> Response:
    """What a decoded response says. Raises Failure."""
    if not isinstance(response, dict):
        raise Failure("malformed", "no object")
    if response.get("success") is False:
        raise Failure("refused")
    data = response.get("data", response)
    text = next((data[key] for key in _ANSWERS if key in data), None) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise Failure("malformed", "no text")
    return Response(text, count(data.get("original_tokens")), count(data.get("compressed_tokens")))


def count(value: Any) -> int:
    """A number of tokens as a response tells it; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
