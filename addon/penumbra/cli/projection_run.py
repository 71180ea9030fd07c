"""What `discover` and `replay` have in common: the engine, how far it is, what is shown."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from penumbra.cli import projection_page, projection_text
from penumbra.cli.failure import WRONG, Failure
from penumbra.cli.parser import print_left_out, use_rules
from penumbra.cli.parser import settings as read_settings
from penumbra.errors import one_line
from penumbra.projection import summary_json
from penumbra.projection.figures import Figures
from penumbra.projection.projector import Projector, settings_of
from penumbra.redaction import RuleError, ruleset

_SECONDS = 0.2
"""Between two states of the line."""


def projector(command: str, *, adopts: bool) -> Projector:
    """With the user's settings and rules. Raises Failure."""
    settings = read_settings()
    print_left_out(use_rules(settings.rules))
    logging.getLogger("penumbra").setLevel(logging.ERROR)
    try:
        loaded = ruleset.user_rules(settings.gitleaks_config, only=settings.gitleaks_only)
    except RuleError as error:
        raise Failure(f"{command}: {error}", code=WRONG) from None
    return Projector(settings_of(settings, adopts=adopts), loaded)


def writable(command: str, page: Path | None) -> Path | None:
    """The file of a page, if its folder is there. Raises Failure."""
    if page is not None and not page.expanduser().absolute().parent.is_dir():
        raise Failure(f"{command}: --html: {page}: its folder does not exist", code=WRONG)
    return page.expanduser() if page is not None else None


class Progress:
    """A line on a terminal's standard error; nothing anywhere else."""

    def __init__(self, total: int) -> None:
        """`total`: what `advance` adds up to."""
        self._total = max(1, total)
        self._done = 0
        self._shown = 0.0
        self._is_on = sys.stderr.isatty()

    def advance(self, done: int) -> None:
        """So much more."""
        self._done += done

    def show(self, words: str) -> None:
        """Where it is, if the last state is old enough."""
        if self._is_on and time.monotonic() - self._shown >= _SECONDS:
            self._shown = time.monotonic()
            share = min(99, 100 * self._done // self._total)
            print(f"\r\x1b[Kpenumbra: {share} %, {one_line(words)}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Nothing is left of the line."""
        if self._is_on and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def show(
    figures: Figures, read: Sequence[str], counts: Mapping[str, int], page: Path | None, *, as_json: bool
) -> None:
    """Print and write what was worked out. Raises Failure."""
    if page is not None:
        try:
            page.write_text(projection_page.page(figures, read), encoding="utf-8", errors="replace")
        except OSError as error:
            raise Failure(f"--html: {page}: {error.strerror}") from None
    if as_json:
        content = summary_json.content(figures, dict(counts))
        print(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
        return
    for line in projection_text.lines(figures, list(read)):
        print(line)
    if page is not None:
        print(f"\nThe page: {page}")
