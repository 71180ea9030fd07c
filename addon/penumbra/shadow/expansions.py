"""Everything about originals that needs the database: what a request gets, what a call is answered.

`prepare` decides about the phantom of a request and puts hidden exchanges back; `texts` answers calls;
`remember` keeps an answer for later requests. The phantom is there from a conversation's first request
on or never: what the provider has cached and bound begins with the tools. So a request whose answers
did not pass through us gets none, unless nothing can be at stake.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from penumbra.failures import place
from penumbra.shadow import answers, expand, phantom, replay
from penumbra.shadow.answers import BEGINNING, Answers, Known, Place, orphan_key, signature_key, text_hash
from penumbra.shadow.answers import key as answer_key
from penumbra.shadow.exchange import Ask, Done
from penumbra.shadow.heard import Heard
from penumbra.shadow.originals import Originals
from penumbra.shadow.refs import Shadows
from penumbra.shadow.replay import History, Replayed
from penumbra.text.size import size
from penumbra.wire.answer import AnswerFormat, Hidden, PhantomCall, Visible
from penumbra.wire.answers import FORMATS
from penumbra.wire.document import Document

_DROP_BETA = "thinking-binding-controls"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Original:
    """A redacted original, and where it came from."""

    text: str
    tool: str = ""
    family: str = ""


Find = Callable[[str], Awaitable[Original | None]]
"""Finds an original of the current request by its reference."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is."""

    principal: bytes
    """Keyed hash of the account; 32 bytes."""
    session: str
    """What all requests of the conversation have in common."""
    opening: str = ""
    """A hash of how it begins: parts of it that change from request to request don't count."""

    def conversation(self) -> bytes:
        """What references and originals are scoped by; 32 bytes."""
        session = self.session.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(session, key=self.principal, digest_size=32, person=b"penumbra opening")
        return digest.digest()


@dataclass(frozen=True, slots=True)
class Terms:
    """What the settings and the headers say."""

    wanted: bool
    """The phantom may be put into a conversation that has none yet. One that has it keeps it."""
    at_stake: bool
    """What the provider may hold of an adopted conversation must not change."""
    hint: bool
    """Shortened texts tell how to ask for the original."""
    betas: str = ""
    """The features that the request asks for in its headers."""
    counting: bool = False
    """The request only counts tokens: it gets no tool, and nothing is recorded."""
    editing: bool = False
    """Values are put back into edits."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request in which the model may ask for originals."""

    wire: AnswerFormat
    tool: str
    """The phantom's name."""
    caller: Caller
    shadows: Shadows
    history: History
    replayed: Replayed
    threaded: bool = False
    """The provider keeps the history."""
    start: Place = BEGINNING
    """Where the answer stands if the request shows none before it."""

    @property
    def before(self) -> str:
        """The id by which the client names the answer that it goes on from; empty if it names none."""
        return self.history.visible[0].answer_id if self.history.is_elsewhere else ""


@dataclass(frozen=True, slots=True)
class Answered:
    """One call of the phantom and its answer, for figures."""

    ref: str
    found: bool
    sent: int
    """Size of the answer, UTF-8 bytes."""
    tool: str
    family: str


@cache
def _say_unread(format_name: str) -> None:
    """Once for each API."""
    _log.warning(
        "Penumbra: the model can't ask for originals, because answers of %s can't be read. "
        "That takes botocore, which comes with penumbra-proxy[bedrock].",
        format_name,
    )


