"""This module caches the results of functions whose arguments are short texts from outside. All caches can be
emptied at once.

A cache keeps its arguments in memory. Names, ids and paths come from outside and may have any length, so
`remembered` caches no text longer than a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakSet

_CACHES: WeakSet[Any] = WeakSet()
T = TypeVar("T")
P = ParamSpec("P")
LONGEST = 1_024
"""The greatest length in characters of a cached text."""


def forgettable(entries: int) -> Callable[[T], T]:
    """Return a decorator like `lru_cache(entries)` for functions whose arguments are parts of requests.
    `forget` empties the cache."""

    def of(function: T) -> T:
        cached: Any = lru_cache(entries)(cast("Callable[..., Any]", function))
        _CACHES.add(cached)
        return cast("T", cached)

    return of


def forget() -> None:
    """Empty the caches of all functions that these decorators cache."""
    for cached in list(_CACHES):
        cached.cache_clear()


def remembered(entries: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator like `forgettable(entries)` for functions whose positional arguments are texts of
    any length."""

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

        # Most functions have one argument and are called very often.
        call: Any = of_one if len(signature(function).parameters) == 1 else of_several
        update_wrapper(call, function)
        call.cache_clear = cached.cache_clear
        return cast("Callable[P, T]", call)

    return of
