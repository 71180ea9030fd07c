"""The page in a browser: live, by keyboard, dark and narrow, for everybody, and with hostile names and texts."""

import os
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

from proxy.page.conftest import HOSTILE
from support import browser as browsers
from support.mitm import eventually

DRAWN = "document.querySelector('main[data-drawn] h1') && document.querySelector('main h1').textContent"
WIDER = """[...document.querySelectorAll('.scroll')].filter(table => table.scrollWidth > table.clientWidth)
    .map(table => table.getAttribute('aria-label') + ' ' + table.scrollWidth + ' > ' + table.clientWidth)"""
"""A script that returns the tables whose content is out of sight."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penumbra-tests"


def lacking(what):
    """Skip the test with a warning."""
    warnings.warn(f"the page is not looked at: this machine has no {what}", stacklevel=2)
    pytest.skip(f"needs {what}")


def axe():
    """Return axe-core's script, as npm has it, or had it earlier."""
    script = CACHE / "node_modules/axe-core/axe.min.js"
    if not script.exists() and shutil.which("npm"):
        CACHE.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "axe-core@4"]
        subprocess.run(command, cwd=CACHE, timeout=120, check=False)
    return script.read_text() if script.exists() else ""


@pytest.fixture
def browser():
    if not browsers.program():
        lacking("Chromium")
    with browsers.Browser() as opened:
        yield opened


def violations(browser, script):
    browser.run(f"{script};0")
    return browser.run(
        "axe.run().then(r => r.violations.map(v => v.id + ' ' + v.nodes.map(n => n.html.slice(0, 200))))"
    )


def test_the_page_is_live_obeys_keys_and_runs_no_foreign_script(page, browser):
    shown = page(penumbra_page_originals="on")
    browser.prefers("light")
    browser.open(shown.link)
    browser.until(f"({DRAWN}) === 'Sent and saved'")
    assert "token" not in browser.run("location.href + document.cookie")
    browser.until("document.getElementById('live').textContent.startsWith('live')")
    shown_first = browser.run("document.querySelector('main').textContent")
    assert "No requests yet." in shown_first
    assert "no tool results yet" in shown_first
    assert "unknown of" not in shown_first

    # The page shows by itself what happens meanwhile; names and texts stay text.
    shown.tool_prints()
    shown.tool_prints(model=HOSTILE)
    browser.until("document.querySelector('main').textContent.includes('claude-cli')")
    cells = "[...document.querySelectorAll('td')].map(cell => cell.textContent)"
    assert browser.until(f"{cells}.find(text => text.startsWith('<script'))") == HOSTILE[:60]

    browser.press("2")
    browser.until(f"({DRAWN}) === 'Sessions'")
    browser.press("j")
    browser.press("Enter")
    browser.until(f"({DRAWN}).startsWith('Session ')")
    numbered = "[...document.querySelectorAll('.turn h3')].map(head => head.textContent.split(' · ')[0])"
    assert browser.run(numbered)[:2] == ["turn 4", "turn 3"]
    browser.run("[...document.querySelectorAll('main a[data-row]')].at(-1).click()")
    browser.until(f"({DRAWN}).startsWith('Result ')")
    browser.until("document.querySelector('.diff') !== null")
    assert browser.run(
        "[...document.querySelectorAll('.diff td')].some(c => c.textContent.includes('onerror'))"
    )
    assert browser.run("document.querySelectorAll('main script, main img').length") == 0
    assert browser.run("document.title").endswith("Penumbra")
    browser.press("u")
    browser.until(f"({DRAWN}).startsWith('Session ')")

    # The page's policy stops scripts, too.
    browser.run(
        "document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:9/x'}))"
    )
    assert eventually(
        lambda: browser.run("1") and any("Content Security Policy" in each for each in browser.said)
    )
    browser.said.clear()

    browser.press("/")
    browser.run(
        "document.getElementById('search').value = 'no such thing'; document.getElementById('search').dispatchEvent(new Event('input'))"
    )
    assert browser.run("[...document.querySelectorAll('.turn')].every(t => t.offsetParent === null)")
    browser.run("document.getElementById('search').blur()")

    browser.run("document.getElementById('pause').click()")
    browser.until("document.getElementById('state').textContent === 'paused'")
    assert eventually(lambda: shown.running["is_paused"])
    assert browser.said == []


def test_many_tabs_of_one_browser(page, browser):
    """A browser opens six connections to a host, and has none left where each tab holds one."""
    shown = page()
    browser.open(shown.link)
    browser.until(DRAWN)
    browser.until("document.getElementById('live').textContent.startsWith('live')")
    for _ in range(7):
        browser.run("window.open('/') !== null")
    browser.until("document.getElementById('live').textContent === 'every 10 seconds'")
    assert browser.run("fetch('data/now').then(response => response.status)") == 200
    shown.tool_prints()
    browser.until("document.querySelector('main').textContent.includes('claude-cli')")


def test_axe_finds_nothing(page, browser):
    if not (script := axe()):
        lacking("npm, or axe-core from it")
    shown = page(penumbra_page_originals="on")
    shown.tool_prints()
    browser.open(shown.link)
    browser.until(DRAWN)
    (session,) = shown.json("/data/sessions")
    number = shown.json(f"/data/session/{session['id']}")["turns"][1]["results"][0]["number"]
    views = ("now", "sessions", "by", "days", "export", f"session/{session['id']}", f"result/{number}")
    for width in (1200, 360):
        browser.resize(width, 800)
        for theme in ("light", "dark"):
            browser.run(f"document.documentElement.setAttribute('data-theme', '{theme}')")
            for view in views:
                before = browser.run("document.querySelector('main').getAttribute('data-drawn')")
                browser.run(f"location.hash = '{view}'")
                # The page is live, so that the view before may be drawn once more in between.
                browser.until(
                    f"document.querySelector('main').getAttribute('data-drawn') !== '{before}'"
                    f" && document.querySelector('main').getAttribute('data-view') === '{view}'"
                )
                assert browser.run("document.querySelector('main h1').textContent") != "Not here", view
                assert violations(browser, script) == [], (view, theme, width)
                # Content beyond the screen stands only in parts that can be scrolled by themselves.
                assert browser.run("document.documentElement.scrollWidth") <= width, (view, width)
                if width < 1000 or view in ("now", "sessions", "by", "days"):
                    assert browser.run(WIDER) == [], (view, width)


def test_the_bar_is_one_row_and_charts_have_descriptions(page, browser):
    shown = page()
    shown.tool_prints()
    browser.open(shown.link)
    browser.until(DRAWN)
    browser.resize(1280, 800)
    rows = "new Set([...document.querySelectorAll('nav a, .tools button')].map(each => Math.round(each.getBoundingClientRect().top / 20))).size"
    assert browser.run(rows) == 1
    browser.run("location.hash = 'days'")
    browser.until(
        "document.querySelector('main').getAttribute('data-view') === 'days'"
        " && document.querySelector('figure svg.chart text.scale') !== null"
    )
    assert browser.run("document.querySelector('figcaption').textContent").startswith(
        "Tokens saved, net, on each day"
    )
    for view in ("days", "sessions"):
        browser.resize(400, 800)
        browser.run(f"location.hash = '{view}'")
        browser.until(f"document.querySelector('main').getAttribute('data-view') === '{view}'")
        agent = "document.querySelector('td[data-title=agent]').getBoundingClientRect().width"
        # The page lays a table out anew after its size has changed.
        browser.until(f"{agent} > 340 && document.documentElement.scrollWidth <= 400")
