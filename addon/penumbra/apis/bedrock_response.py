"""Amazon Bedrock's Converse: answers, as event streams and as JSON.

An answer is a list of content blocks. A stream numbers them; the injected tool's blocks are taken out and the
rest is numbered anew. Only calls and the like have a start, texts and reasoning begin with their first
piece. The end of a turn (`messageStop`, `metadata`) is held back as soon as an injected call was seen.
The API knows no keep-alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, InjectedCall, Turn
from penumbra.apis.bedrock import error, said
from penumbra.apis.bedrock_block import Block
from penumbra.apis.upstream_error import told
from penumbra.apis.usage import added, flat, only, plus
from penumbra.apis.whole_response import WholeResponse
from penumbra.wire.document import Document, NotJson, decode, encode
from penumbra.wire.event_stream import MessageReader, StreamMessage, message_bytes

_SUMMED = ("usage.outputTokens", "metrics.latencyMs")
_CONTINUABLE = ("", "end_turn", "tool_use", "stop_sequence", "max_tokens")
_EXCEPTIONS = {
    400: "validationException",
    424: "modelStreamErrorException",
    429: "throttlingException",
    503: "serviceUnavailableException",
}

_Members = dict[str, Raw]


class ConverseStream:
    """An answer that arrives as an event stream."""

    keep_alive = b""

    def __init__(self, injected_tool: str) -> None:
        self._injected_tool = injected_tool
        self._reader = MessageReader()
        self._started = False
        self._blocks_shown = 0
        self._hidden_figures: dict[str, int] = {}
        self._continued = False
        self._turn = _StreamTurn()
        self._handlers: dict[str, Callable[[StreamMessage, Document, _Members], bytes]] = {
            "messageStart": self._message_start,
            "contentBlockStart": self._block_start,
            "contentBlockDelta": self._block_delta,
            "contentBlockStop": self._block_stop,
            "messageStop": self._message_stop,
            "metadata": self._metadata,
        }

    @property
    def holding(self) -> bool:
        return bool(self._turn.injected)

    def feed(self, data: bytes) -> bytes:
        return b"".join([self._message(message) for message in self._reader.feed(data)])

    def end_turn(self) -> Turn:
        self._turn.rest = b"".join([self._message(message) for message in self._reader.close()])
        return self._turn.read()

    def go_on(self) -> bytes:
        rest = self._turn.rest
        self._hidden_figures = plus(self._hidden_figures, summed(self._turn.figures))
        self._continued = True
        self.restart()
        return rest

    def restart(self) -> None:
        self._turn, self._reader = _StreamTurn(), MessageReader()

    def finish(self) -> bytes:
        out = [self._turn.rest, *map(self._last, self._turn.held)]
        self._turn.held, self._turn.rest = [], b""
        return b"".join(out)

    def fail(self, failure: Failure) -> bytes:
        return b"" if self._turn.failed and not self._continued else exception(failure, self._injected_tool)

    def _message(self, message: StreamMessage) -> bytes:
        if self._turn.failure is not None:
            return b""
        if message.data is None:
            return message.raw
        if message.is_exception:
            self._turn.failed = True
            self._turn.held.clear()
            if not self._continued:
                return message.raw
            self._turn.failure = raised(message)
            return b""
        handler = self._handlers.get(message.event)
        try:
            document = Document(message.data)
        except NotJson:
            return message.raw
        return handler(message, document, document.members(document.root)) if handler else message.raw

    def _message_start(self, message: StreamMessage, document: Document, members: _Members) -> bytes:
        first, self._started = not self._started, True
        return message.raw if first else b""

    def _block_start(self, message: StreamMessage, document: Document, members: _Members) -> bytes:
        block = self._block(document, members)
        block.start(document.plain(members.get("start")))
        if block.is_call(self._injected_tool):
            self._turn.injected.append(block)
            self._turn.places[self._turn.index] = None
        elif block.is_call():
            self._turn.real_calls.append(block.call_id)
        return self._block_event(message, document, members)

    def _block_delta(self, message: StreamMessage, document: Document, members: _Members) -> bytes:
        self._block(document, members).add(document.plain(members.get("delta")))
        return self._block_event(message, document, members)

    def _block(self, document: Document, members: _Members) -> Block:
        """The block that an event is about."""
        found = document.plain(members.get("contentBlockIndex"))
        self._turn.index = self._turn.open = found if isinstance(found, int) else -1
        return self._turn.blocks.setdefault(self._turn.index, Block())

    def _block_stop(self, message: StreamMessage, document: Document, members: _Members) -> bytes:
        out = self._block_event(message, document, members)
        self._turn.open = -1
        return out

    def _block_event(self, message: StreamMessage, document: Document, members: _Members) -> bytes:
        self._block(document, members)
        index = self._turn.index
        if index < 0:
            return message.raw
        if index not in self._turn.places:
            self._turn.places[index] = self._blocks_shown
            self._blocks_shown += 1
        place = self._turn.places[index]
        if place is None:
            return b""
        if place == index:
            return message.raw
        document.replace(members["contentBlockIndex"], place)
        return message.with_data(document.render())

    def _message_stop(self, message: StreamMessage, document: Document, members: _Members) -> bytes:
        self._turn.finished = True
        self._turn.stop_reason = document.string(members.get("stopReason")) or ""
        return self._end(message)

    def _metadata(self, message: StreamMessage, document: Document, members: _Members) -> bytes:
        self._turn.figures |= figures(document, members)
        return self._end(message)

    def _end(self, message: StreamMessage) -> bytes:
        if self._turn.injected:
            self._turn.held.append(message)
            return b""
        return self._last(message)

    def _last(self, message: StreamMessage) -> bytes:
        """An event that ends the message, put right for what was shown."""
        assert message.data is not None
        document = Document(message.data)
        put_right(document, self._hidden_figures, only_phantoms=self._turn.only_phantoms)
        return message.with_data(document.render()) if document.edits else message.raw


@dataclass(slots=True)
class _StreamTurn:
    blocks: dict[int, Block] = field(default_factory=dict)
    places: dict[int, int | None] = field(default_factory=dict)
    """Where the client sees a block; None: nowhere."""
    index: int = -1
    """Of the block that is being read."""
    open: int = -1
    """Of the block that is under way."""
    injected: list[Block] = field(default_factory=list)
    real_calls: list[str] = field(default_factory=list)
    held: list[StreamMessage] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    stop_reason: str = ""
    finished: bool = False
    failed: bool = False
    failure: Failure | None = None
    rest: bytes = b""

    @property
    def only_phantoms(self) -> bool:
        return bool(self.injected) and not self.real_calls

    def read(self) -> Turn:
        blocks = [self.blocks[index] for index in sorted(self.blocks)]
        returnable = blocks if self.finished else self._complete(blocks)
        real_calls = self.real_calls
        if not self.finished:
            real_calls = [block.call_id for block in returnable if block.is_call()]
        return Turn(
            message=_message([data for data in (block.json() for block in returnable) if data]),
            injected=tuple(InjectedCall(block.call_id, block.arguments()) for block in self.injected),
            real_calls=tuple(real_calls),
            text="".join(block.text for block in blocks),
            signatures=tuple(filter(None, (block.signature for block in blocks))),
            finished=self.finished,
            failed=self.failed,
            failure=self.failure,
            continuable=self.stop_reason in _CONTINUABLE and all(block.known for block in blocks),
            usage=tokens(self.figures),
        )

    def _complete(self, blocks: list[Block]) -> list[Block]:
        """What of a message that broke off can be sent: of what is under way only text, no call that
        nobody answers, and no reasoning at the end."""
        under_way = self.blocks.get(self.open)
        kept = [
            block
            for block in blocks
            if block not in self.injected
            and (block is not under_way or not (block.is_call() or block.is_reasoning))
        ]
        while kept and kept[-1].is_reasoning:
            kept.pop()
        return kept


class ConverseBody(WholeResponse):
    """An answer that arrives as one JSON document."""

    def __init__(self, injected_tool: str) -> None:
        super().__init__(injected_tool)
        self._shown: list[bytes] = []
        self._figures: dict[str, int] = {}
        self._turn = Turn()

    def end_turn(self) -> Turn:
        self._turn = self._read()
        return self._turn

    def go_on(self) -> bytes:
        self._hidden_usage = plus(self._hidden_usage, summed(self._figures))
        return super().go_on()

    def finish(self) -> bytes:
        body = bytes(self._body)
        if not self._turn.finished or not (self._continued or self._turn.injected):
            return body
        document = Document(body)
        document.rewrite(_content(document)["content"], b"[" + b",".join(self._shown) + b"]")
        only_phantoms = bool(self._turn.injected) and not self._turn.real_calls
        put_right(document, self._hidden_usage, only_phantoms=only_phantoms)
        return document.render()

    def fail(self, failure: Failure) -> bytes:
        return error_body(failure, self._injected_tool)

    def _read(self) -> Turn:
        try:
            document = Document(bytes(self._body))
        except NotJson:
            return Turn()
        message = _content(document)
        if "content" not in message:
            return Turn()
        members = document.members(document.root)
        self._figures = figures(document, members)
        items = document.items(message["content"])
        blocks = [(document.source(item), said(document, item)) for item in items]
        injected = [one for _, one in blocks if one.call is not None and one.name == self._injected_tool]
        self._shown += [raw for raw, one in blocks if one not in injected]
        shown = [one for _, one in blocks if one not in injected]
        return Turn(
            message=_message([document.source(item) for item in items if _returnable(document, item)]),
            injected=tuple(InjectedCall(one.call or "", one.arguments) for one in injected),
            real_calls=tuple(one.call for one in shown if one.call is not None),
            text="".join(one.text for one in shown),
            signatures=tuple(one.signature for one in shown if one.signature),
            finished=True,
            continuable=(document.string(members.get("stopReason")) or "") in _CONTINUABLE,
            usage=tokens(self._figures),
        )


def figures(document: Document, members: _Members) -> dict[str, int]:
    """Tokens and times of an answer, by flat names."""
    return flat({name: document.plain(members.get(name)) for name in ("usage", "metrics")})


def tokens(figures: Mapping[str, int]) -> dict[str, int]:
    """The token figures, by the API's own names."""
    return {name.removeprefix("usage."): number for name, number in only(figures, ("usage.",)).items()}


