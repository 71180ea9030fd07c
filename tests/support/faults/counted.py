"""The result of a row, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from support.faults.clients import Ending


@dataclass(frozen=True)
class Counted:
    """A `Counted` counts requests by what their clients saw, and failures of which there must be none."""

    requests: int = 0
    answered: int = 0
    failed: int = 0
    """Requests that failed as they fail without a proxy, or through mitmproxy alone."""
    gone: int = 0
    """Requests whose clients left on purpose."""
    otherwise: int = 0
    """Requests with another failure."""
    broken: int = 0
    """Requests that did not begin with the bytes that the provider had got before."""
    mixed: int = 0
    """Responses with text of another request, or text that no provider sent."""
    left: int = 0
    """Threads, files, flows, streams and states that remain at the end."""
    notes: tuple[str, ...] = ()
    """Descriptions of the failures."""

    def __add__(self, other: Counted) -> Counted:
        return Counted(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def is_good(self) -> bool:
        return not (self.otherwise or self.broken or self.mixed or self.left)


def compared(
    name: str, ours: Ending, others: Sequence[Ending], expected: str, *, to_the_word: bool = True
) -> Counted:
    """Count one request. `others` are the endings of the same request without Penumbra. A reset may overtake
    text, so that the responses do not fail at the same word."""
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
