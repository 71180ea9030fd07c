"""The pipeline runs the stages on one tool result.

redaction -> terminal -> binary -> structure (JSON, tables, repetitions, blanks) -> truncate -> redaction

Truncation cuts a text that is still too long. The output of a structural stage is kept only if it is smaller.
If a stage raises, the text stays the same and the next stage runs. If redaction raises, the pipeline ends.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import structs

from penumbra import errors
from penumbra.compress import time_budget
from penumbra.compress.calls import json_envelope
from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.envelope import Envelope, file_alone, tells_failure, with_cut_noted, with_name
from penumbra.compress.calls.tools import category
from penumbra.compress.calls.unknown_tools import shows_file
from penumbra.compress.families import shorten as families
from penumbra.compress.families.several_outputs import without_files
from penumbra.compress.result import Loss, Mode, Policy, Redact, Shortened, ToolOutput
from penumbra.compress.size import exceeds, size
from penumbra.compress.stage import Shape, Source, Stage, Trace, Trial
from penumbra.compress.stage_order import AFTER_FAMILY, STRUCTURE
from penumbra.compress.stages import binary, json_minify, terminal, truncate
from penumbra.compress.text import Text

P = ParamSpec("P")
T = TypeVar("T")
_OURS = re.compile(
    r"<<<SHADOW:shadow_[0-9a-f]{18,32}>>>|\[Forge (?:LZW|RePair) Dictionary\]\n|\[patterns; \"~A 1 2\""
    r"|\[(?:every [12]0th|not every) line is numbered\]\n"
    r"|\[[^\n;]{1,400} in part; [0-9]+ bytes?[],;]|\[[0-9]+ lines of JSON; "
    r"|(?:\{[^\n]{0,4000}\n)?\[table 1: [0-9]+ objects; "
)
"""The beginnings of texts that a pipeline has shortened before."""
_CLEARLY = 128
"""If a stage only deletes text, this number of saved bytes is enough, and no tokens are estimated."""
_CLEARLY_WORTH = 1_000
"""The number of saved bytes that is enough for the first lossy stage, which also adds a reference, if the
stage only deletes text."""
_WORTH = 100
"""The number of estimated tokens that the first lossy stage must save, because a reference is added."""
_EXCERPT = "excerpt"
"""The stage that may run on very large texts, unless an external compressor follows."""
_BEGINNING = 20_000
"""The signs of a diff are searched for in this number of characters at the beginning of a text."""
_DIFF = re.compile(r"^(?:diff --git |@@ -[0-9]|--- \S.*\n\+\+\+ \S)", re.MULTILINE)
_ASKED = {"bash": "command", "other": "query"}
"""The argument that has a call's command or query, by the tool's category. Other categories have `path`."""
_NOTHING_TO_DO = "nothing to do"
_NOT_QUOTED = "not for text that is quoted later (of reads and edits)"
_log = logging.getLogger(__name__)


def shorten(
    output: ToolOutput,
    policy: Policy,
    redact: Redact,
    ref: Callable[[str], str],
    is_late: time_budget.IsLate = None,
    trace: Trace | None = None,
) -> Shortened:
    """Return the form in which one tool result is forwarded.

    `ref` returns the reference for a redacted original. After `is_late` has returned True, no further
    structural stage runs. `trace` receives the effect of each stage. Raises RedactionError.
    """
    run = _Run(output, policy, redact, is_late, trace)
    run.clean()
    if policy.mode is Mode.DISABLED:
        return run.result()
    run.apply("binary", Loss.LOSSY, binary.suppress)
    if not run.text.startswith("[Binary output suppressed: ") or "\n" in run.text:
        # In safe mode, stages that leave nothing out run on a text that would otherwise be cut.
        is_structured = policy.mode is not Mode.SAFE or exceeds(run.text, policy.max_output_bytes)
        envelope = run.opened() if is_structured else None
        if run.unwrapped(ref):
            return run.result()
        if envelope is not None:
            run.structure(envelope, ref)
        limit, reserve = policy.max_output_bytes, size(policy.overhead)
        file = run.call.path if run.call.shows_files and not output.is_error else None
        run.apply("truncate", Loss.LOSSY, lambda text: truncate.truncate(text, limit, reserve, file))
    run.redact_again()
    return run.result()


@dataclass
class _Run:
    """A `_Run` is one text on its way through the stages, with its changes so far."""

    output: ToolOutput
    policy: Policy
    redact: Redact
    is_late: time_budget.IsLate
    trace: Trace | None = None
    text: Text = field(default_factory=Text)
    original: Text = field(default_factory=Text)
    bare: Text = field(default_factory=Text)
    """The output without the agent's text around it, without files printed before or after it, and without
    the markup of a web page."""
    loss: Loss = Loss.NONE
    stages: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    family: str = ""
    redactions: dict[str, int] = field(default_factory=dict)
    scanned: str = ""
    """The text that was last searched for secrets."""
    readable: bool = True
    """True if the text is small enough for the stages that read lines."""

    @property
    def lossy(self) -> bool:
        """True if structural stages may leave something out."""
        return self.policy.lossy and self.policy.mode is not Mode.SAFE

    @cached_property
    def call(self) -> Call:
        """The call that produced the result."""
        output = self.output
        try:
            return classify(output.tool, output.arguments) if output.call is None else output.call()
        except Exception as error:
            _failed("classify", error)
            return Call()

    def clean(self) -> None:
        """Redact the received text. Then keep the text that a terminal would show, also redacted."""
        self.text = Text.of(self.output.text)
        self._redact()
        self.original = self.text
        if self.policy.mode is Mode.DISABLED:
            return
        tool, least = self.output.tool, self.policy.min_bytes
        opened = self._made(
            "json_envelope", lambda text: json_envelope.opened(text.envelope, tool, self.call, least)
        )
        if self.call.category == "other" and self.call.path and not self.output.is_error:
            body = Text.of(self.text if opened is None else opened).envelope.body
            if shows_file(tool, body, self.call.path):
                self.call = structs.replace(self.call, category="read")
        if opened is not None:
            self.original = Text(self.redact(opened).text)
            if self.policy.mode is not Mode.SAFE:
                self._keep("json_envelope", Loss.NONE, opened)
                self._redact()
        if not terminal.may_act(self.text):
            return
        shown = self._made("terminal", self._shown_text)
        if shown is not None and shown is not self.text:
            self._keep("terminal", Loss.NONE, shown)
            found = sum(self.redactions.values())
            self._redact()
            if sum(self.redactions.values()) > found:
                self.original = self.text

    def _shown_text(self, text: Text) -> str:
        # In a file, every character is content.
        if self.call.shows_files or self.call.is_coloured:
            return text
        return terminal.render(text, moves=not self.call.is_quoted)

    def unwrapped(self, ref: Callable[[str], str]) -> bool:
        """Shorten each output in a JSON text by itself. Return False if nothing changed."""
        if not exceeds(self.original, self.policy.min_bytes):
            return False
        # The result of an unknown tool with a path may be a file. From such a result, and from a quoted
        # result, only outputs whose call the JSON names are shortened.
        may_be_file = self.call.is_quoted or (self.call.category == "other" and bool(self.call.path))
        outputs = [inner for inner in json_envelope.outputs(self.text) if inner.asked or not may_be_file]
        # JSON escapes add bytes, so all outputs together get half of the limit.
        policy = structs.replace(
            self.policy, max_output_bytes=self.policy.max_output_bytes // max(1, 2 * len(outputs))
        )
        parts = [
            shorten(
                _output(inner, self.output),
                policy,
                self.redact,
                lambda _: ref(self.original),
                self.is_late,
                self.trace,
            )
            for inner in outputs
        ]
        if not any(part.stages for part in parts):
            return False
        text, loss = _with_outputs(self.text, outputs, parts), max(part.loss for part in parts)
        if text.size > self.policy.max_output_bytes or self._refusal(text, loss):
            return False
        for part in parts:
            self.stages += [stage for stage in part.stages if stage not in self.stages]
            self.skipped += [stage for stage in part.skipped if stage not in self.skipped]
            self.family = self.family or part.family
            for rule, count in part.redactions.items():
                self.redactions[rule] = self.redactions.get(rule, 0) + count
        self._tell("json_envelope", text)
        self.text, self.loss = text, loss
        self.redact_again()
        return True

    def opened(self) -> Envelope:
        """Return the output and the text around it, without the agent's needless lines or JSON, and without
        the folder in an edit's confirmation."""
        call = self.call
        if call.category == "read" and not call.shell:
            around = partial(file_alone, path=call.path, numbers=call.numbers)
            self.apply("envelope", Loss.NONE, around)
        elif call.category in ("edit", "write") and not self.output.is_error:
            self.apply("own_path", Loss.REVERSIBLE, partial(with_name, path=call.path))
        envelope = self.text.lines_envelope
        if call.shell or not self.call.is_quoted:
            envelope = envelope.without_needless(call.is_quoted, asks_success=call.asks_exit_code)
            self.apply("envelope", Loss.NONE, lambda _: "".join(envelope))
        return envelope.within_json()

    def structure(self, envelope: Envelope, ref: Callable[[str], str]) -> None:
        """Run the stages that the size and the call allow. The text around the output stays unchanged."""
        if not exceeds(self.original, self.policy.min_bytes):
            self._tell("all others", None, f"not above min_bytes ({self.policy.min_bytes:,})")
            return
        stages = len(self.stages)
        whole = self.text
        head, body, tail = envelope
        if _OURS.match(body):
            return
        is_error = self.output.is_error or tells_failure(head, tail)
        if self.call.is_beside_files and (parted := without_files(body, self.call)) is not None:
            before, body, after, self.call = parted
            head, tail = head + before, after + tail
        if not self.call.is_quoted:
            before, body, after = json_minify.among_lines(body)
            head, tail = head + before, after + tail
        self.text = self.bare = output = Text(body) if head or tail else whole
        self.readable = output.is_readable
        source = Source(
            call=self.call,
            # Stages for JSON and diffs don't run on a text that is quoted later.
            shape=Shape.PLAIN if self.call.is_quoted else _shape_of(output),
            policy=self.policy,
            is_error=is_error,
            call_id=self.output.call_id,
            original=self.original,
            bare=lambda: self.bare,
            shortened=lambda: self.text is not self.bare,
            artifact=lambda: ref(self.original),
            mentioned=self.output.mentioned,
            shown_before=self.output.shown_before,
            arguments=self.output.arguments,
        )
        with time_budget.watched(self.is_late):
            # The rules for a command's JSON run before the stages for all JSON.
            if source.shape is Shape.JSON and self.command_family():
                source = self._after_family(source)
            self.steps(STRUCTURE, source)
            if self.command_family():
                source = self._after_family(source)
                self.steps(STRUCTURE, source)
            self.steps(AFTER_FAMILY, source)
        if self.loss is Loss.LOSSY:
            space = output.size - self.text.size - size(self.policy.overhead)
            self.text = Text.of(with_cut_noted(self.text, whole, space, head + tail))
        if len(self.stages) == stages:
            self.text = whole
        elif head or tail:
            self.text = Text(head + self.text + tail)

    def _after_family(self, source: Source) -> Source:
        return structs.replace(
            source, shape=_shape_of(self.text), call=structs.replace(self.call, family=self.family)
        )

    def command_family(self) -> bool:
        """Apply the rules for the command that printed the text. Return True if the text has changed."""
        name = "command_family"
        if self.call.is_quoted and not self.call.is_beside_files:
            self._tell(name, None, _NOT_QUOTED)
            return False
        if self._passes_over(name):
            return False
        found = self._made(name, families.apply, self.call, lossy=self.lossy)
        if found is None:
            self._tell(name, None, _NOTHING_TO_DO)
        elif self._keeps(name, found.loss, found.text):
            self.family = found.family
            return True
        return False

    def steps(self, stages: tuple[Stage, ...], source: Source) -> None:
        """Run the stages that the mode and the call allow, and keep each output that is smaller."""
        may_pass = self.is_late is not None or not self.readable
        for stage, why_not in _allowed(stages, self.call.is_quoted, self.lossy, self.policy.for_others):
            if not why_not:
                if may_pass and self._passes_over(stage.name):
                    continue
                made = self._made(stage.name, stage.apply, source)
                if made is not None and made != self.text:
                    if self._keeps(stage.name, stage.loss, made, stage.deletes) and stage.bares:
                        self.bare = self.text
                    continue
            if self.trace is not None:
                self._tell(stage.name, None, why_not or _NOTHING_TO_DO)

    def apply(self, name: str, loss: Loss, transform: Callable[[Text], str | None]) -> None:
        """Run a transform. Keep its output if the output has no more bytes than the text."""
        made = self._made(name, transform)
        if made is None or made == self.text:
            return
        new = Text(made)
        if new.size + size(self._overhead(loss)) <= self.text.size:
            self._keep(name, loss, new)

    def _made(
        self, name: str, make: Callable[Concatenate[Text, P], T | None], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Return the output of a stage; None if the stage raises or exceeds its time."""
        try:
            return make(self.text, *args, **kwargs)
        except time_budget.Overrun:
            self._gave_up(name)
        except Exception as error:
            _failed(name, error)
        return None

    def _passes_over(self, stage: str) -> bool:
        """If the time is over or the text is too large, record the stage as skipped, and return True."""
        is_late = self.is_late is not None and self.is_late()
        if passes := is_late or not (self.readable or stage == _EXCERPT):
            self._gave_up(stage)
        return passes

    def _gave_up(self, stage: str) -> None:
        self._tell(stage, None, "no time is left for it, or the text is too large")
        if stage not in self.skipped:
            self.skipped.append(stage)

    def _overhead(self, loss: Loss) -> str:
        """Return the prefix that a loss adds, if earlier stages have not added it; otherwise empty."""
        return self.policy.overhead if loss is Loss.LOSSY and self.loss is not Loss.LOSSY else ""

    def _keeps(self, name: str, loss: Loss, made: str, deletes: bool = False) -> bool:
        """Keep the output of a stage if it is smaller. Return whether it was kept."""
        new = Text(made)
        if reason := self._refusal(new, loss, deletes):
            self._tell(name, new, reason)
        else:
            self._keep(name, loss, new)
        return not reason

    def _refusal(self, new: Text, loss: Loss, deletes: bool = False) -> str:
        """Return the reason why a new text is not kept; empty if the text is kept."""
        is_first_loss = loss is Loss.LOSSY and self.loss is not Loss.LOSSY
        overhead = self._overhead(loss)
        saved = self.text.size - new.size - size(overhead)
        if saved < 0:
            return f"{-saved:,} bytes more{', with what stands in front of it' if overhead else ''}"
        if not (deletes and saved >= (_CLEARLY_WORTH if is_first_loss else _CLEARLY)):
            fewer = self.text.tokens - new.tokens - Text(overhead).tokens
            if overhead and fewer < _WORTH:
                return f"fewer than {_WORTH} tokens are saved, which is not worth a reference"
            if fewer <= 0:
                return "no token is saved"
        return ""

    def _tell(self, stage: str, after: str | None, reason: str = "") -> None:
        if self.trace is not None:
            self.trace(Trial(stage, str(self.text), None if after is None else str(after), reason))

    def _keep(self, name: str, loss: Loss, new: str) -> None:
        self._tell(name, new)
        self.text = Text.of(new)
        self.loss = max(self.loss, loss)
        self.stages.append(name)

    def redact_again(self) -> None:
        """Redact the final text, unless this very text was already redacted."""
        if self.text is not self.scanned:
            self._redact()

    def _redact(self) -> None:
        redacted = self.redact(str(self.text))
        for rule, count in redacted.counts.items():
            self.redactions[rule] = self.redactions.get(rule, 0) + count
        if redacted.text != self.text:
            self._tell("redaction", redacted.text)
            self.text = Text(redacted.text)
            if "redaction" not in self.stages:
                self.stages.append("redaction")
        self.scanned = self.text

    def result(self) -> Shortened:
        received = self.output.text
        return Shortened(
            received if self.text == received else self.text,
            received if self.original == received else self.original,
            self.loss,
            tuple(self.stages),
            self.family,
            dict(self.redactions),
            tuple(self.skipped),
        )


def _output(part: json_envelope.Output, output: ToolOutput) -> ToolOutput:
    """Return an output in the JSON as a tool result of its own, with the arguments of its call."""
    arguments = output.arguments
    if part.asked:
        # The arguments of an unknown tool may mean anything.
        arguments = {_ASKED.get(category(output.tool), "path"): part.asked}
    return structs.replace(output, text=part.text, arguments=arguments, call=None)


def _with_outputs(text: str, outputs: Sequence[json_envelope.Output], parts: Sequence[Shortened]) -> Text:
    """Return the JSON with the changed outputs. A string that was ASCII stays ASCII, with escapes."""
    written: list[str] = []
    done = 0
    for output, part in zip(outputs, parts, strict=True):
        if part.stages:
            is_ascii = text[output.start : output.end].isascii()
            written += [text[done : output.start], json.dumps(part.text, ensure_ascii=is_ascii)]
            done = output.end
    return Text("".join([*written, text[done:]]))


@cache
def _allowed(
    stages: tuple[Stage, ...], is_quoted: bool, lossy: bool, for_others: bool
) -> tuple[tuple[Stage, str], ...]:
    """Return each stage with the reason why it may not run. The reason is empty if the stage may run."""

    def why_not(stage: Stage) -> str:
        if is_quoted and not stage.quoted:
            return _NOT_QUOTED
        if stage.loss is Loss.LOSSY and not lossy:
            return "it would leave something out, which is not allowed here"
        if for_others and stage.name == _EXCERPT:
            return "somebody else will shorten the text"
        return ""

    return tuple((stage, why_not(stage)) for stage in stages)


def _shape_of(text: Text) -> Shape:
    if text[:1] in ("{", "[") or text[:1].isspace():
        start = text.strip()
        if start[:1] in ("{", "[") and (
            json_minify.is_json(start)
            or json_minify.is_json(start.split("\n", 1)[0])
            or json_minify.are_values(start)
        ):
            return Shape.JSON
    beginning = text[:_BEGINNING]
    may_be = "diff --git " in beginning or "@@ -" in beginning or "\n+++ " in beginning
    return Shape.DIFF if may_be and _DIFF.search(beginning) else Shape.PLAIN


def _failed(stage: str, error: Exception) -> None:
    """Log the failure of a stage in one line, without any of the text."""
    _log.warning("Penumbra passes over stage %s: %s", stage, errors.place(error))