def summed(figures: Mapping[str, int]) -> dict[str, int]:
    """What the client sees the sum of: what was written and the time that it took; input counts once."""
    hidden = only(figures, _SUMMED)
    return {**hidden, "usage.totalTokens": hidden.get("usage.outputTokens", 0)}


def put_right(document: Document, hidden: dict[str, int], *, only_phantoms: bool) -> None:
    """Edit the end of an answer: figures of all turns, and a reason that fits what was shown."""
    members = document.members(document.root)
    reason = members.get("stopReason")
    if only_phantoms and reason is not None and document.string(reason) == "tool_use":
        document.replace(reason, "end_turn")
    for name in ("usage", "metrics"):
        old = document.plain(members.get(name))
        if isinstance(old, dict) and (new := added(old, hidden, f"{name}.")) != old:
            document.replace(members[name], new)


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours.

    The API names the error in a header, which is not at hand; its clients look into the object too.
    """
    described = told(failure, injected_tool)
    return error(described.status or 502, described.message)


def exception(failure: Failure, injected_tool: str) -> bytes:
    """The same within a stream."""
    described = told(failure, injected_tool)
    known = described.type if described.type.endswith("Exception") else ""
    headers = {
        ":exception-type": known or _EXCEPTIONS.get(described.status or 0, "internalServerException"),
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return message_bytes(headers, encode({"message": described.message}))


def raised(message: StreamMessage) -> Failure:
    """The failure that an exception within a stream is."""
    try:
        said = decode(message.data or b"")
    except NotJson:
        said = {}
    text = said.get("message") if isinstance(said, dict) else ""
    error = {"type": message.exception, "message": text}
    return Failure(None, encode({"error": error}), ENDED_IN_AN_ERROR)


def _content(document: Document) -> _Members:
    """The message of an answer."""
    output = document.members(document.root).get("output")
    return document.members(document.members(output).get("message"))


def _returnable(document: Document, item: Raw) -> bool:
    """The API refuses text blocks without any visible character."""
    text = document.string(document.members(item).get("text"))
    return text is None or bool(text.strip())


def _message(blocks: list[bytes]) -> bytes | None:
    return b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}" if blocks else None
