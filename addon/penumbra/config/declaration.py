"""The options as mitmproxy is told of them, and names that it can't know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from penumbra.config.option import PREFIX
from penumbra.config.options import OPTIONS
from penumbra.config.parsers import meant
from penumbra.errors import one_line

CONFIG_OPTION = f"{PREFIX}config"


class Loader(Protocol):
    """mitmproxy's."""

    def add_option(
        self, name: str, typespec: type, default: Any, help: str, choices: Sequence[str] | None = None
    ) -> None: ...


def declare(loader: Loader) -> None:
    """Tell mitmproxy of the options, with the choices that its editors show.

    All are text, and empty where nothing is said: mitmproxy drops an addon without a word when a value of
    another type can't be read, and what is set to its default must be told from what is not set.
    """
    loader.add_option(
        CONFIG_OPTION,
        str,
        "",
        "YAML file with Penumbra's settings; the next request after a change reads it again.",
    )
    for option in OPTIONS:
        words = option.row.parser.choices
        loader.add_option(option.full_name, str, "", option.description, ("", *words) if words else None)


def unprefixed_options(names: Iterable[str]) -> list[str]:
    """One line for each name of an option that is ours but for its beginning."""
    ours = {option.name for option in OPTIONS}
    return [
        f"{name}: mitmproxy has no such option, did you mean {PREFIX}{name}?"
        for name in names
        if name in ours
    ]


def unknown_options(names: Iterable[str]) -> list[str]:
    """One line for each name of an option that should be ours and is not."""
    ours = ["config", *(option.name for option in OPTIONS)]
    lines = []
    for name in names:
        if name.startswith(PREFIX.rstrip("_")):
            near = meant(name.removeprefix(PREFIX), ours)
            hint = f"did you mean {PREFIX}{near}?" if near else "`penumbra proxy --help` names all"
            lines.append(f"{one_line(name)}: unknown option, {hint}")
    return lines
