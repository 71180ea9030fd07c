"""The address and the key of a store that several proxies share."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penumbra.config import settings
from penumbra.config.settings import SettingsError, load, shared_place

KEY = "0a" * 32
STORE = {"store": "redis://user:pass-word@127.0.0.1:6379/0"}


def test_a_key_comes_from_a_file_or_from_the_option(tmp_path: Path) -> None:
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


PROBLEMS = {
    "localhost:6379": "begins with none of them",
    "valkey://host:6379/0": "begins with none of them",
    "redis://": "has no host",
    "redis:host:6379": "has no host",
    "redis://host:port/0": "port is no number",
    "redis://host:0/0": "port is no number",
    "redis://one:26379,other:26379/0": "port is no number",
    "redis://host:6379/live": "no number of a database",
    "redis://host:6379/99999999999": "no number of a database",
    "redis://host:6379/0?db=live": "db has another form than ",
    "redis://ho st:6379/0": "a blank or a #",
    "redis://host:6379/0#1": "a blank or a #",
    "redis://host?db": "needs NAME=VALUE",
    "redis://host?decode_responses=true": "a name that is none of db, ",
    "rediss://host?ssl_ca=/etc/ca.pem": "a name that is none of db, ",
    "redis://host?ssl_ca_certs=/etc/ca.pem": "ssl_ca_certs needs rediss://",
    "unix:///run/redis.sock?ssl_cert_reqs=none": "ssl_cert_reqs needs rediss://",
    "rediss://host?ssl_cert_reqs=maybe": "ssl_cert_reqs has another form than none.optional.required",
    "unix://run/redis.sock": "path does not begin with /",
    "unix://": "path does not begin with /",
}


@pytest.mark.parametrize("store", PROBLEMS)
def test_the_error_names_the_fault_of_an_address(store: str) -> None:
    with pytest.raises(SettingsError, match=f"; here .*{PROBLEMS[store]}") as error:
        load({"store": store, "store_key": KEY}, {})
    assert str(error.value).startswith("penumbra_store: got (hidden), allowed: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
def test_a_file_of_tls_that_is_not_there_stops_the_start(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^penumbra_store: {name}: got .*\(No such file") as error:
        load({"store": f"rediss://:pass-word@host?{name}=/nowhere/at/all.pem", "store_key": KEY}, {})
    assert "pass-word" not in str(error.value)


@pytest.mark.parametrize(
    "store",
    [
        *("redis://:Zk7q#ssWq9Xr2Lm8@host:6379/0", "redis://:Zk7qWq9Xr2Lm8pa/ss@host:6379"),
        *("redis://:1234/Zk7qWq9Xr2Lm8@host:6379", "redis://:Zk7q?Wq9Xr2Lm8@host:6379"),
        *("redis:/user:Zk7qWq9Xr2Lm8@host", "redis://user:Zk7qWq9Xr2Lm8@host:63x79"),
        *("redis://user:Zk7qWq9Xr2Lm8@[::1", "redis://host?password=Zk7qWq9Xr2Lm8&db=x"),
        "redis://user:Zk7qWq9Xr2Lm8@host?decode_responses=true",
    ],
)
def test_an_invalid_address_is_refused_without_its_password(store: str) -> None:
    with pytest.raises(SettingsError, match="percent-encoded") as error:
        load({"store": store, "store_key": KEY}, {})
    assert not any(part in str(error.value) for part in ("Zk7q", "Wq9Xr2Lm8", "1234"))


@pytest.mark.parametrize(
    "store",
    [
        "redis://host",
        "redis://:p%23%2F%3Fss@host:6379/0",
        "rediss://[::1]:6380/3?ssl_ca_certs=/dev/null&ssl_cert_reqs=required&ssl_check_hostname=false",
        "rediss://host?ssl_certfile=/dev/null&ssl_keyfile=/dev/null&client_name=one",
        "unix:///run/redis.sock?db=2&password=x",
        "unix://user:password@/run/redis.sock",
    ],
)
def test_a_valid_address_makes_a_client(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    redis = pytest.importorskip("redis.asyncio").Redis
    from penumbra.store.shared_store import SharedStore

    clients: list[Any] = []
    from_url = redis.from_url
    monkeypatch.setattr(
        redis, "from_url", lambda *of, **more: clients.append(from_url(*of, **more)) or clients[0]
    )
    place = shared_place(load({"store": store, "store_key": KEY}, {}))
    assert place is not None
    SharedStore(place).close()
    # The client refuses unknown parameters only here.
    clients[0].connection_pool.make_connection()


def test_redis_is_not_imported_unless_it_is_chosen() -> None:
    code = "import sys, penumbra.addon; sys.exit('redis' in sys.modules)"
    path = {"PYTHONPATH": str(Path(__file__).parents[3] / "addon")}
    assert subprocess.run([sys.executable, "-c", code], env=path, check=False).returncode == 0


def test_without_redis_the_error_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"^penumbra_store: .*pip install 'redis") as error:
        load({**STORE, "store_key": KEY}, {})
    assert sys.executable in str(error.value)
    assert "pass-word" not in str(error.value)
