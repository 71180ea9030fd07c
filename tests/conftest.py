"""Fixtures for tests that need a provider or a running proxy.

One stand-in serves a whole session, emptied before each test; proxies are started once for each set of
options that tests ask for, and shared. What a shared proxy remembers is kept apart by the API key:
every test has its own.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import ssl
from collections.abc import Callable, Iterator
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
"""Whoever runs the tests may have rules of their own."""
pytest_addoption = examples.add_option
PROXY_FIXTURES = {"shared_proxies", "own_proxy", "signing_proxy"}


def pytest_configure(config: pytest.Config) -> None:
    examples.configure(config)
    mitm.ALLOWED = config.option.markexpr != "not proxy"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collecting makes stays until the end: nobody need look it through for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests with a proxy before pytest selects by marks."""
    for item in items:
        if item.nodeid.startswith("tests/proxy/") or PROXY_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("proxy")
    examples.choose(config, items)


def pytest_make_parametrize_id(config: pytest.Config, val: object) -> str | None:
    """Names containers, of which pytest would tell the place in the table alone."""
    if isinstance(val, frozenset):
        # All workers have to name a case in one way, and each has an order of its own.
        return repr(sorted(val, key=repr))[:60]
    return repr(val)[:60] if isinstance(val, (tuple, list, dict)) else None


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of tests that are coroutines."""
    return "asyncio"


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """A command that runs in the tests' own process says less from then on; the next test hears all again."""
    log = logging.getLogger("penumbra")
    before = log.level
    yield
    log.setLevel(before)


StartProxy = Callable[..., Mitmdump]
PROXIES_AT_ONCE = 5
"""Shared ones; the one that was not asked for the longest time makes room. Each takes about 100 MB."""


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """The stand-in of the session."""
    with Upstream(tmp_path_factory.mktemp("upstream")) as running:
        yield running


@pytest.fixture
def upstream(provider: Upstream) -> Iterator[Upstream]:
    """The stand-in, as if just started."""
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
    """`proxy(mode, addon=True, **options)`: a running mitmdump, shared with other tests.

    Do not stop it or change its options; for that there is `own_proxy`.
    """
    return shared_proxies


@pytest.fixture
def own_proxy(
    upstream: Upstream, confdir: Path, starter: Starter | None, tmp_path: Path
) -> Iterator[StartProxy]:
    """`own_proxy(mode, addon=True, environment={}, script=ADDON, started=True, forked=True, **options)`:
    one of this test's own, with a state of its own, to be restarted and changed at will. Where it matters what
    is imported, it can't be forked."""
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
    """A service that shortens texts, as if just started."""
    running_service.reset()
    return running_service


_KEYS = itertools.count(1)


@pytest.fixture
def api_key(request: pytest.FixtureRequest) -> str:
    """A credential that no other test of the session uses."""
    worker = getattr(request.config, "workerinput", {}).get("workerid", "main")
    return f"key-{worker}-{next(_KEYS)}"


class Clients:
    """The official SDKs and their HTTP client, made to talk through a proxy."""

    def __init__(self, api_key: str) -> None:
        self._key = api_key
        self._open: list[Any] = []
        self.httpx: Any = import_module("httpx2" if find_spec("httpx2") else "httpx")

    def of(self, api_key: str) -> Clients:
        """Those of another caller; closed together with these."""
        other = Clients(api_key)
        other._open = self._open
        return other

    def http(self, proxy: Mitmdump | None, *, http2: bool = False, **more: Any) -> Any:
        """An HTTP client: through the proxy in regular mode, else one that may call its address."""
        if proxy is not None:
            more["verify"] = proxy.trust()
            more["proxy"] = None if proxy.is_reverse else proxy.url
        # To read all that a system trusts takes longer than most tests.
        more.setdefault("verify", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        client = self.httpx.Client(http2=http2, trust_env=False, timeout=60, **more)
        self._open.append(client)
        return client

    def base(self, proxy: Mitmdump, host: str, *, http2: bool = False) -> str:
        """The base URL to give a client: the provider's own, or the proxy's in reverse mode.

        HTTP/2 needs TLS on the client's side too; mitmproxy takes it on the same port.
        """
        if not proxy.is_reverse:
            return host
        return proxy.url.replace("http:", "https:") if http2 else proxy.url

    def anthropic(self, proxy: Mitmdump, *, http2: bool = False, **more: Any) -> Any:
        """`anthropic.Anthropic`, at api.anthropic.com, or at the proxy's address in reverse mode."""
        import anthropic

        base = self.base(proxy, "https://api.anthropic.com", http2=http2)
        settings = {"api_key": self._key, "base_url": base, "max_retries": 0, **more}
        return anthropic.Anthropic(http_client=self.http(proxy, http2=http2), **settings)

    def openai(self, proxy: Mitmdump, *, http2: bool = False, **more: Any) -> Any:
        """`openai.OpenAI`, at api.openai.com, or at the proxy's address in reverse mode."""
        import openai

        base = self.base(proxy, "https://api.openai.com", http2=http2)
        settings = {"api_key": self._key, "base_url": f"{base}/v1", "max_retries": 0, **more}
        return openai.OpenAI(http_client=self.http(proxy, http2=http2), **settings)

    def close(self) -> None:
        for client in self._open:
            client.close()


@pytest.fixture
def clients(api_key: str) -> Iterator[Clients]:
    """Factories of clients; all are closed after the test."""
    made = Clients(api_key)
    yield made
    made.close()
