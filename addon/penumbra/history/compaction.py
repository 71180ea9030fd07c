"""Requests that have an agent's history summarised: recognised, and bounded where they would not fit.

Such a request fails when it is needed most: at the limit. A bounded one keeps its last message to the byte,
then the newest messages, tool calls together with their results, then a note that says how much is missing
and quotes what the user said there. Summaries of earlier rounds stay whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec import Raw

from penumbra import rules
from penumbra.recovery import forms
from penumbra.text.size import size
from penumbra.wire import gemini
from penumbra.wire.conversation import joined_text, string_values, text_values
from penumbra.wire.document import Document, Edit, NotJson, decode, encode

MESSAGE_CHARACTERS = 8_000
_SHORTENED = 2_900
"""Bytes that stay of a longer text."""
_ARGUMENTS = 3_000
_NOTE = 8_000
"""Bytes that the note may have."""
_EXCERPTS = 12
_EXCERPT = 500
_TEXTS = ("text", "input_text", "output_text")
_MESSAGES = {"openai_responses": "input", "gemini": "contents"}
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_OPAQUE = ("compaction", "compaction_summary", "compaction_trigger")


@dataclass(frozen=True, slots=True)
class Compaction:
    """A request that has a history summarised."""

    id: str
    shares_cache: bool
    """It is the agent's own prompt with one more message, so its prefix is cached."""


@cache
def table() -> Mapping[str, Any]:
    """The content of rules/compaction.yaml."""
    loaded: dict[str, Any] = rules.load("compaction.yaml")
    return loaded


def recognise(
    document: Document, format_name: str, path: str = "", headers: Mapping[str, str] | None = None
) -> Compaction | None:
    """What kind of compaction request it is; None if it is none. Header names are in lower case."""
    items = _messages(document, format_name)
    if not items:
        return None
    texts = _last_user_texts(document, items)
    last = document.string(document.members(items[-1]).get("type"))
    for rule in table()["requests"]:
        if format_name not in rule["formats"]:
            continue
        if (
            ("path" in rule and path.partition("?")[0].rstrip("/").endswith(rule["path"]))
            or ("item" in rule and last == rule["item"])
            or ("metadata" in rule and _says(document, headers or {}, rule["metadata"]))
            or any(matches(text, rule) for text in texts)
        ):
            own = _begins(_system(document), rule.get("system", ()))
            return Compaction(rule["id"], shares_cache=not own and "path" not in rule)
    return None


def matches(text: str, rule: Mapping[str, Any]) -> bool:
    """Whether a text of the last user message says so."""
    stripped = text.strip()
    ends = tuple(end.lower() for end in rule.get("ends", ()))
    return _begins(stripped, rule.get("starts", ())) or bool(
        ends and stripped[-max(map(len, ends)) :].lower().endswith(ends)
    )


def _begins(text: str, starts: Sequence[str]) -> bool:
    lowered = tuple(start.lower() for start in starts)
    return bool(lowered) and text.lstrip()[: max(map(len, lowered))].lower().startswith(lowered)


def _says(document: Document, headers: Mapping[str, str], rule: Mapping[str, str]) -> bool:
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


def _messages(document: Document, format_name: str) -> list[Raw]:
    members = gemini.inner(document) if format_name == "gemini" else document.members(document.root)
    return document.items(members.get(_MESSAGES.get(format_name, "messages")))


def _system(document: Document) -> str:
    members = gemini.inner(document)
    for name in ("system", "instructions"):
        if text := joined_text(document, members.get(name)):
            return text
    value = document.members(gemini.member(members, "systemInstruction"))
    if text := "\n".join(document.string(one) or "" for one in _part_texts(document, value)):
        return text
    first = document.items(members.get("messages"))[:1]
    message = document.members(first[0]) if first else {}
    role = document.string(message.get("role"))
    return joined_text(document, message.get("content")) if role in ("system", "developer") else ""


def _part_texts(document: Document, message: Mapping[str, Raw]) -> Iterator[Raw]:
    for part in document.items(message.get("parts")):
        text = document.members(part).get("text")
        if text is not None and document.is_string(text):
            yield text


def _own_texts(document: Document, message: Mapping[str, Raw]) -> Iterator[Raw]:
    """The texts of a message itself, results left out."""
    yield from text_values(document, message.get("content"), _TEXTS)
    yield from _part_texts(document, message)


