"""Whether what has to be remembered can be: the database, its size and its tables."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from penumbra.cli.checks import Check, State
from penumbra.config.settings import Settings, database_path
from penumbra.store import read_only
from penumbra.store.database_format import VERSION

_ABOUT = "store"


def store(settings: Settings, environment: Mapping[str, str]) -> Check:
    """The database of the settings."""
    path = database_path(settings, environment)
    if path is None:
        told = "the store is in memory: after a restart, conversations begin anew, and are billed so"
        return Check(State.NOTE, _ABOUT, told, "unset PENUMBRA_DATABASE")
    if not path.exists():
        return _to_be_made(path)
    if not os.access(path, os.R_OK | os.W_OK):
        return Check(
            State.NOTE, _ABOUT, f"store {path} can't be written: all is kept in memory", _chown(path)
        )
    try:
        with closing(read_only.connect(path)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except (sqlite3.Error, ValueError) as error:
        return Check(State.NOTE, _ABOUT, f"store {path} can't be read ({error}); it is begun anew at a start")
    size = sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
    told = f"store {path}: {size / 1024**2:,.1f} of {settings.database_max_bytes / 1024**2:,.0f} MB"
    if version > VERSION:
        return Check(State.NOTE, _ABOUT, f"{told}, made by a later release; it is begun anew at a start")
    return Check(State.OK, _ABOUT, f"{told}, version {version}")


def _to_be_made(path: Path) -> Check:
    folder = next(above for above in path.parents if above.exists())
    if os.access(folder, os.W_OK | os.X_OK) and folder.is_dir():
        return Check(State.OK, _ABOUT, f"no store yet: {path} is made at the first start")
    told = f"store {path} can't be made, since {folder} can't be written: all is kept in memory"
    return Check(State.NOTE, _ABOUT, told, _chown(folder))


def _chown(path: Path) -> str:
    return f"make {path} yours, or name another file: PENUMBRA_DATABASE"
