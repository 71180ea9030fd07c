"""The proxy of one wrapped program: a process of its own, out of the terminal's reach, that ends with whoever
started it.

On standard input comes one line of JSON, `{"command", "arguments"}`, and the end of it is the end of the
proxy, so that none is left behind. Standard output gets lines of JSON: `{"listens": …}` or
`{"failed": …, "code": …}`, and `{"ended": …}` with the totals. What mitmproxy prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from penumbra.cli.certificates import Certificates
from penumbra.cli.failure import Failure
from penumbra.cli.hints import Server

_PROXIES = ("regular", "upstream")


class _Wrap:
    """Who waits at the other end."""

    is_wrap = True

    def __init__(self, report: int) -> None:
        self._report = report

    def tell(self, **line: Any) -> None:
        """A line; whoever has gone needs none."""
        with contextlib.suppress(OSError):
            os.write(self._report, orjson.dumps(line) + b"\n")

    def listens(self, servers: Sequence[Server], certificates: Certificates, hosts: Sequence[str]) -> None:
        """Where, by which CA, and for which hosts beside the known ones."""
        from mitmproxy import ctx

        end = partial(asyncio.get_running_loop().call_soon_threadsafe, ctx.master.shutdown)
        threading.Thread(target=_wait, args=(end,), daemon=True).start()
        proxy = next((server.place for server in servers if server.kind in _PROXIES), "")
        web = ""
        if "web_port" in ctx.options:
            web = getattr(ctx.master, "web_url", f"http://127.0.0.1:{ctx.options.web_port}/")
        self.tell(listens={"proxy": proxy, "ca": str(certificates.ca), "web": web, "hosts": list(hosts)})

    def ended(self, totals: Mapping[str, Any]) -> None:
        """What it has done."""
        self.tell(ended=totals)


def _wait(end: Callable[[], object]) -> None:
    """Call `end` at the end of standard input, by a thread: not every event loop can wait for it."""
    while os.read(0, 4096):
        pass
    # The loop may have ended first.
    with contextlib.suppress(RuntimeError):
        end()


def main(_: Sequence[str]) -> int:
    """Runs the proxy; 0, 1 if it could not start, or 2 if arguments or settings are wrong."""
    wrap = _Wrap(os.dup(1))
    os.dup2(2, 1)
    # Not through a buffer: the rest is waited for elsewhere.
    asked = orjson.loads(_line(0))
    try:
        from penumbra.cli import start

        code = start.start(asked["command"], asked["arguments"], starter=wrap)
    except Failure as failure:
        wrap.tell(failed=str(failure), code=failure.code)
        return failure.code
    if code:
        # Said where mitmproxy says it: in what is now the log.
        wrap.tell(failed="", code=code)
    return code


def _line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return line
