"""The installation's key: 32 random bytes in a file that nobody else could have read or written."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from penumbra.store.private_file import open_private, others_may_use

WARNING_ID = "PENUMBRA_KEY_UNUSABLE"
_BYTES = 32
_log = logging.getLogger(__name__)


class _Unsafe(OSError):
    """The user's own file, but others may know what is in it, or it is no key."""


def installation_key(path: Path | None) -> bytes:
    """32 random bytes that belong to this installation, made at the first call; mode 0600.

    A key that others could read is replaced; what was kept with the old one is then not recognised. Without
    a path, or where the file can't be had or is not the user's own, they are this process's own.
    """
    if path is None:
        return secrets.token_bytes(_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(path):
            _create(path, replace=False)
        try:
            return _read(path)
        except _Unsafe as error:
            _log.warning("%s: %s: %s; there is a new one now", WARNING_ID, path, error)
            _create(path, replace=True)
            return _read(path)
    except OSError as error:
        _log.warning("%s: %s: %s; keys are made anew at every start", WARNING_ID, path, error)
        return secrets.token_bytes(_BYTES)


def existing_key(path: Path | None) -> bytes | None:
    """The key that is there, for who only looks: nothing is made or replaced. None where there is none."""
    try:
        return _read(path) if path is not None else None
    except OSError:
        return None


def _read(path: Path) -> bytes:
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        if others_may_use(file.fileno()):
            raise _Unsafe("others could read it")
        key = file.read(_BYTES + 1)
    if len(key) != _BYTES:
        raise _Unsafe("not a key of 32 bytes")
    return key


def _create(path: Path, *, replace: bool) -> None:
    # Written aside and put into place, so that of two first starts both read the same key.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(open_private(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY), "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
