"""What a function said of short texts, remembered.

A cache keeps its arguments alive. Names, ids and paths come from outside and may be of any length, so what is
longer than such a thing ever is gets worked out anew, and a cache never holds more than its entries times
that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

T = TypeVar("T")
P = ParamSpec("P")
LONGEST = 1_024
"""Characters of a text that is remembered."""


def remembered(entries: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Like `lru_cache(entries)`, for functions of texts from outside, given by position."""

    def of(function: Callable[P, T]) -> Callable[P, T]:
        cached: Any = lru_cache(entries)(function)
        plain: Any = function

        def call(*args: Any) -> Any:
            for one in args:
                if isinstance(one, str) and len(one) > LONGEST:
                    return plain(*args)
            return cached(*args)

        call.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
        return cast(Callable[P, T], call)

    return of
