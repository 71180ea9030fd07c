"""A model of Anthropic, OpenAI, Google or whoever speaks one of their contracts, asked for a short text.

The key is the operator's, or, where the operator allows it, the credential of the very client whose
result it is; that one goes to no host but the one that the client itself sent it to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from penumbra import rules
from penumbra.compress import token_estimate
from penumbra.config.settings import Provider
from penumbra.external.contracts import CONTRACTS, Contract, Prompt
from penumbra.external.http import Http
from penumbra.external.strategy import Failure, Response, Task

_LEAST, _MOST = 256, 8192
"""Tokens of a response."""


@cache
def table() -> Mapping[str, Any]:
    """The content of rules/strategies.yaml."""
    loaded: dict[str, Any] = rules.load("strategies.yaml")
    return loaded


@dataclass(frozen=True, slots=True)
class ExternalProvider:
    """One entry of `providers`; `timeout` is in seconds."""

    entry: str
    provider: Provider
    timeout: float
    http: Http
    name: str = "external_provider"
    protects: bool = True

    @property
    def model(self) -> str:
        return self.provider.model or str(self._rules().get("model", ""))

    @property
    def identity(self) -> str:
        return f"{self._contract()} {self._endpoint()} {self.model}"

    @property
    def captures(self) -> bool:
        """It is asked with the clients' own credentials."""
        return self.provider.auth == "oauth"

    def fits(self, task: Task) -> bool:
        if not self.captures:
            return True
        return task.credential is not None and task.credential.host.lower() == self.host

    @property
    def host(self) -> str:
        """Where it is asked: name and port."""
        parts = urlsplit(self._endpoint())
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    async def shorten(self, task: Task) -> Response:
        name = self._contract()
        contract = CONTRACTS[name]
        prompt = self._prompt(task, int(table()["reserve"][name]))
        call = contract.call(self._endpoint(), self._authorisation(contract, task), prompt)
        response = await self.http.post(call, self.timeout, 6 * len(task.text) + 262_144)
        try:
            read = contract.read(response)
        except (LookupError, TypeError, AttributeError):
            raise Failure("malformed", "not the provider's response") from None
        if not isinstance(read.text, str):
            raise Failure("malformed", "no text")
        return read

    def _rules(self) -> Mapping[str, Any]:
        rules: Mapping[str, Any] = table()["providers"].get(self.entry, {})
        return rules

    def _contract(self) -> str:
        return str(self._rules().get("contract", table()["other"]))

    def _endpoint(self) -> str:
        return self.provider.endpoint or str(self._rules().get("endpoint", ""))

    def _authorisation(self, contract: Contract, task: Task) -> Mapping[str, str]:
        if not self.captures:
            return contract.key(self.provider.api_key) if self.provider.api_key else {}
        if not self.fits(task) or task.credential is None:
            raise Failure("no credential")
        return task.credential.headers

    def _prompt(self, task: Task, reserve: int) -> Prompt:
        share = task.ratio if task.ratio is not None else 0.5
        wanted = min(max(int(token_estimate.estimate(task.text) * share), _LEAST), _MOST)
        instruction = str(table()["instruction"]).strip().replace("{tokens}", str(wanted))
        # The estimate and the provider's count differ.
        return Prompt(self.model, instruction, frame(task), wanted * 3 // 2 + reserve)


def frame(task: Task) -> str:
    """The text between tags that nothing in it can close, and what it is about in front of them."""
    digest = hashlib.blake2b(task.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    about = [
        f"{title}: {value}"
        for title, value in (("Question", task.question), ("Tool", task.tool), ("Call", task.intent))
        if value
    ]
    return "\n".join([*about, f"<output-{digest}>", task.text, f"</output-{digest}>"])
