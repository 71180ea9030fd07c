"""Where rows run: a provider that fails as it is told, a proxy with Penumbra, and mitmproxy alone beside it."""

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
"""Results above this size lose something."""
_ASKED = re.compile(rb'"content":\s*"<([^>"]+)>"')
Answer = Callable[[Received], Response]


def asker(received: Received) -> str:
    """Who asks."""
    found = _ASKED.search(received.body or b"")
    return found[1].decode() if found else ""


def words(name: str) -> str:
    """What the model says to them, and to nobody else."""
    return " ".join(f"{name}.{number}" for number in range(12))


@dataclass
class Arena:
    """Started when asked for, and closed together."""

    upstream: Upstream
    folder: Path
    starter: Any = None
    confdir: Path | None = None
    shared: Callable[..., Mitmdump] | None = None
    """Gives proxies that are there anyway, for rows that leave them as they are."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """By who asks; all others get their words."""
    _running: dict[Any, Mitmdump] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.upstream.script(self._answer)

    def _answer(self, received: Received) -> Response:
        name = asker(received)
        answer = self.answers.get(name)
        return answer(received) if answer is not None else turn(words(name))

    def proxy(self, mode: str = "reverse", *, addon: bool = True, name: str = "", **more: Any) -> Mitmdump:
        """The one of this name; without a name, one for each mode, with the addon or without."""
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
        """What is there before a row; what is in memory takes the time of a timer to look at."""
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
    """States, threads and open files in a proxy; `in_memory`: flows and streams, too."""
    found: dict[str, int] = json.loads(proxy.command("tests.left"))
    return {**found, **json.loads(proxy.command("tests.held"))} if in_memory else found


def what_is_remembered(proxy: Mitmdump) -> tuple[float, float]:
    """Megabytes (a million bytes or characters) in bounded caches, and their bounds."""
    found: dict[str, float] = json.loads(proxy.command("tests.caches"))
    return found["filled"] / 1e6, found["most"] / 1e6


_SECONDS = 30.0
"""mitmproxy keeps a request in memory until its last timer is over: five seconds."""


def left(proxy: Mitmdump, before: dict[str, int]) -> Counted:
    """What is there now and was not before, once what is on its way has ended."""

    def more() -> dict[str, int]:
        now = what_is_there(proxy, in_memory="flows" in before)
        return {name: now[name] - before[name] for name in before if now[name] > before[name]}

    eventually(lambda: not more(), _SECONDS)
    found = more()
    return Counted(left=sum(found.values()), notes=tuple(f"left: {found[name]} {name}" for name in found))


def memory(proxy: Mitmdump, kind: str = "VmRSS") -> float:
    """Resident megabytes; `VmHWM`: the most so far."""
    assert proxy.process is not None
    status = Path(f"/proc/{proxy.process.pid}/status").read_text()
    found = re.search(rf"{kind}:\s+([0-9]+) kB", status)
    assert found
    return int(found[1]) / 1024
