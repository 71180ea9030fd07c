"""What came of a row, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from support.faults.clients import Ending


@dataclass(frozen=True)
class Counted:
    """Requests by what their clients saw, and what must be 0."""

    requests: int = 0
    answered: int = 0
    failed: int = 0
    """As without us: the client sees what it would see without a proxy, or through mitmproxy alone."""
    gone: int = 0
    """Their clients went away, as they were to."""
    otherwise: int = 0
    """Failed in another way."""
    broken: int = 0
    """Requests in which what the provider had got before was not the same."""
    mixed: int = 0
    """Responses with something that was another's, or was never said."""
    left: int = 0
    """Threads, files, flows, streams and states that are still there at the end."""
    notes: tuple[str, ...] = ()
    """Of what must be 0: which."""

    def __add__(self, other: Counted) -> Counted:
        return Counted(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def is_good(self) -> bool:
        return not (self.otherwise or self.broken or self.mixed or self.left)


def compared(
    name: str, ours: Ending, others: Sequence[Ending], expected: str, *, to_the_word: bool = True
) -> Counted:
    """One request. `others`: what came of the same without us. A reset may overtake words: then they do not
    fail at the same one."""
    if not expected.startswith(ours.says):
        return Counted(1, mixed=1, notes=(f"{name}: {ours.says!r}",))
    if ours.whole and ours.status == 200 and not ours.error and ours.says == expected:
        return Counted(1, answered=1)
    if any(_kind(ours) == _kind(one) and (ours.says == one.says or not to_the_word) for one in others):
        return Counted(1, failed=1)
    kinds = [(*_kind(one), len(one.says)) for one in (ours, *others)]
    return Counted(1, otherwise=1, notes=(f"{name}: {kinds[0]}, not {kinds[1:]}",))


def _kind(ending: Ending) -> tuple[int, bool, str]:
    return ending.status, ending.whole, ending.error


def total(counted: Iterable[Counted]) -> Counted:
    return sum(counted, Counted())
