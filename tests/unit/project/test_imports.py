"""Modules that are off by default, or need an extra, are not imported until they are used."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

ADDON = Path(__file__).parents[3] / "addon"
OPTIONAL = (
    "httpx",
    "penumbra.conversation.external_forms",
    "penumbra.conversation.restored_values",
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
from penumbra.conversation.incoming import EngineSettings
{more}
Penumbra()
engine = Engine(EngineSettings.of(Settings(database={database!r})))
engine.close()
print(json.dumps(sorted(sys.modules)))
"""


def loaded(tmp_path: Path, more: str = "") -> list[str]:
    """Return the optional modules of a process that has started with the default settings."""
    script = START.format(database=str(tmp_path / "penumbra.sqlite"), more=more)
    done: Any = subprocess.run(
        [sys.executable, "-c", script], cwd=ADDON, capture_output=True, text=True, check=True, timeout=60
    )
    modules: list[str] = json.loads(done.stdout)
    return [name for name in modules if any(f"{name}.".startswith(f"{one}.") for one in OPTIONAL)]


def test_the_start_loads_nothing_optional(tmp_path: Path) -> None:
    assert loaded(tmp_path) == []


def test_optional_modules_are_seen_once_they_are_used(tmp_path: Path) -> None:
    more = "from penumbra.conversation import external_forms, restored_values"
    found = loaded(tmp_path, more)
    assert {"httpx", "penumbra.external.dispatch", "penumbra.redaction.restore.restorer"} <= set(found)


EXTRAS = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
"""
COMMANDS = """
import pkgutil
from importlib import import_module
from penumbra import addon, cli
for found in pkgutil.iter_modules(cli.__path__):
    import_module(f"penumbra.cli.{found.name}")
"""


def packages_of_extras() -> list[str]:
    """Return the importable packages of the extras that users choose."""
    project = tomllib.loads((ADDON.parent / "pyproject.toml").read_text())["project"]
    named = {
        re.split("[>=<;]", one)[0]
        for extra, needed in project["optional-dependencies"].items()
        if extra not in ("dev", "fuzz")
        for one in needed
    }
    return sorted(name for name, owners in packages_distributions().items() if named & set(owners))


def test_every_command_is_there_without_the_extras(tmp_path: Path) -> None:
    missing = packages_of_extras()
    assert {"botocore", "redis", "opentelemetry"} <= set(missing)
    script = EXTRAS.format(missing=missing) + COMMANDS + START.format(database=str(tmp_path / "db"), more="")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ADDON, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
