"""What leads requests past the proxy, or stands where it wants to listen."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penumbra.cli.checks import Check, State
from penumbra.cli.no_proxy import covers_llm_host, entries
from penumbra.errors import one_line
from penumbra.metrics import running

_PORT = 8080
_BASES = (
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "GOOGLE_GEMINI_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
)
_SETTINGS = ("~/.claude/settings.json", "~/.claude/settings.local.json")
"""Files whose `env` sets variables for an agent, over those that it is started with."""
_READ_THERE = (*_BASES, "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "NODE_EXTRA_CA_CERTS")


def port(environment: Mapping[str, str]) -> Check:
    """That of a proxy that stands; `penumbra wrap` takes a free one."""
    for entry in running.running(running.folder(environment)):
        if _PORT in entry.get("ports", ()):
            paused = ", paused" if entry.get("is_paused") else ""
            told = f"port {_PORT}: a proxy of ours runs there (process {entry.get('pid')}{paused})"
            return Check(State.OK, "port", told)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _PORT))
        except OSError as error:
            why = "taken by another program" if error.errno == errno.EADDRINUSE else str(error.strerror)
            fix = f"penumbra proxy -p {_PORT + 1}; `penumbra wrap` takes a free one"
            return Check(State.NOTE, "port", f"port {_PORT} on 127.0.0.1 is {why}", fix)
    return Check(State.OK, "port", f"port {_PORT} on 127.0.0.1 is free")


def prefixes(environment: Mapping[str, str]) -> Iterator[Check]:
    """Report each running proxy of which a provider has said that it broke a prompt's prefix."""
    for entry in running.running(running.folder(environment)):
        found = entry.get("totals", {}).get("prefix", {})
        if found.get("broken"):
            told = (
                f"process {entry['pid']} broke {found['broken']:,} of {found['compared']:,} compared prefixes"
            )
            fix = "the sessions on its page name the places: report them, and set penumbra_pause until then"
            yield Check(State.NOTE, "prefix", told, fix)


def past_the_proxy(environment: Mapping[str, str]) -> Iterator[Check]:
    """Variables of this shell, and those that settings of agents put in their place."""
    checks = [*_variables(environment, ""), *_files(environment)]
    yield from checks or [Check(State.OK, "environment", "nothing in the environment leads past the proxy")]


def _files(environment: Mapping[str, str]) -> Iterator[Check]:
    for name in _SETTINGS:
        path = Path(os.path.expanduser(name))
        try:
            there = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        named: Any = there.get("env") if isinstance(there, dict) else None
        if isinstance(named, dict):
            yield from _variables(
                {key: str(named[key]) for key in _READ_THERE if key in named}, f" in {path}"
            )


def _variables(environment: Mapping[str, str], where: str) -> Iterator[Check]:
    for name in _BASES:
        if (value := environment.get(name, "").strip()) and not _is_usual(value):
            told = (
                f"{name}={one_line(value)}{where} is no LLM host that is known: requests there are not read"
            )
            yield Check(State.NOTE, "environment", told, f"{_undo(name, where)}, or set penumbra_hosts")
    for name in ("NO_PROXY", "no_proxy"):
        past = [entry for entry in entries(environment.get(name, "")) if covers_llm_host(entry)]
        if past:
            told = f"{name}{where} leads requests to LLM hosts past the proxy ({one_line(', '.join(past))})"
            yield Check(State.NOTE, "environment", told, f"take it out; `penumbra wrap` does{_but(where)}")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        if environment.get(name, "").lower().startswith("socks"):
            told = f"{name}{where} is a SOCKS proxy, which mitmproxy can't go through"
            yield Check(State.NOTE, "environment", told, _undo(name, where))
        elif where and environment.get(name):
            told = f"{name}{where} comes before what the agent is started with"
            yield Check(State.NOTE, "environment", told, _undo(name, where))
    if environment.get("NODE_TLS_REJECT_UNAUTHORIZED", "") == "0":
        told = "NODE_TLS_REJECT_UNAUTHORIZED=0: Node programs trust anybody"
        yield Check(State.NOTE, "environment", told, "unset NODE_TLS_REJECT_UNAUTHORIZED")


def _undo(name: str, where: str) -> str:
    return f"take it out{where}" if where else f"unset {name}"


def _but(where: str) -> str:
    return " so in the environment only" if where else ""


def _is_usual(url: str) -> bool:
    """A provider's own address, or this machine's, as of a proxy in reverse mode."""
    from penumbra.apis import recognise

    try:
        return recognise.is_llm_host(urlsplit(url).hostname or "")
    except ValueError:
        return False
