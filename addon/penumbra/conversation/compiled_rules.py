"""This module compiles the rules for secrets in a thread at the start. Requests wait for the rules."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from functools import partial

from penumbra import errors
from penumbra.apis import recognise, session
from penumbra.apis.identity import Credentials
from penumbra.compress import pipeline
from penumbra.compress.result import Policy, Redacted, ToolOutput
from penumbra.config.settings import Settings
from penumbra.conversation import cache_price, read
from penumbra.conversation.incoming import EngineSettings
from penumbra.conversation.workers import Workers
from penumbra.redaction import ruleset
from penumbra.redaction.caller_values import CallerValues
from penumbra.redaction.redact_calls import Redact, ShowName, bounded, forgiving, shown_names
from penumbra.redaction.redactor import Redactor
from penumbra.wire.document import Document

_SOURCE = "".join(f"{number}\tdef name_{number}(self) -> None:\n" for number in range(1, 60))
_TESTS = "".join(f"tests/test_a.py::test_{number} PASSED [ {number}%]\n" for number in range(1, 60))
_OUTPUTS = (
    ToolOutput(_SOURCE, "Read", {"file_path": "/srv/a.py"}),
    ToolOutput(_TESTS + "error: it failed\n", "Bash", {"command": "pytest -v"}),
    ToolOutput("[" + ",".join(['{"a": 1, "b": "x"}'] * 80) + "]", "Bash", {"command": "curl localhost"}),
)
"""Samples of the most frequent kinds of output."""
_REQUEST = b"""{"model":"claude-x","system":"Be brief.","messages":[
{"role":"user","content":"<bash-input>ls</bash-input><bash-stdout>a b</bash-stdout>"},
{"role":"assistant","content":[{"type":"tool_use","id":"t_1","name":"Bash","input":{"command":"ls"}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"t_1","content":[{"type":"x","data":"a b"}]}]}
]}"""
"""A sample of a request."""
_LONGEST_WAIT = 30.0
"""The longest time in seconds that `redact_now` waits for the rules."""
_log = logging.getLogger(__name__)


class CompiledRules:
    """A `CompiledRules` is an engine's redactor and the values that were redacted for each caller."""

    def __init__(self, key: bytes, settings: EngineSettings, workers: Workers) -> None:
        """Begin to compile. `key` is the installation's key for the hashes in placeholders."""
        self._redactor: Future[Redactor] = workers.submit(partial(_compiled, key, settings))
        self._redactor.add_done_callback(_report_broken_rules)
        self._show: ShowName | None = None
        self.values = CallerValues()
        workers.submit(partial(warm_up, self._redactor))

    async def redactor(self) -> Redactor:
        """Return the redactor. Raises RuleError if a rule can't be used."""
        if self._redactor.done():
            # Awaiting a future that is done would still delay each request by one round of the event loop.
            return self._redactor.result()
        return await asyncio.wrap_future(self._redactor)

    async def redact(self, failure: str, caller: bytes = b"", *, replaces: bool = True) -> Redact:
        """Return the function that redacts the texts of one request. `failure` is the policy for texts that
        can't be searched. `caller` is a credential or empty. If `replaces` is true, the caller's earlier
        secrets are also redacted."""
        scan = (await self.redactor()).scan
        return forgiving(bounded(self.values.redacting(caller, scan, replaces=replaces)), failure)

    async def show(self) -> ShowName:
        """Return the function that removes secrets from names before they are shown."""
        if self._show is None:
            self._show = shown_names((await self.redactor()).redact)
        return self._show

    def redact_now(self, text: str, hint: str = "") -> Redacted:
        """Return a text without its secrets, after the rules are compiled. Raises RedactionError,
        RuleError, and TimeoutError if the rules take too long."""
        return self._redactor.result(_LONGEST_WAIT).redact(text, hint)


def _compiled(key: bytes, settings: EngineSettings) -> Redactor:
    rules = ruleset.rules(settings.user_rules, only=settings.gitleaks_only)
    allowed = ruleset.allowed(settings.secrets_allow, rules)
    return Redactor(key, rules, limit=settings.redaction_max_bytes, allowed=allowed)


def _report_broken_rules(redactor: Future[Redactor]) -> None:
    """Log a rule that can't be used. Requests that must be searched are then refused."""
    if (error := redactor.exception()) is not None:
        _log.error("rules/secrets: %s", error)


def warm_up(redactor: Future[Redactor]) -> None:
    """Read and shorten a few samples, so that nearly all rules are compiled before the first request."""
    # If this fails, the first request reports the failure.
    with errors.contained(_log, "Penumbra is not warm", logging.DEBUG):
        redact = redactor.result().redact
        for output in _OUTPUTS:
            pipeline.shorten(output, Policy(lossy=True, min_bytes=0), redact, lambda original: "")
        api = recognise.by_request_line("POST", "/v1/messages")
        caller = Credentials.of("api.anthropic.com", "", {"authorization": "Bearer x"}, {}).caller(b"")
        if api is None:
            return
        request = read.read(Document(_REQUEST), api, Settings(), caller, knows_caller=True)
        if request is not None:
            session.identify({}, request.document, request.conversation.opening)
            cache_price.of_request(api.format, request.conversation.model, request.document)
