"""The rules of secrets, compiled while the proxy starts; who needs them earlier waits for what is missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from penumbra import errors
from penumbra.compress import pipeline
from penumbra.compress.result import Policy, Redacted, ToolOutput
from penumbra.conversation.engine_settings import EngineSettings
from penumbra.conversation.workers import Workers
from penumbra.redaction import ruleset
from penumbra.redaction.caller_values import CallerValues
from penumbra.redaction.redact_calls import Redact, ShowName, bounded, forgiving, shown_names
from penumbra.redaction.redactor import Redactor, Scan

_SOURCE = "".join(f"{number}\tdef name_{number}(self) -> None:\n" for number in range(1, 60))
_TESTS = "".join(f"tests/test_a.py::test_{number} PASSED [ {number}%]\n" for number in range(1, 60))
_OUTPUTS = (
    ToolOutput(_SOURCE, "Read", {"file_path": "/srv/a.py"}),
    ToolOutput(_TESTS + "error: it failed\n", "Bash", {"command": "pytest -v"}),
    ToolOutput("[" + ",".join(['{"a": 1, "b": "x"}'] * 80) + "]", "Bash", {"command": "curl localhost"}),
)
"""Samples of the kinds of output that most results are."""
_LONGEST_WAIT = 30.0
"""Seconds."""
_log = logging.getLogger(__name__)


class CompiledRules:
    """State: the redactor of one engine, and what it has taken out for each caller."""

    def __init__(self, key: bytes, settings: EngineSettings, workers: Workers) -> None:
        """`key` makes the names of placeholders."""
        self._redactor: Future[Redactor] = workers.submit(partial(_compiled, key, settings))
        self._redactor.add_done_callback(_report_broken_rules)
        self._show: ShowName | None = None
        self.values = CallerValues()
        workers.submit(partial(warm_up, self._redactor))

    async def redactor(self) -> Redactor:
        """Takes out secrets. Raises RedactionError if the rules can't be used."""
        if self._redactor.done():
            # Else the event loop would go round once more, for every request.
            return self._redactor.result()
        return await asyncio.wrap_future(self._redactor)

    async def redact(self, failure: str, caller: bytes = b"", *, replaces: bool = True) -> Redact:
        """Return what redacts the texts of one request. `failure`: what becomes of those that can't be
        searched. `caller` owns the remembered values, which are taken out everywhere if it `replaces` them;
        empty without an owner."""
        scan = (await self.redactor()).scan
        return forgiving(bounded(self.values.redacting(caller, scan, replaces=replaces)), failure)

    async def show(self) -> ShowName:
        """The function that shows names from outside without secrets."""
        if self._show is None:
            self._show = shown_names((await self.redactor()).redact)
        return self._show

    async def scan(self) -> Callable[[str, str], Scan]:
        """Says where secrets stand."""
        return (await self.redactor()).scan

    def redact_now(self, text: str, hint: str = "") -> Redacted:
        """A text to be shown, for who can't wait on the event loop: at the start it stands still until the
        rules are compiled. Raises RedactionError."""
        return self._redactor.result(_LONGEST_WAIT).redact(text, hint)


def _compiled(key: bytes, settings: EngineSettings) -> Redactor:
    rules = ruleset.rules(settings.user_rules, only=settings.gitleaks_only)
    allowed = ruleset.allowed(settings.secrets_allow, rules)
    return Redactor(key, rules, limit=settings.redaction_max_bytes, allowed=allowed)


def _report_broken_rules(redactor: Future[Redactor]) -> None:
    """A rule that can't be used ends the start: no request could be sent."""
    if (error := redactor.exception()) is not None:
        _log.error("rules/secrets: %s", error)


def warm_up(redactor: Future[Redactor]) -> None:
    """Shorten a few results without a caller."""
    try:
        redact = redactor.result().redact
        for output in _OUTPUTS:
            pipeline.shorten(output, Policy(lossy=True, min_bytes=0), redact, lambda original: "")
    except Exception as error:
        # The first use reports a failure.
        _log.debug("Penumbra is not warm: %s", errors.place(error))
