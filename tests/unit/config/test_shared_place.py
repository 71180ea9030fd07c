"""Where several proxies share a store, and the key that they have in common."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penumbra.config import settings
from penumbra.config.settings import SettingsError, load, shared_place

KEY = "0a" * 32
STORE = {"store": "redis://user:pass-word@127.0.0.1:6379/0"}


def test_a_key_comes_from_a_file_or_is_given(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    for given in (KEY, str(file)):
        place = shared_place(load({**STORE, "store_key": given}, {}))
        assert place is not None
        assert place.key == bytes.fromhex(KEY)
        assert "pass-word" not in repr(place)
        assert KEY not in repr(place)
    variables = {"PENUMBRA_STORE": STORE["store"], "PENUMBRA_STORE_KEY": KEY}
    assert shared_place(load({}, variables)) == place
    assert shared_place(load({}, {})) is None


@pytest.mark.parametrize("given", ["", "0a" * 31, "/nowhere/at/all", "EMPTY"])
def test_without_a_key_there_is_one_line(given: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    with pytest.raises(SettingsError, match="penumbra_store_key") as error:
        load({**STORE, "store_key": str(empty) if given == "EMPTY" else given}, {})
    assert "\n" not in str(error.value)
    assert "pass-word" not in str(error.value)
    assert "0a0a" not in str(error.value)


@pytest.mark.parametrize("store", ["localhost:6379", "http://localhost", "redis://"])
def test_other_addresses_are_refused(store: str) -> None:
    with pytest.raises(SettingsError, match="redis://HOST:PORT"):
        load({"store": store, "store_key": KEY}, {})


@pytest.mark.parametrize(
    "store",
    [
        "redis://:Zk7q#ssWq9Xr2Lm8@host:6379/0",
        "redis://:Zk7qWq9Xr2Lm8pa/ss@host:6379",
        "redis://:1234/Zk7qWq9Xr2Lm8@host:6379",
        "redis://:Zk7q?Wq9Xr2Lm8@host:6379",
        "redis:/user:Zk7qWq9Xr2Lm8@host",
        "redis://user:Zk7qWq9Xr2Lm8@host:63x79",
        "redis://user:Zk7qWq9Xr2Lm8@[::1",
        "redis://host?password=Zk7qWq9Xr2Lm8&db=x",
        "redis://user:Zk7qWq9Xr2Lm8@host?decode_responses=true",
    ],
)
def test_what_cannot_be_used_is_refused_without_its_password(store: str) -> None:
    with pytest.raises(SettingsError, match="percent-encoded") as error:
        load({"store": store, "store_key": KEY}, {})
    assert not any(part in str(error.value) for part in ("Zk7q", "Wq9Xr2Lm8", "1234"))


@pytest.mark.parametrize(
    "store",
    [
        "redis://host",
        "redis://:p%23%2F%3Fss@host:6379/0",
        "rediss://[::1]:6380/3?ssl_ca_certs=/etc/ca.pem&ssl_cert_reqs=required",
        "unix:///run/redis.sock?db=2&password=x",
        "unix://user:password@/run/redis.sock",
    ],
)
def test_what_can_be_used_makes_a_client(store: str) -> None:
    pytest.importorskip("redis")
    from penumbra.store.shared_store import SharedStore

    place = shared_place(load({"store": store, "store_key": KEY}, {}))
    assert place is not None
    SharedStore(place).close()


def test_redis_is_not_imported_unless_it_is_chosen() -> None:
    code = "import sys, penumbra.addon; sys.exit('redis' in sys.modules)"
    path = {"PYTHONPATH": str(Path(__file__).parents[3] / "addon")}
    assert subprocess.run([sys.executable, "-c", code], env=path, check=False).returncode == 0


def test_without_redis_the_start_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"^penumbra_store: .*pip install 'redis") as error:
        load({**STORE, "store_key": KEY}, {})
    assert sys.executable in str(error.value)
    assert "pass-word" not in str(error.value)
