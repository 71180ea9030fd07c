"""Files that are the user's alone: no links, no pipes, nobody else's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_IS_POSIX = hasattr(os, "geteuid")
"""Elsewhere files have no such owners and modes."""
_SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def open_private(path: Path, flags: int) -> int:
    """Open a regular file of the user's own, not through a link; one that is made is mode 0600.

    Raises OSError.
    """
    descriptor = os.open(path, flags | _SAFE, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and (not _IS_POSIX or status.st_uid == os.geteuid()):
        return descriptor
    os.close(descriptor)
    raise OSError("it is no regular file of this user")


def others_may_use(descriptor: int) -> bool:
    """Whether anybody but its owner may read or write a file."""
    return _IS_POSIX and bool(os.fstat(descriptor).st_mode & 0o077)


def make_private(descriptor: int) -> None:
    """Nobody but its owner may use the file any more."""
    if _IS_POSIX:
        os.fchmod(descriptor, 0o600)
