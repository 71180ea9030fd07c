"""Properties of all inputs, as functions of bytes. Hypothesis tries a few inputs, and `scripts/fuzz` many."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from penumbra.apis import responses_socket
from penumbra.apis.formats import FORMATS
from penumbra.apis.recognise import Api, by_request_line
from penumbra.compress.families.patterns import Pattern
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings, load
from penumbra.conversation import read, rewrite
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.expand.loop import Ask, Continue, Done, ToolLoop
from penumbra.redaction import RedactionError
from penumbra.redaction.redactor import Redactor
from penumbra.wire.content_encoding import Decoder, NotDecodable, decode, encode
from penumbra.wire.document import Document
from penumbra.wire.framing import ArrayReader, LineReader, Reader, SseReader
from penumbra.wire.json_values import NotJson
from support import filled
from support.large_requests import MAKERS

T = TypeVar("T")
_DATA: dict[str, Any] = filled.load(__file__)


class Source:
    """A `Source` takes decisions from bytes until none are left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def number(self, below: int) -> int:
        """Return a number from 0 on."""
        taken = self.bytes(1 if below <= 256 else 2)
        return int.from_bytes(taken, "big") % below

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.number(len(choices))]

    def bytes(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def some(self, pieces: Sequence[T], own: Callable[[bytes], T], most: int = 200) -> Iterator[T]:
        """Return some of the pieces and some that the bytes determine."""
        for _ in range(most):
            if self.is_over:
                return
            choice = self.number(len(pieces) + 4)
            yield pieces[choice] if choice < len(pieces) else own(self.bytes(1 + self.number(8)))

    def cuts(self, data: bytes) -> Iterator[bytes]:
        """Return the data in pieces."""
        size = self.one((1, 2, 3, 7, 16, 61, 1 << 20))
        for at in range(0, len(data), size):
            yield data[at : at + size]


def as_text(taken: bytes) -> str:
    return taken.decode("utf-8", "replace")


@cache
def _patterns() -> Sequence[tuple[str, Pattern]]:
    """Return every pattern of rules/commands that is matched line by line."""
    from penumbra import rules

    found: list[tuple[str, Pattern]] = []
    folder = Path(str(rules.__file__)).parents[2] / "rules" / "commands"
    import yaml

    def walk(where: str, value: Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(inner, dict | list):
                walk(where, inner)
            elif isinstance(inner, str) and isinstance(key, str) and ("^" in inner or "\\" in inner):
                try:
                    found.append((f"{where}: {key}", Pattern(inner)))
                except Exception:  # The text is no pattern.
                    continue

    for file in sorted(folder.glob("*.yaml")):
        walk(file.name, yaml.safe_load(file.read_text(encoding="utf-8")))
    assert found
    return found


_SECONDS = 2.0


def rule_patterns(data: bytes) -> None:
    """No pattern takes long for a line that repeats any text."""
    source = Source(data)
    name, pattern = source.one(_patterns())
    pieces = (
        "a", " ", "0", "/", ":", ".", "-", "_", "=", "(", '"', "aa ", "0.0", "./", " ->", "\t", "[",
        "error", "ok ", ",",
    )  # fmt: skip
    unit = "".join(source.some(pieces, as_text, 6)) or " "
    head = "".join(source.some(pieces, as_text, 8))
    line = (head + unit * 2_000)[:1_999] + source.one(("", "!", "\x00"))
    began = time.thread_time()
    pattern.match(line)
    spent = time.thread_time() - began
    assert spent < _SECONDS, f"{name} takes {spent:.1f} s for {line[:80]!r}"


_PIECES: list[str] = _DATA["pieces of secrets"]


@cache
def redactor() -> Redactor:
    return Redactor(b"key of the fuzzer")


def redaction(data: bytes) -> None:
    """Redaction does not fail, leaves nothing to redact, and keeps JSON valid."""
    text = "".join(Source(data).some(_PIECES, as_text))
    redact = redactor().redact
    for one in (text, json.dumps({"out": text, "password": text[:40]})):
        once = redact(one).text
        assert redact(once).text == once, "something is left to redact"
        if _is_json(one):
            json.loads(once)
    inner = json.dumps({"token": text})
    json.loads(json.loads(redact(json.dumps([inner])).text)[0])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_FRAMES = [piece.encode() for piece in _DATA["pieces of streams"]]


def framings(data: bytes) -> None:
    """Readers return all bytes of any stream, and equal events for any cut."""
    source = Source(data)
    make = source.one(_readers())
    stream = b"".join(source.some(_FRAMES, bytes))
    whole, cut = make(), make()
    pieces = [*whole.feed(stream), *whole.close()]
    parts = [piece for part in source.cuts(stream) for piece in cut.feed(part)] + [*cut.close()]
    assert b"".join(piece.raw for piece in pieces) == stream
    assert b"".join(piece.raw for piece in parts) == stream
    if make in (SseReader, LineReader, ArrayReader):
        assert [piece.data for piece in pieces if piece.data] == [piece.data for piece in parts if piece.data]
    for piece in pieces:
        if piece.data and make is not ArrayReader:
            changed = make().feed(piece.with_data(b'{"c":2}'))
            assert not changed or changed[0].data is None or b'{"c":2}' in (changed[0].data or b"")


@cache
def _readers() -> Sequence[Callable[[], Reader]]:
    readers: list[Callable[[], Reader]] = [SseReader, LineReader, ArrayReader]
    if "bedrock" in FORMATS:
        from penumbra.wire.event_stream import MessageReader

        readers.append(MessageReader)
    # These limits are reached.
    return (
        *readers,
        lambda: SseReader(limit=30),
        lambda: LineReader(limit=30),
        lambda: ArrayReader(limit=30),
    )


_CODINGS = ("gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate", "br, zstd, gzip", "x-gzip")
_LIMIT = 100_000


def codings(data: bytes) -> None:
    """A body decoded piece by piece equals one decoded at once, never exceeds the limit, and raises one kind
    of error."""
    source = Source(data)
    header = source.one(_CODINGS)
    plain = b"".join(source.some((b"abc" * 10, b"\0" * 5_000, b"{}", b"x" * 40_000), bytes, 30))
    coded = bytearray(encode(plain, header))
    broken = source.number(3) == 0
    if broken and coded:
        coded[source.number(len(coded))] ^= 1 + source.number(255)
        del coded[len(coded) - source.number(4) :]
        coded += source.bytes(source.number(9))
    found = _decoded(bytes(coded), header)
    assert found is not None or broken or len(plain) > _LIMIT
    assert found is None or len(found) <= _LIMIT
    assert broken or found is None or found == plain
    decoder, got = Decoder(header, _LIMIT), b""
    try:
        for part in source.cuts(bytes(coded)):
            got += decoder.feed(part)
    except NotDecodable:
        assert found is None
        return
    assert found is None or got == found


def _decoded(coded: bytes, header: str) -> bytes | None:
    try:
        return decode(coded, header, _LIMIT)
    except NotDecodable:
        return None


SECRET = "ghp_" + "q8Zk2mVt41Lx9RwPz0bT6cA3sD5fG7hJ9kLq"


_SAID = (
    "error: it failed\n", "PASS\n", '  File "a.py", line 3, in f\n', "\x1b[31mred\x1b[0m\n", "same line again\n" * 20,
    '[{"a":1,"b":2}]', '{"k":[1,2,{"x":"y"}]}', "12\tcode\n", "diff --git a/x b/x\n", "| a | b |\n", "\ud83d", "é\u2028",
    f"\n{SECRET}\n", "<<<SHADOW:shadow_00>>>", "[Duplicate of x (y); see earlier result]", "\r\n", "\x00", "\x08\x08",
    "drwxr-xr-x 2 a a 4096 Jan 1 00:00 x\n" * 9, "src/a.py:12: error\n", "[REDACTED:key:abcdef]", "a" * 700, " " * 300,
)  # fmt: skip


_MODES = ("safe", "standard", "aggressive", "disabled")


@cache
def _settings(mode: str) -> Settings:
    return load({"mode": mode, "min_bytes": "64", "max_output_bytes": "4096"}, {}, "")


def bodies(data: bytes) -> None:
    """A request of any API is read and rewritten: only the texts of its results change, and no secret
    stays."""
    source = Source(data)
    name = source.one(tuple(name for name in MAKERS if name in FORMATS))
    make, path = MAKERS[name]
    api = by_request_line("POST", path)
    assert api is not None
    mode = source.one(_MODES)
    count, apart, ids = 1 + source.number(5), bool(source.number(2)), bool(source.number(2))
    texts = ["".join(source.some(_SAID, as_text, 12)) for _ in range(count)]
    body = make(_order(source, count), ids=ids, apart=apart)
    _fill(body, iter(texts * 2))
    plain = json.dumps(body, ensure_ascii=bool(source.number(2)), indent=source.one((None, 1)))
    raw = plain.encode("utf-8", "surrogatepass") if "\ud83d" not in plain else json.dumps(body).encode()
    _rewritten(api, raw, _settings(mode))
    mutated = bytearray(raw)
    for _ in range(source.number(4)):
        at = source.number(max(1, len(mutated)))
        mutated[at : at + source.number(3)] = source.one(
            (b"", b'"', b"{", b"]", b",", b"\\", b"null", b"\xff", b"0")
        )
    _rewritten(api, bytes(mutated), _settings(mode))


def _order(source: Source, count: int) -> Iterable[int]:
    return source.one((range(count), range(count - 1, -1, -1)))


def _fill(value: Any, texts: Iterator[str]) -> None:
    """Put texts in the place of results."""
    for key, inner in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        if isinstance(inner, str) and inner.startswith("result "):
            value[key] = next(texts, inner)
        elif isinstance(inner, dict | list):
            _fill(inner, texts)


def _rewritten(api: Api, raw: bytes, settings: Settings) -> None:
    try:
        document = Document(raw)
        request = read.read(document, api, settings, b"k" * 32)
        if request is None:
            return
        done = rewrite.rewrite(Inputs(request, {}, redactor().redact, None), LineIndexes())
    except (NotJson, OverrideError, RedactionError):
        return
    json.loads(done.body)
    placeholders = done.body.count(b"[REDACTED:")
    assert len(done.body) <= len(raw) + 80 * placeholders, "it grew"
    places = {document.place(item.result.value) for item in request.items}
    for edit in document.edits:
        # Text that only looks like a result is searched for secrets, and not shortened.
        redacted = b"[REDACTED:" in edit.data
        assert redacted or (edit.start, edit.end) in places, "something else than a result has changed"
    for item in request.items:
        decision = done.decisions.get(item.key)
        shown = item.text if decision is None or decision.text is None else decision.text
        assert SECRET not in shown, "a secret went out"
    again = read.read(Document(raw), api, settings, b"k" * 32)
    assert again is not None
    repeated = rewrite.rewrite(Inputs(again, done.decisions, redactor().redact, None), LineIndexes())
    assert repeated.body == done.body, "the first form was not final"


PHANTOM = "expand_context"


_EVENTS = {name: [event.encode() for event in events] for name, events in _DATA["events"].items()}


def _own(taken: bytes) -> bytes:
    return b"data: " + taken.replace(b"\r", b"").replace(b"\n", b"") + b"\n\n"


def answers(data: bytes) -> None:
    """The client gets equal bytes for any cut of a stream with any content. A stream as providers write it,
    which may break off or have unknown events, comes out unchanged without the injected tool."""
    source = Source(data)
    name = source.one(tuple(_EVENTS))
    own = _own if name != "ollama" else bytes
    anything = b"".join(source.some(_EVENTS[name], own, 20))
    for tool in ("read_file", PHANTOM):
        given = anything.replace(b"NAME", tool.encode())
        assert _driven(name, [given]) == _driven(name, source.cuts(given)), "the cut makes a difference"
    events = _EVENTS[name]
    if name == "gemini":
        events = source.one((events[:3], events[3:]))
    usual = [event for event in events[: source.number(len(events) + 1)] if b"error" not in event]
    if events[0][:1] != b"[":
        usual = [own(source.bytes(source.number(9))) if one is None else one for one in _sown(source, usual)]
    stream = b"".join(usual).replace(b"NAME", b"read_file")
    if PHANTOM.encode() not in stream:
        assert _driven(name, source.cuts(stream))[0] == stream, "bytes have changed"


def _sown(source: Source, events: Sequence[bytes]) -> Iterator[bytes | None]:
    """Yield the events, and None where an event of the source's own comes in between."""
    for event in events:
        if source.number(4) == 1:
            yield None
        yield event


def _driven(name: str, parts: Iterable[bytes]) -> tuple[bytes, str]:
    wire = FORMATS[name]
    request = b'{"messages":[],"input":[],"contents":[]}'
    exchange = ToolLoop(wire, wire.stream(PHANTOM), request)
    out = b"".join([exchange.feed(part) for part in parts])
    step: Ask | Continue | Done = exchange.end_turn()
    if isinstance(step, Ask):
        step = exchange.answered(["the text"] * len(step.calls))
    return out + step.out, type(step).__name__


_SOCKET = [*(piece.encode() for piece in _DATA["pieces of frames"]), b"\xff"]


def sockets(data: bytes) -> None:
    """Malformed frames raise no error, and frames without the injected tool pass unchanged."""
    source = Source(data)
    wire = FORMATS["openai_responses_socket"]
    exchange = ToolLoop(wire, wire.stream(PHANTOM), b'{"type":"response.create","input":[]}')
    plain = True
    while not source.is_over:
        frame = b"".join(source.some(_SOCKET, bytes, 6))
        outside = responses_socket.envelope(frame)
        plain = plain and PHANTOM.encode() not in frame
        if outside is None:
            continue
        responses_socket.renamed(frame, {"r": "q"})
        shown = exchange.feed(frame)
        assert shown == frame or not plain, "bytes have changed"
    exchange.end_turn()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "redaction": redaction,
    "framings": framings,
    "codings": codings,
    "bodies": bodies,
    "answers": answers,
    "sockets": sockets,
    "rules": rule_patterns,
}
