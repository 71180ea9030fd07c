"""Take the page's pictures for the manual.

The session of `scripts/demo`, as three agents would have it, goes through a real mitmdump to a simulated
provider, and a headless Chromium renders the page.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from demo import Agent, Recording, made_up_secrets

from support.browser import Browser, program
from support.sandbox import Mitmdump, Upstream

DOCS = Path(__file__).resolve().parents[1] / "docs"
AGENTS = (
    ("claude-cli/2.1", "claude-sonnet-4-5", "/srv/shop", 10),
    ("codex_exec/0.169", "claude-haiku-4-5", "/srv/warehouse", 4),
    ("opencode/1.18", "claude-sonnet-4-5", "/srv/shop", 7),
)
"""Name, model, folder, and how many turns each of them takes."""


@dataclass(frozen=True)
class Picture:
    """A `Picture` is one file; `view` is the fragment of the page's address."""

    name: str
    view: str
    theme: str = "light"
    size: tuple[int, int] = (1200, 760)


def pictures(session: str, result: int) -> tuple[Picture, ...]:
    return (
        Picture("page", "now"),
        Picture("page-session", f"session/{session}"),
        Picture("page-result", f"result/{result}", "dark", (1200, 520)),
        Picture("page-narrow", "by", size=(390, 760)),
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def work(proxy: Mitmdump, upstream: Upstream, recording: Recording) -> None:
    """Run the agents one after the other."""
    for user_agent, model, folder, turns in AGENTS:
        upstream.answers(*replace(recording, turns=recording.turns[:turns]).answers())
        agent = Agent(proxy, model=model, user_agent=user_agent, folder=folder)
        agent.ask({"type": "text", "text": f"{recording.prompt} You are {user_agent}."})
        for _, steps in recording.turns[:turns]:
            agent.ask(
                *({"type": "tool_result", "tool_use_id": step.id, "content": step.result} for step in steps)
            )


def link(home: Path) -> str:
    """Return the page's address, from `penumbra page`."""
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        for file in home.rglob("running/*.json"):
            if found := json.loads(file.read_text()).get("page"):
                return str(found)
        time.sleep(0.1)
    raise SystemExit("scripts/screenshots: the proxy has no page")


def data(address: str, path: str) -> Any:
    base, _, token = address.partition("/?")
    with urllib.request.urlopen(f"{base}/data/{path}?{token}", timeout=30) as response:
        return json.load(response)


def chosen(address: str) -> tuple[str, int]:
    """Return the session with the most turns, and a result of it for a picture."""
    longest = max(data(address, "sessions"), key=lambda each: each["turns"])["id"]
    results = [each for turn in data(address, f"session/{longest}")["turns"] for each in turn["results"]]
    shortened = [each for each in results if each["how"] == "shortened" and each["bytes"][0] < 12_000]
    return longest, max(shortened, key=lambda each: each["bytes"][0] - each["bytes"][1])["number"]


def take(address: str, folder: Path) -> None:
    with Browser() as browser:
        browser.prefers("light")
        browser.open(address)
        browser.until("document.querySelector('main[data-drawn] h1') !== null")
        for picture in pictures(*chosen(address)):
            browser.resize(*picture.size)
            if browser.run("document.documentElement.getAttribute('data-theme')") != picture.theme:
                browser.press("t")
            before = browser.run("document.querySelector('main').getAttribute('data-drawn')")
            browser.run(f"location.hash = '{picture.view}'; dispatchEvent(new Event('hashchange')); 0")
            browser.until(
                f"document.querySelector('main').getAttribute('data-drawn') !== '{before}'"
                f" && document.querySelector('main').getAttribute('data-view') === '{picture.view}'"
            )
            browser.run("scrollTo(0, 0)")
            file = folder / f"{picture.name}.png"
            browser.picture(file, whole=False)
            print(f"{file}: {file.stat().st_size:,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/screenshots", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS, help="where they go (docs)")
    folder = parser.parse_args().folder
    if not program():
        print("scripts/screenshots: error: this machine has no Chromium", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="penumbra-page-", ignore_cleanup_errors=True) as there,
        Upstream(Path(there)) as upstream,
    ):
        home = Path(there) / "home"
        options = {"penumbra_page": str(free_port()), "penumbra_page_originals": "on"}
        proxy = Mitmdump(upstream, Path(there) / "conf", home, options=options)
        proxy.start()
        try:
            work(proxy, upstream, Recording.load(made_up_secrets()))
            take(link(home), folder)
        finally:
            proxy.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
