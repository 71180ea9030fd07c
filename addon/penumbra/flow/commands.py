"""`:penumbra.*` commands, for mitmproxy's console, mitmweb and other addons; only addons have commands."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Sequence

from mitmproxy import command, ctx, exceptions, flow, http, types

from penumbra.errors import one_line, place
from penumbra.explain.result_facts import ResultMemory
from penumbra.flow.explainer import Explainer
from penumbra.flow.page.contents import Contents
from penumbra.flow.page.texts import Texts
from penumbra.metrics.totals import ExpansionMetrics, Metrics

_EVERYTHING = "everything"
_TABLES = ("days", "conversations", "turns", "results")
_NONE_HELD = "none is, and there are some only where penumbra_page_originals=on, of results since then"
_log = logging.getLogger(__name__)


class Commands:
    """A child addon: pause, resume, stats, expansions."""

    def __init__(
        self,
        metrics: Metrics,
        expansions: ExpansionMetrics,
        changed: Callable[[], None],
        is_paused: Callable[[], bool],
    ) -> None:
        """`changed` is called when there is something new to be told."""
        self._metrics = metrics
        self._expansions = expansions
        self._changed = changed
        self._is_paused = is_paused

    def running(self) -> None:
        """From now on, signals do what commands do; not on systems that have none, or in another thread."""
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGUSR1, self._toggle)
            loop.add_signal_handler(signal.SIGUSR2, self.resume)

    @command.command("penumbra.pause")
    def pause(self) -> None:
        """Have requests go through as they come, but for secrets."""
        self.switch(is_on=True)

    @command.command("penumbra.resume")
    def resume(self) -> None:
        """End a pause."""
        self.switch(is_on=False)

    def switch(self, *, is_on: bool) -> None:
        """Begin or end a pause."""
        ctx.options.update(penumbra_pause="true" if is_on else "false")
        _log.warning("Penumbra pauses: only secrets are taken out." if is_on else "Penumbra goes on.")
        self._changed()

    def _toggle(self) -> None:
        self.switch(is_on=not self._is_paused())

    @command.command("penumbra.stats")
    def stats(self) -> str:
        """What Penumbra has done since it was started."""
        return "\n".join(self._metrics.lines())

    @command.command("penumbra.expansions")
    def expansions(self) -> str:
        """How often the model asked for what was left out, and what that cost."""
        return "\n".join(self._expansions.lines(self._metrics.journal))


class FlowCommands:
    """A child addon, about flows and what is remembered: explain, expand, export, forget."""

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