def _last_user_texts(document: Document, items: Sequence[Raw]) -> list[str]:
    for item in reversed(items):
        message = document.members(item)
        if document.string(message.get("role")) == "user":
            return [document.string(text) or "" for text in _own_texts(document, message)]
        if document.string(message.get("role")) in ("assistant", "model"):
            return []
    return []


# The budget


@dataclass(frozen=True, slots=True)
class _Message:
    """One message, shortened, with the calls that it makes and answers."""

    source: bytes
    form: bytes
    """Empty: it is left out in any case."""
    calls: frozenset[str]
    answers: frozenset[str]
    text: str
    """What a user said in it; empty for all else."""
    leads: bool
    """A system message at the beginning: it stays."""
    says: bool
    """It is a user's, and answers nothing."""


def bound(body: bytes, format_name: str, budget: int) -> bytes | None:
    """A compaction request whose messages have at most `budget` bytes of JSON, where that can be had.

    None if it is within the budget. Its last message, and the calls whose results stand in it, stay as they
    are; reasoning is left out, since what stands before it changes. Raises NotJson.
    """
    document = Document(body)
    items = _messages(document, format_name)
    if len(items) < 2 or size_of(document, format_name) <= budget:
        return None
    messages = [_read(document, item) for item in items]
    groups = _groups(messages)
    final = groups[-1]
    first = next((n for n, message in enumerate(messages) if not message.leads), 0)
    room = budget - sum(len(messages[n].source) for n in (*range(first), *final)) - _NOTE
    kept: list[range] = []
    for group in reversed([group for group in groups[:-1] if group.start >= first]):
        cost = sum(len(messages[n].form) + 1 for n in group)
        if cost > room:
            break
        kept.insert(0, group)
        room -= cost
    start = kept[0].start if kept else final.start
    parts = [messages[n].source for n in range(first)]
    if start > first:
        note = _note(messages[first:start], len(items), sum(len(message.source) for message in messages))
        parts.append(_note_message(format_name, note))
    parts += [messages[n].form for group in kept for n in group if messages[n].form]
    parts += [form for n in final[:-1] if (form := _without_thoughts(messages[n].source))]
    parts.append(messages[-1].source)
    made = b"[" + b",".join(parts) + b"]"
    place = document.place(items[0])[0], document.place(items[-1])[1]
    document.edits.append(Edit(place[0], place[1], made[1:-1]))
    result = document.render()
    return result if len(result) < len(body) else None


def size_of(document: Document, format_name: str) -> int:
    """Bytes of JSON that a request's messages have together."""
    return sum(len(memoryview(item)) for item in _messages(document, format_name))


def _groups(messages: Sequence[_Message]) -> list[range]:
    """Runs of messages that only stay together: calls with their results."""
    groups: list[range] = []
    start = 0
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if index > start and (message.says or not (waiting or message.answers)):
            groups.append(range(start, index))
            start, waiting = index, set()
        waiting |= message.calls
        waiting -= message.answers
    groups.append(range(start, len(messages)))
    return groups


def _read(document: Document, item: Raw) -> _Message:
    source = document.source(item)
    one = Document(source)
    members = one.members(one.root)
    role = one.string(members.get("role")) or ""
    kind = one.string(members.get("type")) or ""
    calls, answers = _pairs(one, members, kind)
    own = [one.string(text) or "" for text in _own_texts(one, members)]
    is_user = role == "user" and not answers
    if kind in _THOUGHTS:
        form = b""
    elif kind in _OPAQUE or any(_begins(text, table()["summaries"]) for text in own):
        form = source
    else:
        form = _shortened(one, members)
    return _Message(
        source=source,
        form=form,
        calls=calls,
        answers=answers,
        text="\n".join(own).strip() if role == "user" else "",
        leads=role in ("system", "developer"),
        says=is_user,
    )


def _pairs(one: Document, members: Mapping[str, Raw], kind: str) -> tuple[frozenset[str], frozenset[str]]:
    """Ids of the calls in a message, and of those that it answers."""
    calls: set[str] = set()
    answers: set[str] = set()
    own = one.string(members.get("call_id")) or one.string(members.get("id")) or ""
    if kind.endswith("_call_output"):
        answers.add(own)
    elif kind.endswith("_call"):
        calls.add(own)
    if one.string(members.get("role")) in ("tool", "function"):
        answers.add(one.string(members.get("tool_call_id")) or "")
    for call in one.items(members.get("tool_calls")):
        calls.add(one.string(one.members(call).get("id")) or "")
    for block in one.items(members.get("content")):
        entry = one.members(block)
        if one.string(entry.get("type")) == "tool_use":
            calls.add(one.string(entry.get("id")) or "")
        elif one.string(entry.get("type")) == "tool_result":
            answers.add(one.string(entry.get("tool_use_id")) or "")
    for part in one.items(members.get("parts")):
        entry = one.members(part)
        for name, found in (("functionCall", calls), ("functionResponse", answers)):
            if (value := gemini.member(entry, name)) is not None:
                called = one.members(value)
                found.add(one.string(called.get("id")) or one.string(called.get("name")) or "")
    return frozenset(calls), frozenset(answers)


