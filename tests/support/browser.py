"""A headless Chromium, driven over its debugging protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LISTENS = re.compile(r"DevTools listening on (ws://\S+)")
_LIMIT = 60.0
"""Seconds for any command."""


def program() -> str:
    """Return the path of Chromium; empty if this machine has none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), "")


class Browser:
    """A `Browser` shows one page. `said` has the page's messages to its console, and errors in the page."""

    def __init__(self, width: int = 1200, height: int = 900, proxy: str = "") -> None:
        self._home = tempfile.mkdtemp(prefix="chromium-")
        command = [
            program(),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-port=0",
            f"--user-data-dir={self._home}",
            *([f"--proxy-server={proxy}"] if proxy else []),
            "about:blank",
        ]
        log = Path(self._home, "log")
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command, stderr=out, stdout=out, env={**os.environ, "HOME": self._home}
            )
        found = None
        limit = time.monotonic() + _LIMIT
        while found is None and time.monotonic() < limit:
            time.sleep(0.05)
            found = _LISTENS.search(log.read_text(errors="replace"))
        assert found is not None, log.read_text(errors="replace")
        self._socket = connect(found[1], max_size=None)
        self._ids = itertools.count(1)
        self._session = ""
        self.said: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol; return its result."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while True:
            answer = json.loads(self._socket.recv(timeout=_LIMIT))
            self._heard(answer)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        result = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, script: str) -> Any:
        """Return the value of an expression once it is true."""
        return _eventually(lambda: self.run(script), script)

    def press(self, key: str) -> None:
        """Press a key that is a character or has a name."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window in its own pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def prefers(self, scheme: str) -> None:
        """Set the preferred colours: `dark` or `light`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Return a PNG of the whole page, or of its visible part."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _heard(self, message: dict[str, Any]) -> None:
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.said.append(json.dumps(message["params"]))


def _eventually(condition: Callable[[], Any], what: str) -> Any:
    limit = time.monotonic() + _LIMIT
    while not (found := condition()):
        assert time.monotonic() < limit, what
        time.sleep(0.05)
    return found
