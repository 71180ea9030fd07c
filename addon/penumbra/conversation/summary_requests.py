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
from penumbra.apis import gemini
from penumbra.apis.parts import joined_text, string_values, text_values
from penumbra.compress.size import size
from penumbra.conversation import shrink_result
from penumbra.wire.document import Document, Edit, NotJson, decode, encode

BUDGET = 120 * 1024
"""Bytes of JSON that the messages may have at least, where nothing asks for less."""
MESSAGE_BYTES = 8_000
"""What the texts of one message may have together."""
_SHORTENED = 2_900
"""Bytes that stay of the texts of a larger message."""
_LEAST_TEXT = 400
_ARGUMENTS = 3_000
_NOTE = 8_000
"""Bytes that the note may have."""
_EXCERPTS = 12
_EXCERPT = 500
_TEXTS = ("text", "input_text", "output_text")
_MESSAGES = {"openai_responses": "input", "gemini": "contents"}
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "reasoningContent")
_ELSEWHERE = ("previous_response_id", "thread")
"""Members of requests whose history is at the provider: what travels can't stand alone."""
_OPAQUE = ("compaction", "compaction_summary", "compaction_trigger")


@dataclass(frozen=True, slots=True)
class Compaction:
    """A request that has a history summarised."""

    id: str
    shares_cache: bool
    """It is the agent's own prompt with one more message, so its prefix is cached."""
    prompted: bool
    """Its last message is what asks for the summary."""


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
            or ("header" in rule and _names(headers or {}, rule["header"]))
            or any(matches(text, rule) for text in texts)
        ):
            prompted = "path" not in rule
            own = _begins(_system(document), rule.get("system", ())) or _lacks_tools(document, items)
            return Compaction(rule["id"], shares_cache=prompted and not own, prompted=prompted)
    return None


def _lacks_tools(document: Document, items: Sequence[Raw]) -> bool:
    """Calls stand in the history, and no tool is declared: the agent's own prompt declares some."""
    members = gemini.inner(document)
    if document.items(members.get("tools")) or "toolConfig" in members:
        return False
    messages = [document.members(item) for item in items]
    kinds = [document.string(message.get("type")) or "" for message in messages]
    if "additional_tools" in kinds:
        return False
    return any(_pairs(document, *one)[0] for one in zip(messages, kinds, strict=True))


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


def _names(headers: Mapping[str, str], rule: Mapping[str, str]) -> bool:
    return rule["value"] in [value.strip().lower() for value in headers.get(rule["name"], "").split(",")]


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
    yield from _plain_texts(document, message.get("content"))
    yield from _part_texts(document, message)


def _plain_texts(document: Document, content: Raw | None) -> Iterator[Raw]:
    """The texts of blocks that have no type, as Converse writes them."""
    for item in document.items(content):
        block = document.members(item)
        text = block.get("text")
        if "type" not in block and text is not None and document.is_string(text):
            yield text


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


def bound(body: bytes, format_name: str, budget: int, *, prompted: bool = True) -> bytes | None:
    """A compaction request whose messages have at most `budget` bytes of JSON, where that can be had.

    None if it is within the budget, or if its history is at the provider. `prompted`: its last message, and
    the calls whose results stand in it, stay as they are. Reasoning is left out, since what stands before
    it changes. Raises NotJson.
    """
    document = Document(body)
    items = _messages(document, format_name)
    if len(items) < 2 or size_of(document, format_name) <= budget or _is_elsewhere(document):
        return None
    messages = [_read(document, item) for item in items]
    first = next((n for n, message in enumerate(messages) if not message.leads), 0)
    groups = _groups(messages)
    final = groups.pop() if prompted else range(len(messages), len(messages))
    ends = [messages[n].source for n in final]
    if not _needs_thoughts(document):
        ends[:-1] = [form for source in ends[:-1] if (form := _without_thoughts(source))]
    leads = [messages[n].source for n in range(first)]
    room = budget - sum(map(len, [*leads, *ends])) - _NOTE
    kept: list[range] = []
    for group in reversed([group for group in groups if group.start >= first]):
        cost = sum(len(messages[n].form) + 1 for n in group)
        if cost > room:
            break
        kept.insert(0, group)
        room -= cost
    start = kept[0].start if kept else final.start
    parts = list(leads)
    if start > first:
        gone = [n for n in range(first, final.start) if n < start or not messages[n].form]
        parts.append(_note_message(format_name, _note(messages, gone)))
    parts += [messages[n].form for group in kept for n in group if messages[n].form]
    made = b",".join(parts + ends)
    place = document.place(items[0])[0], document.place(items[-1])[1]
    document.edits.append(Edit(place[0], place[1], made))
    result = document.render()
    return result if len(result) < len(body) else None


