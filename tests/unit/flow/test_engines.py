"""An engine is replaced if its settings change, and closes after its last request."""

import asyncio
import functools
import gc
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from penumbra.config.settings import Settings
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import EngineSettings
from penumbra.flow.current_settings import EngineHandle, Engines
from penumbra.metrics.amounts import ExternalMetrics
from penumbra.redaction.ruleset import Loaded
from support.apis import APIS
from support.engines import arriving

MEMORY = Settings(database="memory")
CHANGED: dict[str, dict[str, Any]] = {
    "database": {"database": "elsewhere.sqlite"},
    "shared": {"store": "redis://127.0.0.1:9", "store_key": "5e" * 32},
    "database_max_bytes": {"database_max_bytes": 1_000_000},
    "ledger_ttl": {"ledger_ttl": 5.0},
    "originals_ttl": {"originals_ttl": 5.0},
    "page_bytes": {"max_output_bytes": 4_000},
    "gitleaks_only": {"gitleaks_only": True},
    "rules": {"rules": "off"},
    "secrets_allow": {"secrets_allow": ("rule:x",)},
    "redaction_max_bytes": {"redaction_max_bytes": 5},
    "redaction_failure": {"redaction_failure": "pass"},
    "offload_bytes": {"offload_bytes": 5},
}


LRU = type(functools.cache(len))


class Handles:
    """The handles of one process."""

    def __init__(self) -> None:
        self.engines = Engines(ExternalMetrics(), tuple)

    def begin(self, settings: Settings, rules: Loaded | None = None) -> EngineHandle:
        return self.engines.handle(settings, EngineSettings.of(settings, rules))


def is_open(engine: Engine) -> bool:
    """Return whether an engine's threads and database still work."""
    try:
        engine.workers.submit(int).result()
        engine.database.submit(lambda connection: None).result()
    except RuntimeError:
        return False
    return True


def test_each_value_that_an_engine_is_made_with_can_be_changed() -> None:
    before = EngineSettings.of(MEMORY)
    for name, change in CHANGED.items():
        after = EngineSettings.of(replace(MEMORY, **change))
        assert getattr(after, name) != getattr(before, name)
    assert {*CHANGED, "user_rules"} == {one.name for one in fields(EngineSettings)}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
async def test_an_engine_closes_after_its_last_handle(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    handles = Handles()
    first, second = handles.begin(MEMORY), handles.begin(replace(MEMORY, min_bytes=1))
    assert second.engine is first.engine
    later = handles.begin(replace(MEMORY, **change))
    assert later.engine is not first.engine
    assert (later.engine.database is first.engine.database) is ("database" not in change)
    shared = first.share()
    for one in (first, first, second):
        one.end()
        assert is_open(first.engine)
    shared.end()
    assert not is_open(first.engine)
    later.end()
    assert is_open(later.engine)
    handles.engines.close(at_once=False)
    assert not is_open(later.engine)


@pytest.mark.parametrize("at_once", [False, True])
async def test_requests_under_way_outlive_their_engine_unless_the_process_ends(at_once: bool) -> None:
    handles = Handles()
    with handles.begin(MEMORY) as handle:
        handles.engines.close(at_once=at_once)
        assert is_open(handle.engine) is not at_once
    assert not is_open(handle.engine)


async def test_the_next_engine_reads_what_is_stored_in_memory() -> None:
    handles = Handles()
    with handles.begin(MEMORY) as handle:
        handle.engine.database.submit(lambda c: c.execute("CREATE TABLE kept (x)")).result()
        key = handle.engine.database.key
    with handles.begin(replace(MEMORY, originals_ttl=5.0)) as handle:
        await handle.engine.database.run(lambda c: c.execute("SELECT * FROM kept"))
        assert handle.engine.database.key == key
    handles.engines.close(at_once=True)


async def test_forgotten_data_leave_memory_and_disk_but_figures_stay(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    settings = Settings(database=str(file))
    handles = Handles()
    with handles.begin(settings) as handle:
        engine = handle.engine
        await engine.stores.originals.put(b"scope", {"ref": "the original"})
        await asyncio.wrap_future(engine.history.add({"requests": 1}, {}))
        rows = "SELECT count(*) FROM originals"
        (before,) = await engine.database.run(lambda found: found.execute(rows).fetchone())
        handles.engines.forget()
    with handles.begin(settings) as handle:
        assert handle.engine is not engine
        left = await handle.engine.stores.originals.get(b"scope", "ref")
        days = await asyncio.wrap_future(handle.engine.history.last(2))
    handles.engines.close(at_once=True)
    (before, left, days) = before, left, list(days.values())
    assert before == 1
    assert left is None
    assert [day["all"]["requests"] for day in days] == [1]


def _texts(value: Any, seen: set[int], depth: int = 12) -> Iterator[str]:
    """Yield all texts that a container or a cache keeps."""
    if id(value) in seen or depth == 0 or isinstance(value, type | type(sys) | Engine) or callable(value):
        return
    seen.add(id(value))
    if isinstance(value, str | bytes):
        yield value if isinstance(value, str) else value.decode("latin-1")
    else:
        for inner in gc.get_referents(value):
            yield from _texts(inner, seen, depth - 1)


def _caches(value: Any) -> Iterator[Any]:
    """Yield the values of a cache, of the caches in a function's closure, or the value itself."""
    if isinstance(value, LRU):
        yield gc.get_referents(value)
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            yield from _caches(cell.cell_contents)
    else:
        yield value


def _kept(text: str) -> list[str]:
    """Return the variables of modules that keep a text."""
    variables = [
        (f"{name}.{key}", value)
        for name, module in list(sys.modules.items())
        if name.startswith("penumbra")
        for key, value in vars(module).items()
    ]
    return [
        name
        for name, value in variables
        if any(text in each for cache in _caches(value) for each in _texts(cache, set()))
    ]


def test_no_cache_of_the_process_keeps_what_was_forgotten() -> None:
    said = "Wk4rQ8zT1nM6"
    result = f"DB_PASSWORD={said}-secret\nerror: {said} failed in /repo/{said}.py:12\n" * 9
    turns = [("user", said), ("call", "toolu_1", f"cat {said}.env"), ("result", "toolu_1", result)]
    incoming = arriving(APIS[0], APIS[0].body(turns), {"x-api-key": said}, host=f"{said}.example:443")

    async def live() -> list[str]:
        handles = Handles()
        with handles.begin(MEMORY) as handle:
            await handle.engine.process(incoming, MEMORY)
        before = _kept(said)
        handles.engines.forget()
        handles.engines.close(at_once=True)
        return before

    assert asyncio.run(live())
    gc.collect()
    assert _kept(said) == []
