"""The figures of the page outlive a restart, and only allowed clients get them."""

import csv
import io
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from proxy.page.conftest import HOSTILE, LOG, SECRET, Page
from support.agents.model import CAP, ask, log
from support.agents.websocket_caller import Talker
from support.mitm import ADDON, eventually
from support.mitm.web import free_port


def test_the_page_shows_results_to_holders_of_the_link_and_after_a_restart(page):
    shown = page(penumbra_page_originals="on")
    shown.tool_prints()
    now = shown.json("/data/now")
    sums = now["amounts"]
    assert (sums["requests"], sums["new_results"], sums["secrets"]) == (2, 1, {"github-token": 1})
    assert 0 < sums["net"] < sums["saved"] < sums["sent_before"]
    assert sums["responses"] == 2
    assert sums["dollars"] > 0
    assert [each["name"] for each in now["agents"]] == ["claude-cli"]
    (session,) = shown.json("/data/sessions")
    turns = shown.json(f"/data/session/{session['id']}")["turns"]
    (result,) = turns[1]["results"]
    assert result["tokens"][1] < result["tokens"][0] / 2

    # The figures and their export hold no secret; text that would be markup is text in JSON.
    status, body, headers = eventually(
        lambda: (found := shown.get(f"/data/result/{result['number']}")) and b'"rows":[' in found[1] and found
    )
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert SECRET.encode() not in body
    assert HOSTILE in {row[2] for row in json.loads(body)["rows"] if row[0] != "gap"}
    for path in ("/data/everything", "/metrics", "/data/table/results", "/data/now"):
        _, body, _ = shown.get(path)
        assert SECRET.encode() not in body
        assert LOG[:40].encode() not in body
    rows = list(csv.DictReader(io.StringIO(shown.get("/data/table/turns")[1].decode())))
    assert [row["conversation"] for row in rows] == [session["id"]] * 2
    assert f"penumbra_requests_total {sums['requests']}" in shown.get("/metrics")[1].decode()

    # The days include what is not written down yet.
    assert [day["amounts"]["requests"] for day in shown.json("/data/past")] == [2]

    link = shown.link
    shown.proxy.stop()
    shown.proxy.start()
    assert shown.link == link
    assert shown.json("/data/sessions") == []
    (day,) = shown.json("/data/past")
    assert day["amounts"]["requests"] == 2
    assert [each["id"] for each in day["conversations"]] == [session["id"]]


def test_other_clients_get_nothing_and_headers_restrict_browsers(page):
    shown = page()
    netloc = urlsplit(shown.link).netloc
    for path in ("/", "/page.js", "/data/now", "/data/events", "/metrics", "/nothing"):
        status, body, headers = shown.get(path, Authorization="")
        assert status == 403, path
        assert b"figures" not in body
        assert "script-src 'self'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
    assert shown.get("/", Host="evil.example")[0] == 403
    assert shown.get("/data/now", Origin="http://evil.example")[0] == 403
    assert shown.get("/data/now", Sec_Fetch_Site="cross-site")[0] == 403
    status, body, headers = shown.get("/")
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert {"HttpOnly", "SameSite=Strict"} <= set(headers["Set-Cookie"].split("; "))
    assert body.count(b"<script") == body.count(b"<script src=") == 1
    assert b"style=" not in body
    assert shown.get("/../server.py")[0] == 404
    # Through the proxy everybody would come from this machine.
    assert shown.get("/", through=shown.proxy.url)[0] == 403
    assert shown.get("/?token=%ff", Authorization="")[0] == 400
    assert "%ff" not in shown.proxy.log()
    assert netloc not in shown.proxy.log() or "token" not in shown.proxy.log()


