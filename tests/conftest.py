"""Fixtures for tests that need a provider or a running proxy. One test provider serves a whole session and is
emptied before each test. A proxy is started once for each set of options that tests ask for, and shared; each
test has an API key of its own, which keeps apart what a shared proxy remembers."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import ssl
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support import examples, mitm
from support.compressor_service import Service
from support.mitm import ADDON, Mitmdump, stop_all
from support.mitm.starter import POSSIBLE, Starter
from support.upstream import Upstream

os.environ["XDG_CONFIG_HOME"] = os.devnull
"""Rules of the person who runs the tests are not read."""
pytest_addoption = examples.add_option
PROXY_FIXTURES = {"shared_proxies", "own_proxy", "signing_proxy"}


def pytest_configure(config: pytest.Config) -> None:
    examples.configure(config)
    mitm.ALLOWED = config.option.markexpr != "not proxy"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what collecting has made out of garbage collection: all of it stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests with a proxy before pytest selects by marks."""
    for item in items:
        if item.nodeid.startswith("tests/proxy/") or PROXY_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("proxy")
    examples.choose(config, items)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a value without an id by its beginning, where pytest would give its place in the table. Raises
    ValueError for a value that can't be named."""
    if isinstance(val, Enum) or (isinstance(val, (str, bytes)) and len(val) <= 100):
        return None
    if isinstance(val, (set, frozenset)):
        # Workers iterate over a set in different orders, but have to use equal names of cases.
        val = sorted(val, key=repr)
    name = getattr(val, "__name__", "") or repr(val)
    if name == "<lambda>" or " at 0x" in name:
        raise ValueError(f"{argname}: {name} says nothing: the case needs an id")
    return name if len(name) <= 60 else f"{name[:60]}({len(name)})"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Restore the log's level after a test: a command that runs in the tests' own process may change it."""
    log = logging.getLogger("penumbra")
    before = log.level
    yield
    log.setLevel(before)


StartProxy = Callable[..., Mitmdump]
PROXIES_AT_ONCE = 5
"""Greatest number of running shared proxies, which take about 100 MB each. A new one replaces the least
recently used one."""


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """The test provider of the session."""
    with Upstream(tmp_path_factory.mktemp("upstream")) as running:
        yield running


@pytest.fixture
def upstream(provider: Upstream) -> Iterator[Upstream]:
    """The test provider without the requests, the script and the settings of earlier tests."""
    provider.reset()
    yield provider
    assert not provider.errors, provider.errors


@pytest.fixture(scope="session")
def confdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of mitmproxy's CA, shared by the session's proxies."""
    return tmp_path_factory.mktemp("confdir")


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter | None]:
    """The process that proxies are forked from."""
    made = Starter() if POSSIBLE else None
    yield made
    if made is not None:
        made.close()


@pytest.fixture(scope="session")
def shared_proxies(
    provider: Upstream, confdir: Path, starter: Starter | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartProxy]:
    running: dict[Any, Mitmdump] = {}

    def get(mode: str = "regular", *, addon: bool = True, **options: str) -> Mitmdump:
        key = (mode, addon, tuple(sorted(options.items())))
        if key not in running:
            while len(running) >= PROXIES_AT_ONCE:
                running.pop(next(iter(running))).stop()
            home = tmp_path_factory.mktemp("proxy")
            running[key] = Mitmdump(
                provider, confdir, home, mode, addon, options=options, starter=starter
            ).start()
        running[key] = running.pop(key)
        return running[key]

    yield get
    stop_all(running.values())


@pytest.fixture
def proxy(shared_proxies: StartProxy, upstream: Upstream) -> StartProxy:
    """`proxy(mode, addon=True, **options)` returns a running mitmdump that other tests use, too. A test that
    stops it or changes its options takes `own_proxy`."""
    return shared_proxies


