"""This module makes the page's data as JSON and CSV. With `penumbra_page_originals=on`, the module also keeps
the original and sent texts of the latest results in memory, without secrets."""

from __future__ import annotations

import asyncio
import csv
import io
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from cachetools import LRUCache

from penumbra import errors
from penumbra.conversation.incoming import Accepted
from penumbra.conversation.model import Shown
from penumbra.explain import request_text
from penumbra.flow.current_settings import EngineHandle
from penumbra.metrics import exposition, overview
from penumbra.metrics.journal import Journal
from penumbra.metrics.sessions import ResultRecord
from penumbra.redaction.ruleset import in_words

_MOST_CHARACTERS = 32_000_000
_LONGEST = 2_000_000
"""Length in characters of the longest text that is kept."""
_MOST_AT_ONCE = 200
"""Greatest number of results whose texts are read at the same time. Texts of further results are not kept."""
_log = logging.getLogger(__name__)
Pair = tuple[str, str]


class Texts:
    """A `Texts` has pairs of texts, original and sent, by the number of their result."""

    def __init__(self) -> None:
        self._pairs: LRUCache[int, Pair] = LRUCache(
            _MOST_CHARACTERS, lambda pair: len(pair[0]) + len(pair[1])
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._cleared = 0

    def get(self, number: int) -> Pair | None:
        """Return the original without its secrets, and the sent text; None if the pair is not kept."""
        return self._pairs.get(number)

    def clear(self) -> None:
        """Drop all texts, including those that are being read."""
        self._pairs.clear()
        self._cleared += 1

    def keep(self, handle: EngineHandle, accepted: Accepted, results: Sequence[ResultRecord]) -> None:
        """Keep the texts of a request's new results. The request does not wait."""
        new = [entry for entry in accepted.rewritten.shown if entry.new]
        pairs = [
            (result.number, entry)
            for result, entry in zip(results, new, strict=False)
            if len(entry.item.text) <= _LONGEST
        ]
        if pairs and self._count + len(pairs) <= _MOST_AT_ONCE:
            self._count += len(pairs)
            task = asyncio.get_running_loop().create_task(
                self._keep(handle.share(), accepted, pairs, self._cleared)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _keep(
        self, handle: EngineHandle, accepted: Accepted, pairs: list[tuple[int, Shown]], cleared: int
    ) -> None:
        with handle:
            for number, entry in pairs:
                try:
                    before, after = await handle.engine.shown_texts(accepted, entry)
                    if cleared == self._cleared and len(before) + len(after) <= _MOST_CHARACTERS:
                        self._pairs[number] = before, after
                except Exception as error:
                    _log.debug("Penumbra has no text of a result to show: %s", errors.place(error))
                finally:
                    self._count -= 1


HISTORY_DAYS = 30
_TURNS_AT_ONCE = 50
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Contents:
    """A `Contents` makes the page's data. `process` describes the proxy, `handle` has its store, and `write`
    stores new figures."""

    journal: Journal
    texts: Texts
    process: Callable[[], Record]
    handle: Callable[[], EngineHandle]
    write: Callable[[], None]

    async def data(self, of: str, name: str = "") -> Record | list[Record] | None:
        """Return data of one kind for the page; None if there is none. `name` names a session or a result."""
        if of == "session":
            return overview.session(self.journal, name)
        if of == "result":
            return await self._result(int(name)) if name.isdecimal() else None
        if of in ("past", "unused"):
            return await self._of_days(overview.past if of == "past" else overview.unused_tools)
        return self._now() if of == "now" else overview.sessions(self.journal)

    def _now(self) -> Record:
        return {**self.process(), **overview.overview(self.journal)}

    async def _of_days(self, make: Callable[[dict[str, Record]], list[Record]]) -> list[Record]:
        """Return the result of `make` for the days of the history, which include all figures up to now."""
        self.write()
        with self.handle() as handle:
            days = await asyncio.wrap_future(handle.engine.history.last(HISTORY_DAYS))
        return await asyncio.to_thread(make, days)

    def exposition(self) -> str:
        """Return all figures for Prometheus."""
        with self.handle() as handle:
            shared, database = handle.engine.shared, handle.engine.database.samples()
        return exposition.text(self.journal, shared.samples() if shared is not None else None, database)

    async def _result(self, number: int) -> Record | None:
        """Return one result, with its original and sent text if they are kept; None if unknown."""
        found = self.journal.sessions.result(number)
        if found is None:
            return None
        kinds = {kind: in_words(kind) for kind in found.secrets}
        record = {**found.record(), "rows": None, "is_cut": False, "kinds": kinds}
        if (pair := self.texts.get(number)) is not None:
            # The event loop must not wait for this work, so it runs in a thread.
            compared = await asyncio.to_thread(request_text.compare, *pair)
            record |= {"rows": compared.rows, "is_cut": compared.is_cut}
        return record

    async def everything(self) -> bytes:
        """Return the current figures, the days and the conversations as JSON."""
        # Each value is encoded by a separate call, since no other thread can run during a call.
        conversations = [
            orjson.Fragment(await asyncio.to_thread(orjson.dumps, each))
            for each in await self._conversations()
        ]
        all_of_it = {
            **self._now(),
            "days": await self._of_days(overview.past),
            "conversations": conversations,
        }
        return await asyncio.to_thread(orjson.dumps, all_of_it)

    async def table(self, of: str) -> str | None:
        """Return a table as CSV: `days`, `conversations`, `turns` or `results`; None for any other name."""
        if (rows := _ROWS.get(of)) is None:
            return None
        is_past = of in ("days", "conversations")
        records = await (self._of_days(overview.past) if is_past else self._conversations())
        return await asyncio.to_thread(lambda: _csv(rows(records)))

    async def _conversations(self) -> list[Record]:
        """Return the conversations since the start with their turns. Other tasks run after every few turns,
        so that requests don't wait."""
        conversations = []
        for session in list(self.journal.sessions):
            turns: list[Record] = []
            for turn in list(session.turns):
                turns.append(turn.record())
                if len(turns) % _TURNS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            conversations.append(overview.with_turns(session, turns))
            await asyncio.sleep(0)
        return conversations


def _days(days: list[Record]) -> Iterator[Record]:
    for day in days:
        yield _flat({"day": day["day"]}, day["amounts"])


def _past_conversations(days: list[Record]) -> Iterator[Record]:
    for day in days:
        for each in day["conversations"]:
            named = {"conversation": each["id"], "agent": each["agent"], "project": each["project"]}
            yield _flat({"day": day["day"], **named}, each["amounts"])


def _turns(conversations: list[Record]) -> Iterator[Record]:
    for conversation in conversations:
        for turn in conversation["turns"]:
            yield _flat({"conversation": conversation["id"], **_plain(turn)}, turn["amounts"])


def _results(conversations: list[Record]) -> Iterator[Record]:
    for conversation in conversations:
        for turn in conversation["turns"]:
            of = {"conversation": conversation["id"], "turn": turn["number"], "time": turn["time"]}
            for result in turn["results"]:
                yield {**of, **_plain(result)}


_ROWS: Mapping[str, Callable[[list[Record]], Iterator[Record]]] = {
    "days": _days,
    "conversations": _past_conversations,
    "turns": _turns,
    "results": _results,
}


def _plain(record: Record) -> Record:
    """Return the values of a record that fit into a cell. A pair becomes two cells."""
    plain: Record = {}
    for name, value in record.items():
        if isinstance(value, str | int | float):
            plain[name] = value
        elif name in ("bytes", "tokens", "body"):
            plain |= {f"{name}_before": value[0], f"{name}_after": value[1]}
        elif name == "stages":
            plain[name] = " ".join(value)
        elif name == "secrets":
            plain[name] = sum(value.values())
        elif name == "miss":
            plain |= {"miss": value["cause"] if value else "", "missed": value["tokens"] if value else 0}
    return plain


def _flat(record: Record, amounts: Record) -> Record:
    return {**record, **{name: value for name, value in amounts.items() if isinstance(value, int | float)}}


def _csv(rows: Iterable[Record]) -> str:
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval=0)
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Return a cell that no spreadsheet runs as a formula, since names come from clients."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
