"""`penumbra stats`: what the proxies that run here have done so far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson

from penumbra.cli.counts import counted
from penumbra.cli.parser import Parser
from penumbra.errors import one_line
from penumbra.metrics import running


def main(arguments: Sequence[str]) -> int:
    """Prints the figures of each proxy. Exit code 0, or 1 if none runs."""
    parser = Parser("stats")
    parser.add_argument("--json", action="store_true")
    given = parser.read(arguments)
    processes = list(running.running(running.folder()))
    if given.json:
        print(orjson.dumps(processes, option=orjson.OPT_INDENT_2).decode())
    elif not processes:
        print("Penumbra: no proxy is running here.")
    else:
        print("\n\n".join("\n".join(_lines(process)) for process in processes))
    return 0 if processes else 1


def _lines(found: dict[str, Any]) -> list[str]:
    minutes = max(0, int(time.time() - found.get("started", 0)) // 60)
    ports = ", ".join(str(port) for port in found.get("ports", ())) or "none"
    mode = "paused" if found.get("is_paused") else f"mode {found.get('mode')}"
    head = f"process     {found.get('pid')}, port {ports}, {mode}, for {counted(minutes, 'minute')}"
    return [head, *(one_line(line) for key in ("figures", "expansions") for line in found.get(key, ()))]