@pytest.fixture
def own_proxy(
    upstream: Upstream, confdir: Path, starter: Starter | None, tmp_path: Path
) -> Iterator[StartProxy]:
    """`own_proxy(mode, addon=True, environment={}, script=ADDON, started=True, forked=True, **options)`
    returns a mitmdump of the test's own, which it may restart and change. One that is forked has imported the
    package already."""
    made: list[Mitmdump] = []

    def start(
        mode: str = "regular",
        *,
        addon: bool = True,
        environment: dict[str, str] | None = None,
        script: Path = ADDON,
        started: bool = True,
        forked: bool = True,
        **options: str,
    ) -> Mitmdump:
        home = tmp_path / f"proxy{len(made)}"
        from_starter = starter if forked else None
        proxy = Mitmdump(
            upstream, confdir, home, mode, addon, script, options, environment or {}, starter=from_starter
        )
        made.append(proxy)
        return proxy.start() if started else proxy

    yield start
    stop_all(made)


@pytest.fixture(scope="session")
def running_service() -> Iterator[Service]:
    with Service() as running:
        yield running


@pytest.fixture
def service(running_service: Service) -> Service:
    """A compressor service without the requests and settings of earlier tests."""
    running_service.reset()
    return running_service


_KEYS = itertools.count(1)


@pytest.fixture
def api_key(request: pytest.FixtureRequest) -> str:
    """A credential that no other test of the session uses."""
    worker = getattr(request.config, "workerinput", {}).get("workerid", "main")
    return f"key-{worker}-{next(_KEYS)}"


class Clients:
    """`Clients` makes the official SDKs and their HTTP client talk through a proxy."""

    def __init__(self, api_key: str) -> None:
        self._key = api_key
        self._open: list[Any] = []
        self.httpx: Any = import_module("httpx2" if find_spec("httpx2") else "httpx")

    def of(self, api_key: str) -> Clients:
        """Return the clients of another caller, which are closed together with these."""
        other = Clients(api_key)
        other._open = self._open
        return other

    def http(self, proxy: Mitmdump | None, *, http2: bool = False, **more: Any) -> Any:
        """Return an HTTP client that uses a proxy in regular mode. For other modes, the client trusts the
        proxy's CA."""
        if proxy is not None:
            more["verify"] = proxy.trust()
            more["proxy"] = None if proxy.is_reverse else proxy.url
        # Reading all certificates that a system trusts takes longer than most tests.
        more.setdefault("verify", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        client = self.httpx.Client(http2=http2, trust_env=False, timeout=60, **more)
        self._open.append(client)
        return client

    def base(self, proxy: Mitmdump, host: str, *, http2: bool = False) -> str:
        """Return the base URL for a client: the provider's own, or the proxy's in reverse mode. HTTP/2 needs
        TLS on the client's side; mitmproxy takes it on the same port."""
        if not proxy.is_reverse:
            return host
        return proxy.url.replace("http:", "https:") if http2 else proxy.url

    def anthropic(self, proxy: Mitmdump, *, http2: bool = False, **more: Any) -> Any:
        """Return `anthropic.Anthropic` at api.anthropic.com, or at the proxy's address in reverse mode."""
        import anthropic

        base = self.base(proxy, "https://api.anthropic.com", http2=http2)
        settings = {"api_key": self._key, "base_url": base, "max_retries": 0, **more}
        return anthropic.Anthropic(http_client=self.http(proxy, http2=http2), **settings)

    def openai(self, proxy: Mitmdump, *, http2: bool = False, **more: Any) -> Any:
        """Return `openai.OpenAI` at api.openai.com, or at the proxy's address in reverse mode."""
        import openai

        base = self.base(proxy, "https://api.openai.com", http2=http2)
        settings = {"api_key": self._key, "base_url": f"{base}/v1", "max_retries": 0, **more}
        return openai.OpenAI(http_client=self.http(proxy, http2=http2), **settings)

    def close(self) -> None:
        for client in self._open:
            client.close()


@pytest.fixture
def clients(api_key: str) -> Iterator[Clients]:
    """Factories of clients, all of which are closed after the test."""
    made = Clients(api_key)
    yield made
    made.close()
