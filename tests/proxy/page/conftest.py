"""A proxy with a page."""

import contextlib
import json
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from support.agents.model import Model
from support.mitm import Mitmdump, eventually
from support.mitm.web import free_port
from support.upstream.script import ToolCall, turn

HOSTILE = "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
TOOL = {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
LOG = "\n".join(
    [
        *(f"2026-01-01 00:00:{n % 60:02d} INFO worker idle, nothing to do" for n in range(300)),
        HOSTILE,
        f"token={SECRET}",
    ]
)
REQUEST = "POST", "https://api.anthropic.com/v1/messages"


class Page:
    """A `Page` is a proxy with its page, and an agent that works through it."""

    def __init__(self, proxy: Mitmdump, client: Any, upstream: Any, key: str) -> None:
        self.proxy, self._client, self._upstream = proxy, client, upstream
        self.headers = {
            "x-api-key": key,
            "anthropic-version": "2023-06-01",
            "user-agent": "claude-cli/2.1 (x)",
        }
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": f"Which job is slow, of {key}?"}]

    @property
    def running(self) -> dict[str, Any]:
        """The proxy's description of itself for `penumbra page`."""
        return dict(eventually(self._written))

    def _written(self) -> dict[str, Any]:
        for file in self.proxy.home.rglob("running/*.json"):
            # The file is replaced when the proxy reloads.
            with contextlib.suppress(FileNotFoundError):
                return dict(json.loads(file.read_text()))
        return {}

    @property
    def link(self) -> str:
        return str(self.running["page"])

    def get(self, path: str, through: str = "", **headers: str) -> tuple[int, bytes, Any]:
        """Return status, body and headers of a path; the request carries the link's token."""
        link = urlsplit(self.link)
        url = f"{link.scheme}://{link.netloc}{path}"
        headers = {"Authorization": f"Bearer {link.query.removeprefix('token=')}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"http": through} if through else {})
        )
        try:
            with opener.open(urllib.request.Request(url, headers=headers), timeout=30) as response:
                return response.status, response.read(), response.headers
        except HTTPError as error:
            return error.code, error.read(), error.headers

    def json(self, path: str, **more: str) -> Any:
        status, body, _ = self.get(path, **more)
        assert status == 200, body
        return json.loads(body)

    def tool_prints(self, *first: Any, text: str = LOG, model: str = "claude-sonnet-4-5") -> None:
        """Let the model call a tool, and send the tool's output; `first` are the model's turns before its
        answer."""
        call = turn(ToolCall("Bash", {"command": "cat worker.log"}))
        self._upstream.script(Model(call, *first, turn("I see.")))
        content = self._send(model)["content"]
        call = next(block["id"] for block in content if block["type"] == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call, "content": text}
        self._messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
        self._messages.append({"role": "assistant", "content": self._send(model)["content"]})
        self._messages.append({"role": "user", "content": "Go on."})

    def asks(self) -> int:
        """Send a first request; return the status of the answer."""
        body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "tools": [TOOL], "messages": self._messages}
        return int(self._client.request(*REQUEST, json=body, headers=self.headers).status_code)

    def says(self, tools: int, cached: int) -> None:
        """Send a first request that declares so many tools, and marks its newest text for the cache, in which
        the provider finds `cached` of 2,000 tokens."""
        usage = {"cache_read_input_tokens": cached, "cache_creation_input_tokens": 2_000 - cached}
        self._upstream.answers(turn("I see.", usage={"input_tokens": 0, **usage}))
        text = [{"type": "text", "text": "Go on. " * 900, "cache_control": {"type": "ephemeral"}}]
        messages = [*self._messages, {"role": "user", "content": text}]
        declared = [{**TOOL, "name": f"Bash{number}"} for number in range(tools)]
        body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "tools": declared, "messages": messages}
        response = self._client.request(*REQUEST, json=body, headers=self.headers)
        assert response.status_code == 200, response.text

    def _send(self, model: str) -> Any:
        body = {"model": model, "max_tokens": 9, "tools": [TOOL], "messages": self._messages}
        response = self._client.request(*REQUEST, json=body, headers=self.headers)
        assert response.status_code == 200, response.text
        return response.json()


@pytest.fixture
def page(own_proxy: Any, clients: Any, upstream: Any, api_key: str) -> Callable[..., Page]:
    """`page(**options)` returns a running `Page`."""

    def start(**options: str) -> Page:
        proxy = own_proxy("regular", **{"penumbra_page": str(free_port()), **options})
        return Page(proxy, clients.http(proxy), upstream, api_key)

    return start
