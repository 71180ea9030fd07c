"""How this installation came to be, and so by which command it gets newer packages."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

_NAME = "penumbra-proxy"
_BROTLI = "brotli>=1.2.1"
"""Without the hole by which a body overwrites memory; mitmproxy before 12.3 forbids it by its metadata."""


def newer(packages: Sequence[str], prefix: str = sys.prefix) -> str:
    """The command that brings newer versions of some packages where this Python lives."""
    folder = Path(prefix)
    root = folder.parent
    if (root / "scripts" / "venv").is_file() and (root / "addon" / "penumbra").is_dir():
        return f"rm -rf {shlex.quote(str(folder))} && {shlex.quote(str(root / 'scripts' / 'run'))} --version"
    parts = [part.lower() for part in folder.parts]
    if "pipx" in parts:
        return f"pipx reinstall {_NAME}"
    if "uv" in parts and "tools" in parts:
        return f"uv tool upgrade {_NAME}"
    names = " ".join(shlex.quote(name) for name in dict.fromkeys(packages))
    return f"{_pip()} --upgrade {names} && {alone(_BROTLI)}"


def alone(requirement: str) -> str:
    """The command that installs one package and changes no other."""
    return f"{_pip()} --no-deps {shlex.quote(requirement)}"


def _pip() -> str:
    """That of this very Python, which need not be on the path; uv makes environments without one."""
    python = shlex.quote(sys.executable)
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
