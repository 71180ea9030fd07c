"""What of the settings works otherwise than it may look: told at the start, and nothing stops for it."""

from __future__ import annotations

from collections.abc import Iterator

from penumbra import rules
from penumbra.config.options import Settings
from penumbra.config.parsers import DURATION, meant
from penumbra.config.strategy_check import provider
from penumbra.config.tool_compaction import NAMES
from penumbra.errors import one_line
from penumbra.rule_schemas.providers import Strategies


def remarks(settings: Settings) -> Iterator[str]:
    """Each in one line."""
    for name in settings.tool_compaction.unknown:
        near = meant(name, NAMES)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(NAMES)}"
        yield f"tool_compaction.{one_line(name)}: it is not read, {hint}"
    if settings.shortens and settings.external_strategy in ("api", "external_provider"):
        yield from _about_strategy(settings)


def _about_strategy(settings: Settings) -> Iterator[str]:
    timeout = settings.api.timeout
    if settings.deadline < timeout:
        yield (
            f"strategy_deadline: {DURATION.write(settings.deadline)} is shorter than the timeout of a call "
            f"({DURATION.write(timeout)}): what is answered in between comes too late for its result"
        )
    name, asked = provider(settings)
    if settings.external_strategy != "external_provider" or asked is None:
        return
    entry = rules.load_as("strategies.yaml", Strategies).providers.get(name)
    if asked.auth == "oauth" and not asked.endpoint and entry is not None and entry.logins:
        yield f"providers.{name}: oauth spends what the client was authorised with, but {entry.logins}"
