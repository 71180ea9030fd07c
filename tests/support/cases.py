"""Many small cases as one test, since what pytest does around each of its own costs more than most of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import combinations, product
from typing import Any, TypeVar
from zlib import crc32

import pytest

from support import examples

T = TypeVar("T")
ONLY = ""
"""Set by `--case`: of each table those cases alone whose name has it."""
STEP = 1
"""Set by `--sample` and `--fast`: every so manieth case of a long table."""
LONG_TABLE = 8
"""Cases from which on a sample leaves some out; a dozen or so always stay."""
_FAILURES = (Exception, pytest.fail.Exception)

Case = tuple[str, dict[str, Any]]
"""Its name, and what the test gets."""
Table = list[Case]


def each(
    names: str | Iterable[str],
    values: Iterable[Any],
    *,
    ids: Iterable[str] | Callable[[Any], str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, also one above the other, but within one test: fixtures are those of all
    cases. All are tried, of three tables and more as many as it takes for every two values to meet (with
    `--all`, all), and the failure names each that fails, with what it raised.
    """
    table = _table(names, values, ids)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        inner: Callable[..., None] = getattr(test, "_cases_of", test)
        tables: list[Table] = [table, *getattr(test, "_tables", ())]

        @wraps(test)
        def of_all(**fixtures: Any) -> None:
            _try_all(inner, _chosen(inner.__name__, tables), fixtures)

        given = {name for cases in tables for _, case in cases for name in case}
        signature = inspect.signature(inner)
        fixtures = [one for name, one in signature.parameters.items() if name not in given]
        of_all.__dict__.update(
            __signature__=signature.replace(parameters=fixtures), _cases_of=inner, _tables=tables
        )
        return of_all

    return decorate


def _table(
    names: str | Iterable[str], values: Iterable[Any], ids: Iterable[str] | Callable[[Any], str] | None
) -> Table:
    several = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [row if len(several) > 1 else (row,) for row in values]
    if ids is None or callable(ids):
        name_of = ids or (lambda value: value if isinstance(value, str) else repr(value))
        said = ["-".join(str(name_of(value)) for value in row)[:100] for row in rows]
    else:
        said = list(ids)
    return [(name, dict(zip(several, row, strict=True))) for name, row in zip(said, rows, strict=True)]


def in_pairs(of_cases: Mapping[T, Sequence[Any]]) -> set[T]:
    """The cases, by their values, that have every pair of values, chosen greedily."""
    pairs = {case: set(combinations(enumerate(values), 2)) for case, values in of_cases.items()}
    missing = set().union(*pairs.values())
    chosen = set()
    while missing:
        best = max(pairs, key=lambda case: len(pairs[case] & missing))
        missing -= pairs[best]
        chosen.add(best)
    return chosen


def _chosen(test: str, tables: list[Table]) -> Iterator[Case]:
    cases = list(product(*tables))
    if len(tables) > 2 and not examples.ALL:
        stay = in_pairs({at: list(map(id, case)) for at, case in enumerate(cases)})
        cases = [case for at, case in enumerate(cases) if at in stay]
    assert cases, "a table without cases"
    stride = max(STEP, len(cases) // 12) if STEP > 1 and len(cases) > LONG_TABLE else 1
    first = crc32(test.encode()) % stride
    for at, parts in enumerate(cases):
        name = "-".join(said for said, _ in parts)
        if at % stride == first and ONLY in name:
            yield name, {key: value for _, case in parts for key, value in case.items()}


def _try_all(test: Callable[..., None], cases: Iterable[Case], fixtures: dict[str, Any]) -> None:
    tried, failures = 0, []
    for name, case in cases:
        try:
            test(**case, **fixtures)
        except pytest.skip.Exception:
            continue
        except _FAILURES as failure:
            failure.add_note(f"In the case: {name}")
            failures.append((name, failure))
        tried += 1
    if not tried:
        pytest.skip(f"no case to try has {ONLY!r} in its name")
    if failures:
        head = f"{len(failures)} of {tried} cases failed:\n" + "\n".join(f"  {name}" for name, _ in failures)
        raise BaseExceptionGroup(head, [failure for _, failure in failures])
