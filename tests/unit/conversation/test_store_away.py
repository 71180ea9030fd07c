"""The store fails during a request, and the operator allows no request without a store."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

pytest.importorskip("redis")

from penumbra.config.settings import Settings
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import Accepted, EngineSettings, Refused
from support.apis import APIS
from support.engines import arriving
from support.fleet import redis_server
from support.fleet.redis_server import RedisServer, Relay

pytestmark = pytest.mark.skipif(not redis_server.program(), reason=redis_server.MISSING)
API = APIS[0]
LOG = "\n".join(f"{number:05} worker idle, nothing to do" for number in range(300))


@pytest.mark.parametrize("policy", ["refuse", "go_on"])
async def test_a_request_in_which_the_store_fails_is_refused_too(policy: str, tmp_path: Path) -> None:
    redis = RedisServer(tmp_path / "redis")
    relay = Relay(redis.port)
    settings = Settings(database="memory", store=relay.url, store_key="5e" * 32, store_away=policy)
    body = API.body([("user", "Why?"), ("call", "toolu_1", "docker logs worker"), ("result", "toolu_1", LOG)])
    incoming = arriving(API, body, API.credential("k"))
    try:
        engine = Engine(EngineSettings.of(settings))
        assert engine.shared is not None
        # A working store gets enough time even on a busy machine.
        usual, engine.shared.patience = engine.shared.patience, 20.0
        while (before := engine.shared.figures.round_trips) < 2:
            await asyncio.sleep(0.01)
        assert isinstance(await engine.process(incoming, settings), Accepted)
        # One look, and the write of the form together with that of the original.
        assert engine.shared.figures.round_trips <= before + 3
        engine.shared.patience = usual
        relay.cut()
        assert isinstance(await engine.process(incoming, settings), Refused) is (policy == "refuse")
        relay.mend()
        while not engine.shared.is_whole:
            await asyncio.sleep(0.01)
        # The store is back, but other proxies may not know this yet, so no new result is shortened.
        assert not engine.shared.outage.is_settled
        relay.hold_replies()
        again = structs.replace(incoming, body=body.replace(b"toolu_1", b"toolu_2"))
        assert isinstance(await engine.process(again, settings), Refused) is (policy == "refuse")
        relay.mend()
        engine.close()
        await asyncio.sleep(0.01)
    finally:
        relay.close()
        redis.close()
