"""What a function said of short texts, remembered.

A cache keeps its arguments alive. Names, ids and paths come from outside and may be of any length, so what is
longer than such a thing ever is gets worked out anew, and a cache never holds more than its entries times
that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
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
