"""What becomes of one tool result.

    redaction -> terminal -> binary -> structure (JSON, tables, repetitions, blanks) -> cap -> redaction

Structure comes before the cap, so that the cap cuts what is left. Each stage is judged alone: it
must not cost bytes, must save estimated tokens, and, if it leaves something out, must keep every
critical line. A stage that raises is passed over; a redaction that raises ends the whole.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from penumbra.calls.classify import Call, classify
from penumbra.text import (
    binary,
    cap,
    critical,
    folding,
    json_minify,
    line_numbers,
    tables,
    terminal,
    tokens,
    whitespace,
)
from penumbra.text.result import Loss, Mode, Policy, Redact, Shortened, ToolOutput
from penumbra.text.size import size
from penumbra.text.stage import Shape, Source, Stage

_RANK = {mode: rank for rank, mode in enumerate(Mode)}
_QUOTED = frozenset({"read", "edit", "write"})
_OURS = re.compile(r"<<<SHADOW:shadow_[0-9a-f]{32}>>>")
_DIFF = re.compile(r"^(?:diff --git |@@ -[0-9]|--- \S.*\n\+\+\+ \S)", re.MULTILINE)
_log = logging.getLogger(__name__)


def _unless(*shapes: Shape) -> Callable[[Callable[[str], str | None]], Callable[[str, Source], str | None]]:
    """Turn a transform of a text into that of a stage which passes over these shapes."""

    def with_shapes(apply: Callable[[str], str | None]) -> Callable[[str, Source], str | None]:
        return lambda text, source: None if source.shape in shapes else apply(text)

    return with_shapes


def _line_numbers(text: str, source: Source) -> str | None:
    """Every tenth number where the model can ask for the original, all of them where it can't."""
    return line_numbers.thin(text) if source.policy.lossy else line_numbers.unpad(text)


STRUCTURE: tuple[Stage, ...] = (
    Stage("line_numbers", Mode.STANDARD, Loss.REVERSIBLE, _line_numbers, quoted=True),
    Stage("json_minify", Mode.STANDARD, Loss.NONE, lambda text, _: json_minify.minify(text)),
    Stage("table_whitespace", Mode.STANDARD, Loss.NONE, _unless(Shape.JSON, Shape.DIFF)(tables.tighten)),
    Stage("fold_repeated", Mode.STANDARD, Loss.REVERSIBLE, _unless(Shape.JSON, Shape.DIFF)(folding.fold)),
    Stage("whitespace", Mode.STANDARD, Loss.NONE, _unless(Shape.JSON, Shape.DIFF)(whitespace.trim)),
)
"""The stages between clean-up and cap, in order."""


def shorten(output: ToolOutput, policy: Policy, redact: Redact, ref: Callable[[str], str]) -> Shortened:
    """The form of one result that is to be forwarded.

    A pure function of its inputs. `ref` names the shadow of a redacted original. Raises
    RedactionError; any other failure leaves the text as it was before the failing stage.
    """
    run = _Run(output, policy, redact, classify(output.tool, output.arguments))
    run.clean()
    if policy.mode is Mode.DISABLED:
        return run.result()
    run.apply("binary", Loss.LOSSY, binary.suppress)
    if "binary" not in run.stages and not _OURS.match(run.text):
        run.structure(ref)
        limit = partial(cap.cap, limit=policy.max_output_bytes, reserve=size(policy.overhead))
        run.apply("cap", Loss.LOSSY, limit)
    run.redact_again()
    return run.result()