class Expansions:
    """`key` is the installation's; `page_bytes` bounds an answer."""

    def __init__(
        self,
        key: bytes,
        answers: Answers,
        originals: Originals,
        heard: Heard,
        page_bytes: int = expand.PAGE_BYTES,
    ) -> None:
        self._key = key
        self._heard = heard
        self._answers = answers
        self._originals = originals
        self._page_bytes = page_bytes

    async def prepare(
        self, format_name: str, document: Document, caller: Caller, terms: Terms
    ) -> Prepared | None:
        """Edit a request; None if the phantom does not belong there."""
        wire = FORMATS.get(format_name)
        if wire is None:
            _say_unread(format_name)
            return None
        prepared = await self._prepare(wire, format_name, document, caller, terms)
        await self._take_out_orphans(wire, document, caller)
        await self._name_latest(wire, document, caller)
        return prepared

    async def _name_latest(self, wire: AnswerFormat, document: Document, caller: Caller) -> None:
        """Prompts are compared with that of an answer's last turn, which is the longest."""
        named = wire.compared_with(document)
        if named is None or not (answer_id := document.string(named)):
            return
        key = answer_key(caller.principal, Visible(-1, 0, (), "", "", 0, answer_id=answer_id))
        known = (await self._answers.known([key])).get(key)
        if known is not None and known.hidden is not None and known.hidden.answer_id:
            document.replace(named, known.hidden.answer_id)

    async def _take_out_orphans(self, wire: AnswerFormat, document: Document, caller: Caller) -> None:
        """What clients keep of answers that broke off, and the provider refuses ever after."""
        reasoning, scope = wire.reasoning(document), caller.principal
        if not reasoning or not await self._answers.known([orphan_key(scope, "")]):
            return
        keys = {one.index: orphan_key(scope, one.known_by) for one in reasoning}
        known = await self._answers.known(keys.values())
        wire.take_out(document, [index for index, key in keys.items() if key in known])

    async def _prepare(
        self, wire: AnswerFormat, format_name: str, document: Document, caller: Caller, terms: Terms
    ) -> Prepared | None:
        tools = wire.tools(document)
        # What was hidden in one API's answer has no place in another's.
        opening = f"{format_name.removesuffix('_socket')} {caller.opening}"
        history = replay.read(wire, document, caller.principal, opening)
        if phantom.name_for(tools) is None and not history.is_elsewhere:
            return None
        known = await self._answers.known(history.all_keys())
        held = known.get(history.keys[0]) if history.is_elsewhere else None
        name = phantom.name_for(tools) or (held.tool if held else "")
        if not name:
            return None
        if phantom.name_for(tools) is None and (tools.own or not tools.continuable):
            # Nothing may be asked for in this answer, and yet the provider holds what was asked before.
            replay.put_back(wire, document, history, known, offered=False)
            return None
        latest = _latest(history, known)
        if not await self._belongs(history, known, latest, terms):
            return None
        if latest is not None and latest.tool not in tools.names:
            name = latest.tool
        elif latest is None and terms.editing:
            name = phantom.editing_name(name, tools)
        # Tools that stood in the input of a former request are still there for the model.
        if not terms.counting and tools.own:
            wire.declare(document, phantom.tool(name))
        replayed = replay.put_back(wire, document, history, known, _DROP_BETA in terms.betas)
        scope = (latest.conversation if latest else b"") or caller.conversation()
        shadows = Shadows(self._key, scope, name, terms.hint)
        start = _start(held, caller)
        return Prepared(wire, name, caller, shadows, history, replayed, tools.threaded, start)

    async def _belongs(
        self, history: History, known: Mapping[bytes, Known], latest: Known | None, terms: Terms
    ) -> bool:
        """Whether the conversation has the phantom, or may get it."""
        if latest is not None:
            return bool(latest.tool)
        if not terms.wanted:
            return False
        adopted = not all(key in known for key in history.keys)
        lost = history.is_elsewhere and history.keys[0] not in known
        if not adopted or not (terms.at_stake or lost):
            return True
        if not terms.counting:
            # Final too: the next request of this conversation finds it.
            without = Known("", text_hash(history.visible[-1].text))
            await self._answers.record(history.keys[-1], without)
        return False

    async def leave_undecided(self, caller: Caller, answer_id: str) -> None:
        """A request without tools and without a past has got an answer without words."""
        visible = Visible(-1, 0, (), "", "", 0, answer_id=answer_id)
        known = Known("", text_hash(""), undecided=True)
        await self._answers.record(answer_key(caller.principal, visible), known)

    async def keep(self, prepared: Prepared, originals: Mapping[str, str]) -> None:
        """Keep new originals for requests that won't carry them."""
        await self._originals.put(prepared.shadows.scope, originals)

    async def texts(
        self, prepared: Prepared, find: Find, ask: Ask, provided: set[str], limit: int | None = None
    ) -> tuple[list[str], list[Answered]]:
        """The texts for the calls of an Ask. `provided` remembers the queries of one answer; `limit`:
        bytes that the originals among the texts may have together, None: any number."""
        texts: list[str] = []
        answered: list[Answered] = []
        for number, call in enumerate(ask.calls):
            calls = len(ask.calls) - number
            page = self._page_bytes if limit is None else expand.share(self._page_bytes, limit, calls)
            text, original, ref = await self._text(prepared, find, call, ask.refused, provided, page)
            texts.append(text)
            sent = len(text.encode("utf-8", "surrogatepass"))
            limit = None if limit is None else max(0, limit - sent)
            tool, family = (original.tool, original.family) if original else ("", "")
            answered.append(Answered(ref, original is not None, sent, tool, family))
        return texts, answered

    async def _text(
        self, prepared: Prepared, find: Find, call: PhantomCall, refused: bool, provided: set[str], page: int
    ) -> tuple[str, Original | None, str]:
        if refused:
            return expand.REFUSED, None, ""
        query = expand.parse(call.arguments)
        if isinstance(query, str):
            return query, None, ""
        try:
            original = await self._original(prepared, find, query.ref)
        except Exception as error:
            _log.error("penumbra: an original could not be looked up: %s", place(error))
            original = None
        if original is None:
            return expand.unknown(query.ref), None, query.ref
        if query.identity() in provided:
            return expand.PROVIDED, original, query.ref
        most = max(page, expand.LEAST_BYTES)
        text = await asyncio.to_thread(expand.answer, original.text, query, prepared.tool, most)
        if not page and size(text) > size(expand.NO_ROOM):
            return expand.NO_ROOM, original, query.ref
        provided.add(query.identity())
        return text, original, query.ref

    async def _original(self, prepared: Prepared, find: Find, ref: str) -> Original | None:
        found = await find(ref)
        if found is not None:
            return found
        text = await self._originals.get(prepared.shadows.scope, ref)
        return None if text is None else Original(text)

    async def remember(self, prepared: Prepared, done: Done) -> None:
        """Keep an answer, as it will look in the next request."""
        scope, behind = prepared.caller.principal, prepared.replayed.behind
        for known_by in ("", *done.orphans) if done.orphans else ():
            await self._answers.record(orphan_key(scope, known_by), Known("", ""))
        visible = replay.next_answer(prepared.history, done.calls, done.tokens, done.text, prepared.start)
        opening = prepared.start.opening or prepared.history.opening
        key, *others = answers.keys(scope, replace(visible, item=done.item), opening)
        known = Known(prepared.tool, text_hash(visible.text), hidden=done.hidden)
        if done.signed_late and done.hidden is not None:
            behind += (key,)
        if done.signature and behind:
            bound = Known(prepared.tool, "", behind)
            await self._answers.record(signature_key(scope, done.signature), bound)
        for one in (key, *others):
            await self._answers.record(one, known)
        if prepared.threaded and done.ids:
            await self._heard.record(scope, done.made)
            is_empty = not done.calls and not done.text and done.hidden is None
            place = Place(visible.ordinal, visible.last_call, visible.since)
            place = replace(place if is_empty else replay.behind(visible), opening=opening)
            await self._remember_id(prepared, done, place)
        elif done.hidden is not None and done.ids:
            await self._remember_id(prepared, done, BEGINNING)
        if done.calls and not done.sound:
            # Of an answer that broke off, clients keep the text and not the calls.
            words = replace(visible, calls=(), tokens=())
            await self._answers.record(answer_key(scope, words, opening), replace(known, hidden=None))

    async def cleaned(self, text: str) -> str:
        """A text without its secrets. Raises RedactionError."""
        return await self._heard.cleaned(text)

    async def _remember_id(self, prepared: Prepared, done: Done, place: Place) -> None:
        """The next request names an answer by the id that the client has got: of its first turn from a
        stream, of its last turn from a document. Both are kept."""
        results = done.pending or (done.hidden.results if done.hidden else ())
        for answer_id in dict.fromkeys((done.ids[0], done.ids[-1])):
            visible = Visible(-1, 0, (), "", "", 0, answer_id=answer_id)
            hidden = Hidden((), None, results, answer_id=done.ids[-1])
            needed = bool(results) or answer_id != done.ids[-1]
            known = Known(
                prepared.tool,
                text_hash(""),
                hidden=hidden if needed else None,
                conversation=prepared.shadows.scope,
                place=place,
            )
            await self._answers.record(answer_key(prepared.caller.principal, visible), known)


def _latest(history: History, known: Mapping[bytes, Known]) -> Known | None:
    """What is known of the last answer that says whether the phantom is there."""
    found = (known[key] for key in reversed(history.keys) if key in known)
    return next((one for one in found if not one.undecided), None)


def _start(held: Known | None, caller: Caller) -> Place:
    """Where the answer stands if only the provider knows what came before."""
    if held is None:
        return BEGINNING
    begins_here = replace(held.place, opening="") == BEGINNING and caller.opening != text_hash("")
    return BEGINNING if begins_here else held.place
