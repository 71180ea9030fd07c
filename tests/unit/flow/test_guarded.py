"""Hooks raise no exceptions except those that end their task or the process."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from mitmproxy import hooks
from mitmproxy.addonmanager import traverse
from mitmproxy.test import taddons, tflow, tutils

from penumbra.addon import Penumbra
from penumbra.flow import bodies
from penumbra.flow.guarded import LIFE, Guarded


def hooks_of(addon: Any) -> Iterator[str]:
    for name in hooks.all_hooks:
        if name not in LIFE and callable(getattr(addon, name, None)):
            yield name


def test_every_hook_of_every_addon_is_guarded() -> None:
    addon = Penumbra()
    parts = [part for part in vars(addon).values() if isinstance(part, Guarded)]
    found = [(each, name) for each in (*traverse([addon]), *parts) for name in hooks_of(each)]
    assert len(found) > 15
    assert [(addon, name) for addon, name in found if not hasattr(getattr(addon, name), "__wrapped__")] == []


class Broken(Guarded):
    """An addon whose hooks raise exceptions. `failed` also raises an exception if the test asks for one."""

    def __init__(self, error: BaseException, another: BaseException | None = None) -> None:
        self.error, self.another = error, another

    def request(self, _: Any) -> None:
        raise self.error

    async def response(self, _: Any) -> None:
        raise self.error

    def failed(self, hook: str, subject: Any, error: BaseException) -> bool:
        if self.another is not None:
            raise self.another
        return False


@pytest.mark.parametrize(
    "error",
    [
        ValueError("hunter2"),
        asyncio.CancelledError(),
        RecursionError(),
        MemoryError(),
        BaseException("hunter2"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exceptions_that_are_caught(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    flow = tflow.tflow()
    Broken(error).request(flow)
    assert flow.response is None
    asyncio.run(Broken(error).response(flow))
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "hunter2" not in caplog.text


def test_a_request_that_cannot_be_decided_is_not_sent() -> None:
    flow = tflow.tflow()
    Broken(ValueError(), asyncio.CancelledError()).request(flow)
    assert flow.response is not None
    assert flow.response.status_code == 500


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit()], ids=lambda error: type(error).__name__)
def test_exceptions_that_end_the_process_are_not_caught(error: BaseException) -> None:
    with pytest.raises(type(error)):
        Broken(error).request(tflow.tflow())


def test_the_end_of_a_task_goes_on() -> None:
    class Slow(Guarded):
        async def request(self, _: Any) -> None:
            await asyncio.sleep(60)

    async def go() -> bool:
        task = asyncio.ensure_future(Slow().request(tflow.tflow()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(go())


# If redaction is on, a request whose hook fails is refused and not sent unchanged.

BODY = b'{"model":"m","messages":[{"role":"user","content":"hunter2"}]}'


@pytest.mark.parametrize(("redact", "refused"), [("true", True), ("false", False)])
async def test_a_failure_before_the_engine_sends_nothing_unsearched(monkeypatch, redact, refused):
    addon = Penumbra()

    async def broken(*_):
        raise ZeroDivisionError("hunter2")

    monkeypatch.setattr(bodies, "decoded", broken)
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
    flow = flow
    assert (flow.response is not None) is refused
    assert flow.request.content == BODY
    if refused:
        assert flow.response.status_code == 500
        assert b"ZeroDivisionError at test_guarded.py:" in flow.response.content
        assert b"hunter2" not in flow.response.content
