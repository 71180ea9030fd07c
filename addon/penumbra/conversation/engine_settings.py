"""The settings with which an engine is made. A change of one of them makes a new engine.

All other settings come with each request.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penumbra.config.settings import Settings, database_path, shared_place
from penumbra.expand.query import page_bytes
from penumbra.redaction.ruleset import Loaded
from penumbra.store.key_file import SharedPlace


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """An `EngineSettings` has the settings with which an engine is made. Sizes are bytes, times are
    seconds."""

    database: Path | None
    """The file of the database; None to keep everything in memory."""
    shared: SharedPlace | None
    """The store that several proxies share; None if there is none."""
    database_max_bytes: int
    ledger_ttl: float
    originals_ttl: float
    page_bytes: int
    """Size of a page of an original."""
    user_rules: Loaded | None
    """Rules of the user's own file."""
    gitleaks_only: bool
    secrets_allow: tuple[str, ...]
    rules: str
    """Path of the user's folder of rules."""
    redaction_max_bytes: int
    redaction_failure: str
    offload_bytes: int

    @classmethod
    def of(cls, settings: Settings, user_rules: Loaded | None = None) -> EngineSettings:
        """Return the part of the settings with which an engine is made."""
        return cls(
            database=database_path(settings),
            shared=shared_place(settings),
            database_max_bytes=settings.database_max_bytes,
            ledger_ttl=settings.ledger_ttl,
            originals_ttl=settings.originals_ttl,
            page_bytes=page_bytes(settings.max_output_bytes),
            user_rules=user_rules,
            gitleaks_only=settings.gitleaks_only,
            secrets_allow=settings.secrets_allow,
            rules=settings.rules,
            redaction_max_bytes=settings.redaction_max_bytes,
            redaction_failure=settings.redaction_failure,
            offload_bytes=settings.offload_bytes,
        )
