"""The programs of a row: a provider that fails on command, a proxy with Penumbra, and mitmproxy alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.faults.counted import Counted
from support.mitm import Mitmdump, eventually, stop_all
from support.upstream import Received, Response, Upstream, turn

CAP = "3584"
"""Size in bytes above which results are shortened."""
_ASKED = re.compile(rb'"content":\s*"<([^>"]+)>"')
Answer = Callable[[Received], Response]


def asker(received: Received) -> str:
    """Return the name in a request's first message."""
    found = _ASKED.search(received.body or b"")
    return found[1].decode() if found else ""


def words(name: str) -> str:
    """Return the text that the model sends only to a client of this name."""
    return " ".join(f"{name}.{number}" for number in range(12))


@dataclass
class Arena:
    """An `Arena` starts proxies when a row asks for them, and closes them together."""

    upstream: Upstream
    folder: Path
    starter: Any = None
    confdir: Path | None = None
    shared: Callable[..., Mitmdump] | None = None
    """(mode, **options) -> a proxy that other tests share, for rows that do not change it."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """Responses by name; other names get their words."""
    _running: dict[Any, Mitmdump] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.upstream.script(self._answer)

    def _answer(self, received: Received) -> Response:
        name = asker(received)
        answer = self.answers.get(name)
        return answer(received) if answer is not None else turn(words(name))

    def proxy(self, mode: str = "reverse", *, addon: bool = True, name: str = "", **more: Any) -> Mitmdump:
        """Return the proxy of this name; without a name, one for each mode, with the addon or without."""
        key = name or (mode, addon)
        options = {"penumbra_max_output_bytes": CAP} if addon else {}
        if self.shared is not None and not name:
            return self.shared(mode, addon=addon, **options)
        if key not in self._running:
            self._running[key] = Mitmdump(
                self.upstream,
                self.confdir or self.folder / "conf",
                self.folder / f"proxy{len(self._running)}",
                mode,
                addon,
                options={**options, **more.pop("options", {})},
                starter=self.starter if more.pop("forked", True) else None,
                **more,
            ).start()
        return self._running[key]

    def there(self, proxy: Mitmdump) -> dict[str, int]:
        """Return the counts of a proxy before a row. Counting what is in memory takes the time of a timer."""
        return what_is_there(proxy, in_memory=self.shared is None)

    def stop(self, name: str) -> None:
        self._running.pop(name).stop()

    def close(self) -> None:
        stop_all(self._running.values())

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def what_is_there(proxy: Mitmdump, *, in_memory: bool = True) -> dict[str, int]:
    """Return the numbers of states, threads and open files in a proxy; with `in_memory`, of flows and
    streams, too."""
    found: dict[str, int] = json.loads(proxy.command("tests.left"))
    return {**found, **json.loads(proxy.command("tests.in_memory"))} if in_memory else found


def what_is_remembered(proxy: Mitmdump) -> tuple[float, float]:
    """Return the megabytes (a million bytes or characters) in bounded caches, and their bounds."""
    found: dict[str, float] = json.loads(proxy.command("tests.caches"))
    return found["filled"] / 1e6, found["most"] / 1e6


_SECONDS = 30.0
"""Seconds. mitmproxy keeps a request in memory until its last timer has ended, after five of them."""


def left(proxy: Mitmdump, before: dict[str, int]) -> Counted:
    """Count what a proxy has more than before, once the requests on their way have ended."""

    def more() -> dict[str, int]:
        now = what_is_there(proxy, in_memory="flows" in before)
        return {name: now[name] - before[name] for name in before if now[name] > before[name]}

    eventually(lambda: not more(), _SECONDS)
    found = more()
    return Counted(left=sum(found.values()), notes=tuple(f"left: {found[name]} {name}" for name in found))


def memory(proxy: Mitmdump, kind: str = "VmRSS") -> float:
    """Return the resident megabytes of a proxy; `VmHWM`: the most so far."""
    assert proxy.process is not None
    status = Path(f"/proc/{proxy.process.pid}/status").read_text()
    found = re.search(rf"{kind}:\s+([0-9]+) kB", status)
    assert found
    return int(found[1]) / 1024
