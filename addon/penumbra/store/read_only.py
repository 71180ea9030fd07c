"""A database as another process reads it: one that a proxy has open, or that lies there."""

from __future__ import annotations

import sqlite3
from pathlib import Path

_WAIT_SECONDS = 2


def connect(path: Path) -> sqlite3.Connection:
    """To read from. Raises sqlite3.Error.

    SQLite makes files beside a database with a write-ahead log, and whoever only reads leaves them there.
    Where no log is, nobody has it open: it is read as what does not change.
    """
    has_log = path.with_name(f"{path.name}-wal").exists()
    address = f"{path.absolute().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
    return sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS)
