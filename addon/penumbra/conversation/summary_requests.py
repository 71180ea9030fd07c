"""This module recognises requests for a summary of an agent's history, and cuts them if they do not fit.

Agents ask for a summary when a conversation comes near its limit, so the request itself is probably too
large. A cut request keeps the message that asks for the summary, and the newest messages that fit. Tool calls
stay together with their results. A note has the size of the missing part and quotes the beginnings of the
user's missing messages. Earlier summaries are not shortened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Raw, Struct

from penumbra import rules
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.formats import REQUESTS
from penumbra.apis.parts import is_elsewhere
from penumbra.apis.prompt import Kind, Message, Part, Prompt
from penumbra.compress.size import size
from penumbra.conversation import smaller_texts
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import NotJson, decode, encode

BUDGET = 120 * 1024
"""A budget for messages has at least this number of bytes, unless a limit in tokens demands less."""
MESSAGE_BYTES = 8_000
"""A message with more bytes of text gets its texts cut."""
_SHORTENED = 2_900
"""The texts of a larger message get this number of bytes together, but at least `_LEAST_TEXT` each."""
_LEAST_TEXT = 400
_ARGUMENTS = 3_000
_NOTE = 8_000
"""The limit in bytes for the note."""
_EXCERPTS = 12
_EXCERPT = 500
_LEADING = ("system", "developer")


class Compaction(Struct, frozen=True):
    """A `Compaction` is the kind of a request for a summary."""

    id: str
    shares_cache: bool
    """True if the request is the whole conversation and one more message. Its prefix is then cached."""
    prompted: bool
    """True if the last message asks for the summary."""


table = partial(rules.table, "compaction.yaml")


def recognise(
    document: Document, format_name: str, path: str = "", headers: Mapping[str, str] | None = None
) -> Compaction | None:
    """Return the kind of a request for a summary; None for other requests. Header names are in lower case."""
    prompt = REQUESTS[format_name].prompt(document)
    items = document.items(prompt.place)
    if not items:
        return None
    texts = _last_user_texts(document, prompt)
    last = document.string(document.members(items[-1]).get("type"))
    for rule in table()["requests"]:
        if format_name not in rule["formats"]:
            continue
        if (
            ("path" in rule and path.partition("?")[0].rstrip("/").endswith(rule["path"]))
            or ("item" in rule and last == rule["item"])
            or ("metadata" in rule and _has_metadata(document, headers or {}, rule["metadata"]))
            or ("header" in rule and _has_header(headers or {}, rule["header"]))
            or any(matches(text, rule) for text in texts)
        ):
            prompted = "path" not in rule
            # With another system prompt, or with calls but no tools, a request does not begin like the
            # conversation.
            own = _begins(_system(document, prompt), rule.get("system", ()))
            declares = any(document.items(array) for array in prompt.tools)
            own = own or not (declares or not any(message.of(Kind.CALL) for message in prompt.messages))
            return Compaction(rule["id"], shares_cache=prompted and not own, prompted=prompted)
    return None


def matches(text: str, rule: Mapping[str, Any]) -> bool:
    stripped = text.strip()
    ends = tuple(end.lower() for end in rule.get("ends", ()))
    return _begins(stripped, rule.get("starts", ())) or bool(
        ends and stripped[-max(map(len, ends)) :].lower().endswith(ends)
    )


def _begins(text: str, starts: Sequence[str]) -> bool:
    lowered = tuple(start.lower() for start in starts)
    return bool(lowered) and text.lstrip()[: max(map(len, lowered))].lower().startswith(lowered)


def _has_metadata(document: Document, headers: Mapping[str, str], rule: Mapping[str, str]) -> bool:
    top = document.members(document.root)
    metadata = document.members(top.get("client_metadata"))
    for text in (headers.get(rule["header"]), document.string(metadata.get(rule["header"]))):
        try:
            value = decode(text.encode("utf-8", "surrogatepass")) if text else None
        except NotJson:
            continue
        if isinstance(value, dict) and value.get(rule["member"]) == rule["value"]:
            return True
    return False


def _has_header(headers: Mapping[str, str], rule: Mapping[str, str]) -> bool:
    return rule["value"] in [value.strip().lower() for value in headers.get(rule["name"], "").split(",")]


def _system(document: Document, prompt: Prompt) -> str:
    """Return the system prompt, from a separate member or the first message."""
    first = prompt.messages[0]
    parts = prompt.system or (first.parts if first.role in _LEADING else ())
    return "\n".join(_texts_of(document, parts))


def _last_user_texts(document: Document, prompt: Prompt) -> list[str]:
    for message in reversed(prompt.messages):
        if message.role == "user":
            return _texts_of(document, message.parts)
        if message.role in ("assistant", "model"):
            return []
    return []


def _texts_of(document: Document, parts: Iterable[Part]) -> list[str]:
    """Return the texts of a message without its tool results."""
    texts = (text for part in parts if part.kind is Kind.TEXT for text in part.texts)
    return [document.string(text) or "" for text in texts]


# The budget


class _Message(Struct, frozen=True):
    """A `_Message` is one message, its shortened form, and the calls that it makes and answers."""

    source: bytes
    form: bytes
    """The JSON of the shortened message; empty if the message is always left out."""
    calls: frozenset[str]
    results: frozenset[str]
    text: str
    """The text, if the message is the user's; otherwise empty."""
    leads: bool
    """True for a system or developer message. Such messages at the beginning stay."""
    is_prompt: bool
    """True for a message of the user that answers no call."""


