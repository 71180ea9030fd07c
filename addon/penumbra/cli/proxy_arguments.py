"""Wrong arguments of mitmproxy's programs, said as ours are: key, what it got, what is allowed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from mitmproxy import options, optmanager
from mitmproxy.proxy.mode_specs import ProxyMode

from penumbra.config.option import PREFIX
from penumbra.config.parsers import listed, parse_mode

_PORTS = ("listen_port", "web_port")
_LAST_PORT = 65_535
_NO_NUMBER = re.compile(r"argument (\S+): invalid int value: (.+)")
_MODES = "regular, local, wireguard, reverse:URL, upstream:URL or another one of mitmproxy's"


def worded(message: str) -> str:
    """What the parser of the arguments says of them."""
    return _NO_NUMBER.sub(r"\1: got \2, allowed: a whole number", message)


def problem(opts: options.Options, given: argparse.Namespace) -> str:
    """The first value that mitmproxy will not take; empty: there is none, or mitmproxy says it itself."""
    return next(_problems(opts, given), "")


def _problems(opts: options.Options, given: argparse.Namespace) -> Iterator[str]:
    values = [(name, value) for name in _PORTS if (value := getattr(given, name, None)) is not None]
    values += [("mode", mode) for mode in getattr(given, "mode", None) or ()]
    for setting in given.setoptions:
        name, is_said, value = setting.partition("=")
        # What a script declares is known later.
        if name not in opts:
            continue
        if told := _mistyped(opts, name, value if is_said else None):
            yield told
        values.append((name, value))
    for name, value in values:
        if name in _PORTS and str(value) and not 0 <= int(value) <= _LAST_PORT:
            yield f"{name}: got {value}, allowed: a port from 0 to {_LAST_PORT}"
        if name == "mode" and (reason := _no_mode(value)):
            yield reason


def _mistyped(opts: options.Options, name: str, value: str | None) -> str:
    """Why a value is none for an option; None: none was said."""
    described = optmanager.dump_dicts(opts, [name])[name]
    kind = described["type"]
    if value is None and kind in ("str", "int"):
        words = tuple(word for word in described["choices"] or () if word)
        return f"{name}: got no value, allowed: {listed(words) if words else f'{name}=VALUE'}"
    if value and kind in ("int", "optional int") and not re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
        return f"{name}: got {value!r}, allowed: a whole number"
    if value and kind == "bool" and value not in ("true", "false", "toggle"):
        return f"{name}: got {value!r}, allowed: true or false"
    return ""


def _no_mode(value: str) -> str:
    """Why a text is no mode of mitmproxy's."""
    try:
        ProxyMode.parse(value)
    except ValueError as error:
        meant = f"; a mode of Penumbra's is {PREFIX}mode={value}" if parse_mode(value) is not None else ""
        return f"mode: got {value!r} ({error}), allowed: {_MODES}{meant}"
    return ""
