"""What is off by default is not imported until it is switched on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ADDON = Path(__file__).parents[3] / "addon"
OPTIONAL = (
    "httpx",
    "penumbra.external",
    "penumbra.flow.page.handlers",
    "penumbra.redaction.restore",
    "tornado.web",
)
START = """
import json, sys
from penumbra.addon import Penumbra
from penumbra.config.settings import Settings
from penumbra.conversation.engine import Engine
from penumbra.conversation.engine_settings import EngineSettings
{more}
Penumbra()
engine = Engine(EngineSettings.of(Settings(database={database!r})))
engine.close()
print(json.dumps(sorted(sys.modules)))
"""


def loaded(tmp_path: Path, more: str = "") -> list[str]:
    """The optional modules that a process has which has started with the default settings."""
    script = START.format(database=str(tmp_path / "penumbra.sqlite"), more=more)
    done: Any = subprocess.run(
        [sys.executable, "-c", script], cwd=ADDON, capture_output=True, text=True, check=True, timeout=60
    )
    modules: list[str] = json.loads(done.stdout)
    return [name for name in modules if any(f"{name}.".startswith(f"{one}.") for one in OPTIONAL)]


def test_the_start_loads_nothing_optional(tmp_path: Path) -> None:
    assert loaded(tmp_path) == []


def test_what_is_switched_on_would_be_seen(tmp_path: Path) -> None:
    more = "from penumbra.external import http, selection; from penumbra.redaction.restore import restoration"
    found = loaded(tmp_path, more)
    assert {"httpx", "penumbra.external.selection", "penumbra.redaction.restore.restorer"} <= set(found)