def bound(body: bytes, format_name: str, budget: int, *, prompted: bool = True) -> bytes | None:
    """Return a request for a summary with its messages cut to about `budget` bytes of JSON. Return None if
    the provider stores the history or nothing would be saved. With `prompted`, the last message stays, with
    the calls that it answers. Reasoning goes, unless the API needs it there. Raises NotJson."""
    document, wire = Document(body), REQUESTS[format_name]
    items = document.items(wire.prompt(document).place)
    if len(items) < 2 or size_of(document, format_name) <= budget or is_elsewhere(document):
        return None
    parts_of_calls = (
        part for one in wire.prompt(document).messages for part in one.of(Kind.CALL, Kind.RESULT)
    )
    programs = frozenset(wire.pair(part) for part in parts_of_calls if part.by_program)
    messages = [_read(wire, document.source(item), programs) for item in items]
    first = next((n for n, message in enumerate(messages) if not message.leads), 0)
    groups = _groups(messages)
    final = groups.pop() if prompted else range(len(messages), len(messages))
    ends = [messages[n].source for n in final]
    thinking = document.members(wire.thinking(document))
    if document.string(thinking.get("type")) != "enabled":
        # With thinking, the API needs the reasoning before the calls that the last message answers.
        ends[:-1] = [form for source in ends[:-1] if (form := _without_reasoning(wire, source))]
    leads = [messages[n].source for n in range(first)]
    space = budget - sum(map(len, [*leads, *ends])) - _NOTE
    kept: list[range] = []
    for group in reversed([group for group in groups if group.start >= first]):
        cost = sum(len(messages[n].form) + 1 for n in group)
        if cost > space:
            break
        kept.insert(0, group)
        space -= cost
    start = kept[0].start if kept else final.start
    parts = list(leads)
    if start > first:
        gone = [n for n in range(first, final.start) if n < start or not messages[n].form]
        parts.append(wire.user_message(_note(messages, gone)))
    parts += [messages[n].form for group in kept for n in group if messages[n].form]
    made = b",".join(parts + ends)
    place = document.place(items[0])[0], document.place(items[-1])[1]
    document.edits.append(Edit(place[0], place[1], made))
    result = document.render()
    return result if len(result) < len(body) else None


def size_of(document: Document, format_name: str) -> int:
    """Return the size in bytes of the JSON of a request's messages."""
    place = REQUESTS[format_name].prompt(document).place
    return sum(len(memoryview(item)) for item in document.items(place))


