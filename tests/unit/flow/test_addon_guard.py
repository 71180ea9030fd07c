"""Whatever fails on the way of a request: with redaction on it is refused, not sent as it came."""

import asyncio

import pytest
from mitmproxy.test import taddons, tflow, tutils

from penumbra.addon import Penumbra

BODY = b'{"model":"m","messages":[{"role":"user","content":"hunter2"}]}'


@pytest.mark.parametrize(("redact", "refused"), [("true", True), ("false", False)])
def test_a_failure_before_the_engine_sends_nothing_unsearched(monkeypatch, redact, refused):
    async def go():
        addon = Penumbra()

        async def broken(*_):
            raise ZeroDivisionError("hunter2")

        monkeypatch.setattr(addon.requests, "_incoming", broken)
        with taddons.context(addon) as context:
            context.configure(addon, penumbra_database="memory", penumbra_redact_secrets=redact)
            flow = tflow.tflow(
                req=tutils.treq(
                    method=b"POST",
                    host="api.openai.com",
                    path=b"/v1/chat/completions",
                    content=BODY,
                    headers=((b"content-type", b"application/json"),),
                )
            )
            await addon.request(flow)
            addon.done()
        return flow

    flow = asyncio.run(go())
    assert (flow.response is not None) is refused
    assert flow.request.content == BODY
    if refused:
        assert flow.response.status_code == 500
        assert b"ZeroDivisionError at test_addon_guard.py:" in flow.response.content
        assert b"hunter2" not in flow.response.content
