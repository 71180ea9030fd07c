"""This module has the page's request handlers, one for each kind of path."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, ClassVar

import orjson
from tornado.iostream import StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from penumbra import errors
from penumbra.flow.page.access import Access, PageRequest
from penumbra.flow.page.contents import Contents
from penumbra.metrics import exposition

COOKIE = "penumbra_page"
_log = logging.getLogger(__name__)
_MOST_LISTENERS = 20
_MOST_OF_ONE = 4
"""The greatest number of open streams to one browser, which opens only six HTTP/1.1 connections to a host."""
PAUSE, _ALIVE = 1.0, 15.0
"""`PAUSE` is the shortest time in seconds between two events of a stream. After `_ALIVE` seconds without an
event, a comment is sent."""
_JSON, _PLAIN = "application/json", "text/plain; charset=utf-8"
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(eq=False)
class Listener:
    """A `Listener` is a stream of events to one tab of a browser."""

    browser: tuple[str, ...]
    """Host and user agent. Streams with equal values belong to one browser."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_replaced: bool = False
    """True if the stream of another tab has replaced this stream. The tab then polls."""


@dataclass(eq=False)
class Page:
    """A `Page` has the state that all handlers share. `pause` switches a pause on or off."""

    contents: Contents
    access: Access
    pause: Callable[..., None]
    listeners: list[Listener] = field(default_factory=list)
    """The open streams, the oldest first."""

    def changed(self) -> None:
        for listener in self.listeners:
            listener.news.set()


def application(page: Page) -> Application:
    asked = {"page": page}
    paths = [
        (r"/(?:index\.html)?", Start, asked),
        (r"/(page\.(?:js|css)|icon\.svg)", File, asked),
        (r"/data/(now|sessions|past|unused)", Data, asked),
        (r"/data/(session|result)/([0-9a-z]{1,20})", Data, asked),
        (r"/data/(everything)", Download, asked),
        (r"/data/table/(days|conversations|turns|results)", Download, asked),
        (r"/data/events", Events, asked),
        (r"/data/pause", Pause, asked),
        (r"/metrics", Scrape, asked),
    ]
    # tornado's own log would contain the link.
    quiet = {"log_function": lambda handler: None, "compress_response": False}
    return Application(paths, default_handler_class=Nothing, default_handler_args=asked, **quiet)  # type: ignore[arg-type]


class PageHandler(RequestHandler):
    """A `PageHandler` is a handler that refuses requests without access to the page."""

    is_start: ClassVar[bool] = False
    SUPPORTED_METHODS = ("GET", "HEAD", "POST")

    def initialize(self, page: Page) -> None:
        self.page = page

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    def prepare(self) -> None:
        headers = {name.lower(): value for name, value in self.request.headers.items()}
        asked = PageRequest(
            self.request.method or "",
            headers,
            self.get_query_argument("token", ""),
            self.get_cookie(self._cookie(), "") or "",
            self.is_start,
        )
        self.is_proxied = self.page.access.is_proxied(asked)
        if why := self.page.access.refusal(asked):
            self.set_status(403)
            self.send(_PLAIN, f"Penumbra: {why}.\n")

    def write_error(self, status_code: int, **more: Any) -> None:
        self.send(_PLAIN, f"{status_code}\n")

    def log_exception(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Log the place of an error in the code. Tornado's own log line would contain the link."""
        if error is not None and not isinstance(error, HTTPError):
            _log.warning("Penumbra could not show the page: %s", errors.place(error))

    def send(self, kind: str, body: bytes | str, file: str = "") -> None:
        """Answer with `body` of the type `kind`. With `file`, the browser saves the body under that name."""
        self.set_header("Content-Type", kind)
        if file:
            self.set_header("Content-Disposition", f'attachment; filename="{file}"')
        self.finish(body)

    def _cookie(self) -> str:
        # Browsers send the cookies of a host to all its ports, so the cookie's name contains the port.
        _, _, port = self.request.host.rpartition(":")
        return f"{COOKIE}_{port}" if port.isdecimal() else COOKIE

    def let_in(self) -> None:
        """Set the cookie, so that the browser no longer needs the link."""
        access = self.page.access
        value = access.proxied_cookie if self.is_proxied else access.cookie
        self.set_cookie(self._cookie(), value, httponly=True, samesite="Strict", path="/")


class Nothing(PageHandler):
    def get(self) -> None:
        self.send_error(404)


class File(PageHandler):
    def get(self, name: str) -> None:
        kind = _TYPES[name.rpartition(".")[2]]
        body = (resources.files("penumbra.flow.page") / "static" / name).read_bytes()
        self.send(f"{kind}; charset=utf-8", body)


class Start(File):
    is_start = True

    def get(self, name: str = "index.html") -> None:
        self.let_in()
        super().get(name)


class Data(PageHandler):
    async def get(self, of: str, name: str = "") -> None:
        if (data := await self.page.contents.data(of, name)) is None:
            self.send_error(404)
        else:
            self.send(_JSON, orjson.dumps(data))


class Download(PageHandler):
    async def get(self, of: str) -> None:
        contents = self.page.contents
        if of == "everything":
            self.send(_JSON, await contents.everything(), "penumbra.json")
        else:
            self.send("text/csv; charset=utf-8", await contents.table(of) or "", f"penumbra-{of}.csv")


class Pause(PageHandler):
    def post(self) -> None:
        self.page.pause(is_on=self.get_query_argument("on", "") == "true")
        self.send(_JSON, b"{}")


class Scrape(PageHandler):
    def get(self) -> None:
        self.send(exposition.CONTENT_TYPE, self.page.contents.exposition())


class Events(PageHandler):
    """This handler sends a server-sent event when figures have changed. The page then requests the figures
    that it shows."""

    listener: Listener | None = None

    async def get(self) -> None:
        listeners = self.page.listeners
        if len(listeners) >= _MOST_LISTENERS:
            self.send_error(503)
            return
        headers = self.request.headers
        self.listener = listener = Listener((self.request.host, headers.get("User-Agent", "")))
        same = [each for each in listeners if each.browser == listener.browser and not each.is_replaced]
        if len(same) >= _MOST_OF_ONE:
            same[0].is_replaced = True
            same[0].news.set()
        listeners.append(listener)
        self.set_header("Content-Type", "text/event-stream")
        try:
            await self._send(b": here\n\n")
            while not listener.is_replaced:
                await self._send_news(listener.news)
            await self._send(b"event: replaced\ndata: 0\n\n")
        except (StreamClosedError, asyncio.CancelledError):
            # The browser has left, or the proxy ends. Tornado logs a cancelled handler as an error.
            pass
        finally:
            self.on_connection_close()

    def on_connection_close(self) -> None:
        if self.listener in self.page.listeners:
            self.page.listeners.remove(self.listener)

    async def _send_news(self, news: asyncio.Event) -> None:
        try:
            await asyncio.wait_for(news.wait(), _ALIVE)
            news.clear()
            await self._send(b"data: %d\n\n" % time.time())
            await asyncio.sleep(PAUSE)
        except TimeoutError:
            await self._send(b": here\n\n")

    async def _send(self, data: bytes) -> None:
        self.write(data)
        await self.flush()