def _shortened(one: Document, members: Mapping[str, Raw]) -> bytes:
    """A message without reasoning, its long texts and arguments shortened; empty: nothing is left."""
    for text in (*_own_texts(one, members), *_results(one, members)):
        value = one.string(text) or ""
        if len(value) > MESSAGE_CHARACTERS and (form := forms.shorten(value, _SHORTENED)) is not None:
            one.replace(text, form)
    for arguments in _arguments(one, members):
        source = one.source(arguments)
        if len(source) > _ARGUMENTS:
            note = {"_compacted_arguments": f"[{len(source)} bytes of arguments left out]"}
            one.replace(arguments, encode(note).decode("utf-8") if one.is_string(arguments) else note)
    return _without_thoughts(one.render())


def _without_thoughts(source: bytes) -> bytes:
    """A message without its blocks of reasoning; empty: nothing is left."""
    one = Document(source)
    content = one.members(one.root).get("content")
    blocks = one.items(content)
    left = [
        one.source(block) for block in blocks if one.string(one.members(block).get("type")) not in _THOUGHTS
    ]
    if content is None or len(left) == len(blocks):
        return source
    start, end = one.place(content)
    return one.data[:start] + b"[" + b",".join(left) + b"]" + one.data[end:] if left else b""


def _results(one: Document, members: Mapping[str, Raw]) -> Iterator[Raw]:
    for block in one.items(members.get("content")):
        entry = one.members(block)
        if one.string(entry.get("type")) == "tool_result":
            yield from text_values(one, entry.get("content"))
    yield from text_values(one, members.get("output"), _TEXTS)
    for part in one.items(members.get("parts")):
        response = one.members(gemini.member(one.members(part), "functionResponse"))
        yield from string_values(one, response.get("response"))


def _arguments(one: Document, members: Mapping[str, Raw]) -> Iterator[Raw]:
    if "call_id" in members and "arguments" in members:
        yield members["arguments"]
    for call in one.items(members.get("tool_calls")):
        function = one.members(one.members(call).get("function"))
        if "arguments" in function:
            yield function["arguments"]
    for block in one.items(members.get("content")):
        entry = one.members(block)
        if one.string(entry.get("type")) == "tool_use" and "input" in entry:
            yield entry["input"]
    for part in one.items(members.get("parts")):
        called = one.members(gemini.member(one.members(part), "functionCall"))
        if "args" in called:
            yield called["args"]


def _note(left_out: Sequence[_Message], total: int, total_bytes: int) -> str:
    """What stands in the place of the messages that were left out."""
    gone = sum(len(message.source) for message in left_out)
    lines = [
        "[Compact input budget applied]",
        "This note is not the user's: older messages were left out so that the request fits.",
        f"Original messages: {total}. Omitted messages: {len(left_out)}.",
        f"Original chat messages JSON bytes: {total_bytes}. Omitted JSON bytes: {gone}.",
    ]
    said = [message.text for message in left_out if message.text]
    if len(said) > _EXCERPTS:
        said = said[: _EXCERPTS // 3] + said[-(_EXCERPTS - _EXCERPTS // 3) :]
    if said:
        lines.append("Omitted user-message excerpts:")
    for text in said:
        line = "- " + " ".join(text[:_EXCERPT].split())
        if sum(size(one) + 1 for one in lines) + size(line) > _NOTE - 500:
            break
        lines.append(line)
    return "\n".join(lines)


def _note_message(format_name: str, note: str) -> bytes:
    if format_name == "gemini":
        return encode({"role": "user", "parts": [{"text": note}]})
    if format_name == "openai_responses":
        return encode({"type": "message", "role": "user", "content": [{"type": "input_text", "text": note}]})
    if format_name == "bedrock":
        return encode({"role": "user", "content": [{"text": note}]})
    return encode({"role": "user", "content": note})
