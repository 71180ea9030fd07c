"""Results of functions of short texts from outside, remembered until they must be forgotten.

A cache keeps its arguments alive. Names, ids and paths come from outside and may be of any length, so what is
longer than such a thing ever is gets worked out anew, and a cache never holds more than its entries times
that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakSet

_CACHES: WeakSet[Any] = WeakSet()
T = TypeVar("T")
P = ParamSpec("P")
LONGEST = 1_024
"""Characters of a text that is remembered."""


def forgettable(entries: int) -> Callable[[T], T]:
    """`lru_cache(entries)`, which `forget` empties, for functions of what requests say."""

    def of(function: T) -> T:
        cached: Any = lru_cache(entries)(cast("Callable[..., Any]", function))
        _CACHES.add(cached)
        return cast("T", cached)

    return of


def forget() -> None:
    """Empty the caches of all functions of what requests say."""
    for cached in list(_CACHES):
        cached.cache_clear()


def remembered(entries: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Like `forgettable(entries)`, for functions of texts from outside, given by position."""

    def of(function: Callable[P, T]) -> Callable[P, T]:
        cached: Any = forgettable(entries)(function)
        plain: Any = function

        def of_one(text: Any) -> Any:
            return plain(text) if isinstance(text, str) and len(text) > LONGEST else cached(text)

        def of_several(*args: Any) -> Any:
            for one in args:
                if isinstance(one, str) and len(one) > LONGEST:
                    return plain(*args)
            return cached(*args)

        # Most are of one text, and asked again and again.
        call: Any = of_one if len(signature(function).parameters) == 1 else of_several
        call.cache_clear = cached.cache_clear
        return cast("Callable[P, T]", call)

    return of
