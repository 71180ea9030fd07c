"""`:penumbra.*` commands about flows and what is remembered: explain, expand, export, forget."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence

from mitmproxy import command, exceptions, flow, http, types

from penumbra.errors import one_line, place
from penumbra.explain.result_facts import ResultMemory
from penumbra.flow.explainer import Explainer
from penumbra.flow.page.contents import Contents
from penumbra.flow.page.texts import Texts

_EVERYTHING = "everything"
_TABLES = ("days", "conversations", "turns", "results")
_NONE_HELD = "none is, and there are some only where penumbra_page_originals=on, of results since then"
_log = logging.getLogger(__name__)


class FlowCommands:
    """A child addon: mitmproxy finds commands on addons only."""

    def __init__(
        self,
        explainer: Explainer,
        memory: ResultMemory,
        texts: Texts,
        contents: Contents,
        forget: Callable[[], None],
    ) -> None:
        """`forget` empties the store, or raises CommandError."""
        self._explainer = explainer
        self._memory = memory
        self._texts = texts
        self._contents = contents
        self._forget = forget
        self._tasks: set[asyncio.Task[None]] = set()

    @command.command("penumbra.explain")
    def explain(self, flows: Sequence[flow.Flow]) -> Sequence[str]:
        """What was made of the requests of flows, and what came back: the text of the view Penumbra."""
        text: list[str] = []
        for each in flows:
            if isinstance(each, http.HTTPFlow):
                text += [*([""] if text else ()), *(line.text for line in self._explainer.of_flow(each))]
        return text

    @command.command("penumbra.references")
    def references(self) -> Sequence[str]:
        """The references whose originals penumbra.expand can show: none unless penumbra_page_originals=on."""
        numbers = self._memory.references()
        return sorted(ref for ref, number in numbers.items() if self._texts.get(number) is not None)

    @command.command("penumbra.expand")
    def expand(self, reference: str) -> Sequence[str]:
        """The original behind a reference, without its secrets."""
        # No choice of mitmproxy's: of another one it says nothing but that it is none.
        pair = self._texts.get(self._memory.references().get(reference, 0))
        if pair is None:
            held = len(self.references())
            where = f"penumbra.references lists the {held:,} that are" if held else _NONE_HELD
            raise exceptions.CommandError(f"no original is held for {one_line(reference)!r}: {where}")
        return [one_line(line.replace("\t", "    ")) for line in pair[0].split("\n")]

    @command.command("penumbra.tables")
    def tables(self) -> Sequence[str]:
        """What penumbra.export can write."""
        return [_EVERYTHING, *_TABLES]

    @command.command("penumbra.export")
    @command.argument("table", type=types.Choice("penumbra.tables"))
    def export(self, table: str, path: types.Path) -> None:
        """Write figures to a file: everything as JSON, or one of penumbra.tables as CSV."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise exceptions.CommandError(f"{path}: {error.strerror}") from None
        task = asyncio.get_running_loop().create_task(self._export(table, path, descriptor))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _export(self, table: str, path: str, descriptor: int) -> None:
        try:
            with os.fdopen(descriptor, "wb") as file:
                if table == _EVERYTHING:
                    data = await self._contents.everything()
                else:
                    data = (await self._contents.table(table) or "").encode("utf-8", "replace")
                await asyncio.to_thread(file.write, data)
        except Exception as error:
            _log.error(f"Penumbra: {table} is not written to {path}: {place(error)}")
        else:
            _log.info(f"Penumbra: {table} written to {path}")

    @command.command("penumbra.forget")
    def forget(self) -> None:
        """Forget all that is kept of conversations, in memory and on disk, but for their figures."""
        self._forget()
        self._texts.clear()
        self._memory.clear()
        _log.warning(
            "Penumbra has forgotten what it kept of conversations. One that goes on sends earlier results "
            "as they come: the provider's cache is written again once, and thinking that is bound to the "
            "earlier forms may be refused."
        )