def test_through_the_proxy_it_is_led_to_and_its_events_come_at_once(page, tmp_path):
    saved = tmp_path / "flows"
    shown = page(penumbra_page="proxy", save_stream_file=str(saved))
    assert shown.link.startswith("http://penumbra.local/?token=")
    through = shown.proxy.url
    assert shown.get("/data/now", through=through)[0] == 200
    assert shown.get("/data/now", through=through, Authorization="")[0] == 403
    assert shown.get("/data/now", through=through, Authorization="", X_Penumbra_Page="x")[0] == 403

    found = threading.Event()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": through}))
    address = shown.link.replace("/?", "/data/events?")
    with opener.open(address, timeout=30) as events:
        assert events.headers["Content-Type"] == "text/event-stream"
        assert events.readline() == b": here\n"

        def listen():
            while not events.readline().startswith(b"data: "):
                pass
            found.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        shown.tool_prints()
        assert found.wait(20)
        listener.join()
    # A browser comes by the link first, and by its cookie then.
    token = urlsplit(shown.link).query
    status, _, headers = shown.get(f"/?{token}", through=through, Authorization="")
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert status == 200
    assert shown.get("/", through=through, Authorization="", Cookie=cookie)[0] == 200
    # A stream of events without an end is not kept in memory, and flows don't show the link.
    flows = [flow for flow in shown.proxy.flows() if flow["path"].startswith("/data/")]
    assert {flow["path"] for flow in flows} == {"/data/now", "/data/events"}
    assert {flow["answer"] for flow in flows} == {""}
    shown.proxy.stop()
    written = saved.read_bytes()
    assert b"/data/events" in written
    for secret in (token.removeprefix("token="), cookie.partition("=")[2], "x-penumbra-page"):
        assert secret.encode() not in written


def test_a_proxy_with_an_open_page_ends_without_an_error(page):
    shown = page()
    with urllib.request.urlopen(shown.link.replace("/?", "/data/events?"), timeout=30) as events:
        assert events.readline() == b": here\n"
        shown.proxy.stop()
    assert "Traceback" not in shown.proxy.log()


def test_the_bill_of_a_websocket_is_counted_and_the_page_outlives_a_reload(
    own_proxy, clients, upstream, api_key, tmp_path
):
    script = tmp_path / "main.py"
    script.write_text(ADDON.read_text())
    proxy = own_proxy("reverse", script=script, penumbra_page=str(free_port()))
    shown = Page(proxy, clients.http(proxy), upstream, api_key)
    talker = Talker(proxy, key=api_key)
    try:
        assert talker.say("Hello.") == "Understood."
    finally:
        talker.close()
    sums = eventually(lambda: (found := shown.json("/data/now")["amounts"]).get("responses") and found)
    assert sums["requests"] == sums["responses"] == 1
    assert sums["input"] > 0

    link = shown.link
    os.utime(script, (script.stat().st_atime, script.stat().st_mtime + 5))
    assert eventually(lambda: proxy.log().count("Penumbra is active") == 2)
    assert eventually(lambda: shown.link == link and "requests" not in shown.json("/data/now")["amounts"])
    assert [day["amounts"]["requests"] for day in shown.json("/data/past")] == [1]
    ran = subprocess.run(
        [sys.executable, "-m", "penumbra", "page"],
        env={**os.environ, "XDG_STATE_HOME": str(proxy.state), "PYTHONPATH": str(ADDON.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, f"{link}\n")


def test_the_page_shows_the_cost_and_the_reason_of_a_cache_miss(page):
    shown = page(penumbra_max_output_bytes=CAP)
    shown.tool_prints(ask(), text=log())
    sums = shown.json("/data/now")["amounts"]
    assert (sums["asked"], sums["found"], sums["hidden_calls"]) == (1, 1, 1)
    assert sums["hidden_tokens"] > 1_000
    assert sums["net"] < sums["saved"] - sums["hidden_tokens"]
    (tool,) = shown.json("/data/now")["tools"]
    assert (tool["name"], tool["asked"]) == ("Bash", 1)

    for tools, cached in ((1, 2_000), (1, 2_000), (2, 0)):
        shown.says(tools, cached)
    now = shown.json("/data/now")
    assert now["amounts"]["misses"] == {"tools changed": 1}, now["advice"]
    assert now["amounts"]["missed"] > 1_000


def test_the_page_can_be_off(page):
    shown = page(penumbra_page="off")
    assert shown.link == ""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": shown.proxy.url}))
    with pytest.raises(urllib.error.HTTPError, match="404"):
        opener.open("http://penumbra.local/", timeout=30)