def _groups(messages: Sequence[_Message]) -> list[range]:
    """Return groups of messages that stay or go together, such as calls with their results."""
    groups: list[range] = []
    start = 0
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if index > start and (message.is_prompt or not (waiting or message.results)):
            groups.append(range(start, index))
            start, waiting = index, set()
        waiting |= message.calls
        waiting -= message.results
    groups.append(range(start, len(messages)))
    return groups


def _read(wire: ApiFormat, source: bytes, programs: frozenset[str]) -> _Message:
    """Read and shorten a message. `programs` has the calls whose results only programs read."""
    document = Document(source)
    message = wire.message(document, document.root)
    own = _texts_of(document, message.parts)
    results = frozenset(wire.pair(part) for part in message.of(Kind.RESULT))
    if any(part.block is document.root for part in message.of(Kind.REASONING)):
        form = b""
    elif message.opaque or any(_begins(text, table()["summaries"]) for text in own):
        form = source
    else:
        form = _shortened(wire, document, message, programs)
    return _Message(
        source=source,
        form=form,
        calls=frozenset(wire.pair(part) for part in message.of(Kind.CALL, Kind.OTHER) if not part.texts),
        results=results,
        text="\n".join(own).strip() if message.role == "user" else "",
        leads=message.role in _LEADING,
        is_prompt=message.role == "user" and not results,
    )


def _shortened(wire: ApiFormat, document: Document, message: Message, programs: frozenset[str]) -> bytes:
    """Return a message without reasoning, with shorter texts and arguments; empty if all is reasoning."""
    parts = [part for part in message.of(Kind.TEXT, Kind.RESULT) if wire.pair(part) not in programs]
    places = [text for part in parts for text in part.texts]
    texts = [(text, document.string(text) or "") for text in places]
    if sum(size(value) for _, value in texts) > MESSAGE_BYTES:
        limit = max(_SHORTENED // len(texts), _LEAST_TEXT)
        for text, value in texts:
            if (form := smaller_texts.shorten(value, limit)) is not None:
                document.replace(text, form)
    for part in message.of(Kind.CALL):
        if part.arguments is not None and not part.checked:
            _shorten_arguments(document, part.arguments)
    return _without_reasoning(wire, document.render())


def _shorten_arguments(document: Document, arguments: Raw) -> None:
    source = document.source(arguments)
    if len(source) > _ARGUMENTS:
        note = {"_compacted_arguments": f"[{len(source)} bytes of arguments left out]"}
        text = encode(note).decode("utf-8")
        document.replace(arguments, text if document.is_string(arguments) else note)


def _without_reasoning(wire: ApiFormat, source: bytes) -> bytes:
    """Return a message without its blocks of reasoning; empty if the message has no other blocks."""
    document = Document(source)
    blocks, left = wire.blocks(document, document.root), wire.without_reasoning(document, document.root)
    if blocks is None or left is None:
        return source
    document.rewrite(blocks, b"[" + b",".join(left) + b"]")
    return document.render() if left else b""


def _note(messages: Sequence[_Message], gone: Sequence[int]) -> str:
    """Return the note about the missing messages, whose indexes are `gone`."""
    left_out = [messages[n] for n in gone]
    total, missing = (sum(len(message.source) for message in some) for some in (messages, left_out))
    lines = [
        "[Compact input budget applied]",
        "This note is not the user's: older messages were left out so that the request fits.",
        f"Original messages: {len(messages)}. Omitted messages: {len(left_out)}.",
        f"Original chat messages JSON bytes: {total}. Omitted JSON bytes: {missing}.",
    ]
    texts = [message.text for message in left_out if message.text]
    if len(texts) > _EXCERPTS:
        texts = texts[: _EXCERPTS // 3] + texts[-(_EXCERPTS - _EXCERPTS // 3) :]
    if texts:
        lines.append("Omitted user-message excerpts:")
    for text in texts:
        line = "- " + " ".join(text[:_EXCERPT].split())
        if sum(size(part) + 1 for part in lines) + size(line) > _NOTE - 500:
            break
        lines.append(line)
    return "\n".join(lines)
