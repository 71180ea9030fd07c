"""A receiver of OpenTelemetry's spans, and a proxy that sends them there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.page.conftest import Page
from support.telemetry_receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def traced(own_proxy: Any, clients: Any, upstream: Any, api_key: str, receiver: Receiver) -> Page:
    """An agent whose calls leave spans."""
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_RESOURCE_ATTRIBUTES": "team=shop",
    }
    proxy = own_proxy("regular", environment=environment, penumbra_traces="on")
    return Page(proxy, clients.http(proxy), upstream, api_key)