@dataclass(slots=True)
class _Run:
    """One text on its way, and what happened to it."""

    output: ToolOutput
    policy: Policy
    redact: Redact
    call: Call
    text: str = ""
    original: str = ""
    loss: Loss = Loss.NONE
    stages: list[str] = field(default_factory=list)
    family: str = ""
    redactions: dict[str, int] = field(default_factory=dict)
    cost: int | None = None
    """Estimated tokens of `text`; None if not known yet."""
    scanned: str = ""
    """The text that was last searched for secrets."""

    def clean(self) -> None:
        """Redaction of the text as it came and of what a screen would show, and terminal clean-up."""
        self.text = self.output.text
        self._redact()
        self.original = self.text
        if self.policy.mode is Mode.DISABLED:
            return
        shown = self._shown()
        if shown is not self.text:
            self.text = shown
            self.stages.append("terminal")
            found = sum(self.redactions.values())
            self._redact()
            if sum(self.redactions.values()) > found:
                self.original = self.text

    def _shown(self) -> str:
        try:
            return terminal.render(self.text, moves=self.call.category not in _QUOTED)
        except Exception:
            _log.exception("penumbra: stage terminal failed")
            return self.text

    def structure(self, ref: Callable[[str], str]) -> None:
        """The stages that the mode, the size and the call allow."""
        original_bytes = size(self.original)
        if original_bytes <= self.policy.min_bytes:
            return
        source = Source(
            call=self.call,
            shape=_shape(self.text),
            policy=self.policy,
            is_error=self.output.is_error,
            original_bytes=original_bytes,
            artifact=lambda: ref(self.original),
        )
        for stage in STRUCTURE:
            if _RANK[stage.mode] > _RANK[self.policy.mode]:
                continue
            if self.call.category in _QUOTED and not stage.quoted:
                continue
            if stage.loss is Loss.LOSSY and not self.policy.lossy:
                continue
            self.step(stage, source)

    def step(self, stage: Stage, source: Source) -> None:
        """Run one stage, and keep what it made if that is better."""
        try:
            new = stage.apply(self.text, source)
            if new is None or new == self.text or not self._accepts(new, stage.loss):
                return
        except Exception:
            _log.exception("penumbra: stage %s failed", stage.name)
            return
        self._keep(stage.name, stage.loss, new)

    def apply(self, name: str, loss: Loss, transform: Callable[[str], str | None]) -> None:
        """Run a transform that is not judged by what it saves."""
        try:
            new = transform(self.text)
        except Exception:
            _log.exception("penumbra: stage %s failed", name)
            return
        if new is not None and new != self.text:
            self._keep(name, loss, new)

    def _accepts(self, new: str, loss: Loss) -> bool:
        """Law 3 and law 4: smaller in bytes and tokens, with every critical line."""
        first_loss = loss is Loss.LOSSY and self.loss is not Loss.LOSSY
        overhead = self.policy.overhead if first_loss else ""
        if size(new) + size(overhead) > size(self.text):
            return False
        if self.cost is None:
            self.cost = tokens.estimate(self.text)
        cost = tokens.estimate(new)
        if cost + tokens.estimate(overhead) >= self.cost:
            return False
        if loss is Loss.LOSSY and not critical.keeps_critical(self.text, new):
            return False
        self.cost = cost
        return True

    def _keep(self, name: str, loss: Loss, new: str) -> None:
        self.text = new
        self.loss = max(self.loss, loss)
        self.stages.append(name)

    def redact_again(self) -> None:
        """The text as it will be sent, searched once more."""
        if self.text is not self.scanned:
            self._redact()

    def _redact(self) -> None:
        redacted = self.redact(self.text)
        for rule, count in redacted.counts.items():
            self.redactions[rule] = self.redactions.get(rule, 0) + count
        if redacted.text != self.text:
            self.text = redacted.text
            self.cost = None
            if "redaction" not in self.stages:
                self.stages.append("redaction")
        self.scanned = self.text

    def result(self) -> Shortened:
        """What became of the text."""
        return Shortened(
            self.text, self.original, self.loss, tuple(self.stages), self.family, dict(self.redactions)
        )


def _shape(text: str) -> Shape:
    """What the text looks like, by its beginning."""
    start = text.lstrip()
    if start[:1] in ("{", "["):
        minimal = json_minify.is_json(start.rstrip()) or json_minify.is_json(start.split("\n", 1)[0])
        if minimal:
            return Shape.JSON
    return Shape.DIFF if _DIFF.search(text, 0, 20_000) else Shape.PLAIN
