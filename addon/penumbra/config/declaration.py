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


def unprefixed_options(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """One line for each name that is near one of ours without its beginning, and nearer to none of `known`,
    mitmproxy's own and other addons' options."""
    ours = [option.name for option in OPTIONS]
    theirs = list(known)
    lines = []
    for name in names:
        near = name if name in ours else meant(name, [*ours, *theirs])
        if near in ours and not name.startswith(PREFIX.rstrip("_")):
            other = f", or mitmproxy's {near}" if near in theirs else ""
            lines.append(f"{one_line(name)}: unknown option, did you mean {PREFIX}{near}{other}?")
    return lines


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