def _is_elsewhere(document: Document) -> bool:
    top = document.members(document.root)
    return any(name in top for name in _ELSEWHERE)


def _needs_thoughts(document: Document) -> bool:
    """Whether the call that is under way must begin with its reasoning."""
    thinking = document.members(document.members(document.root).get("thinking"))
    return document.string(thinking.get("type")) == "enabled"


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
        for name, found in (("toolUse", calls), ("toolResult", answers)):
            if name in entry:
                found.add(one.string(one.members(entry[name]).get("toolUseId")) or "")
    for part in one.items(members.get("parts")):
        entry = one.members(part)
        for name, found in (("functionCall", calls), ("functionResponse", answers)):
            if (value := gemini.member(entry, name)) is not None:
                called = one.members(value)
                found.add(one.string(called.get("id")) or one.string(called.get("name")) or "")
    return frozenset(calls), frozenset(answers)


def _shortened(one: Document, members: Mapping[str, Raw]) -> bytes:
    """A message without reasoning, its long texts and arguments shortened; empty: nothing is left."""
    texts = [(text, one.string(text) or "") for text in (*_own_texts(one, members), *_results(one, members))]
    if sum(size(value) for _, value in texts) > MESSAGE_BYTES:
        limit = max(_SHORTENED // len(texts), _LEAST_TEXT)
        for text, value in texts:
            if (form := shrink_result.shorten(value, limit)) is not None:
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
    left = [one.source(block) for block in blocks if not _is_thought(one.members(block), one)]
    if content is None or len(left) == len(blocks):
        return source
    start, end = one.place(content)
    return one.data[:start] + b"[" + b",".join(left) + b"]" + one.data[end:] if left else b""


def _is_thought(block: Mapping[str, Raw], one: Document) -> bool:
    return one.string(block.get("type")) in _THOUGHTS or any(name in block for name in _THOUGHTS)


def _results(one: Document, members: Mapping[str, Raw]) -> Iterator[Raw]:
    for block in one.items(members.get("content")):
        entry = one.members(block)
        if one.string(entry.get("type")) == "tool_result":
            yield from text_values(one, entry.get("content"))
        yield from _plain_texts(one, one.members(entry.get("toolResult")).get("content"))
    yield from text_values(one, members.get("output"), _TEXTS)
    for part in one.items(members.get("parts")):
        response = one.members(gemini.member(one.members(part), "functionResponse"))
        yield from string_values(one, response.get("response"))


def _arguments(one: Document, members: Mapping[str, Raw]) -> Iterator[Raw]:
    for name in ("arguments", "input"):
        if "call_id" in members and name in members:
            yield members[name]
    for call in one.items(members.get("tool_calls")):
        function = one.members(one.members(call).get("function"))
        if "arguments" in function:
            yield function["arguments"]
    for block in one.items(members.get("content")):
        entry = one.members(block)
        if one.string(entry.get("type")) == "tool_use" and "input" in entry:
            yield entry["input"]
        called = one.members(entry.get("toolUse"))
        if "input" in called:
            yield called["input"]
    for part in one.items(members.get("parts")):
        called = one.members(gemini.member(one.members(part), "functionCall"))
        if "args" in called:
            yield called["args"]


def _note(messages: Sequence[_Message], gone: Sequence[int]) -> str:
    """What stands in the place of the messages that were left out, those of these indexes."""
    left_out = [messages[n] for n in gone]
    total, missing = (sum(len(message.source) for message in some) for some in (messages, left_out))
    lines = [
        "[Compact input budget applied]",
        "This note is not the user's: older messages were left out so that the request fits.",
        f"Original messages: {len(messages)}. Omitted messages: {len(left_out)}.",
        f"Original chat messages JSON bytes: {total}. Omitted JSON bytes: {missing}.",
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
