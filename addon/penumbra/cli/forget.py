"""`penumbra forget` lists and deletes the data on this disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from penumbra.cli.certificates import own_folder
from penumbra.cli.command import Failure, Parser, settings
from penumbra.config.settings import database_path
from penumbra.errors import one_line
from penumbra.metrics import running
from penumbra.store import database_file
from penumbra.store.database_file import APPLICATION, tables

USAGE = """\
usage: penumbra forget [--all]

Lists the data that Penumbra keeps on this disk.

  --all  delete it: the store (decisions, shortened originals, hidden exchanges, learned limits, the history
         of days), the key it is sealed with, and the logs of wrapped programs' proxies

The proxies that run here have to be stopped first. A conversation that continues later sends its results
unchanged: the provider's cache is written again once, and thinking that is bound to the earlier form may be
refused. The CA stays (`penumbra ca remove` deletes it). So does data that other programs may use, or whose
place you have set: a shared store (penumbra_store), settings, rules, events, flows that mitmproxy has saved.

Exit code: 0, or 1 if a proxy runs here or something can't be deleted.
"""
_SQLITE = ("", "-wal", "-shm")


def main(arguments: Sequence[str]) -> int:
    """List or delete the files, and return the exit code. Raises Failure."""
    parser = Parser("forget")
    parser.add_argument("--all", action="store_true")
    is_end = parser.read(arguments).all
    if is_end and (pids := [str(entry["pid"]) for entry in running.running(running.folder())]):
        raise Failure(f"stop the proxies that run here first: kill {' '.join(pids)}")
    files = list(_files())
    for path, what in files:
        print(f"{path.stat().st_size:>12,} bytes  {one_line(str(path))}  ({what})")
    if not files:
        print("Penumbra keeps nothing here.")
    elif is_end:
        _delete([path for path, _ in files])
        print("All of it is deleted.")
    else:
        print("`penumbra forget --all` deletes it.")
    if own_folder().exists():
        print(f"The CA in {own_folder()} stays: `penumbra ca remove` deletes it.")
    return 0


def _files() -> Iterator[tuple[Path, str]]:
    state = running.folder().parent
    if (path := database_path(settings())) is not None and _is_ours(path):
        yield from _there((path.with_name(path.name + end) for end in _SQLITE), "the store")
        yield from _there([path.with_suffix(".key")], "its key")
        if path.parent == state:
            # A database that is damaged, or of a later release, is renamed by appending the date.
            yield from _there(sorted(state.glob(f"{path.name}.[0-9]*")), "an earlier store")
    yield from _there((state / "wrap.log", state / "wrap.old"), "logs of wrapped programs' proxies")
    yield from _there(sorted((state / "running").glob("*")), "figures of a proxy")


def _there(paths: Sequence[Path] | Iterator[Path], what: str) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if path.is_file() and not path.is_symlink():
            yield path, what


def _is_ours(path: Path) -> bool:
    """Return True if a database may be deleted. Otherwise, or if it can't be read, raises Failure."""
    if not path.is_file():
        return True
    try:
        with closing(database_file.connect(path)) as file:
            is_ours = database_file.pragma(file, "application_id") == APPLICATION or not tables(file)
    except sqlite3.Error as error:
        raise Failure(
            f"{path} can't be read ({one_line(str(error))}): delete it yourself if it is yours"
        ) from None
    if not is_ours:
        raise Failure(f"{path} is another program's database: nothing is deleted")
    return True


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise Failure(f"{path} can't be deleted ({error.strerror or error})") from None
    with suppress(OSError):
        os.rmdir(running.folder())
