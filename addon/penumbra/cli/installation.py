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
_OF_PIPX, _OF_UV = "pipx_metadata.json", "uv-receipt.toml"
"""What each leaves in the environments that it makes."""


def newer(packages: Sequence[str], prefix: str = sys.prefix) -> str:
    """The command that brings newer versions of some packages where this Python lives."""
    folder = Path(prefix)
    root = folder.parent
    if (root / "scripts" / "venv").is_file() and (root / "addon" / "penumbra").is_dir():
        return f"rm -rf {shlex.quote(str(folder))} && {shlex.quote(str(root / 'scripts' / 'run'))} --version"
    if (folder / _OF_PIPX).exists():
        return f"pipx reinstall {_NAME}"
    if (folder / _OF_UV).exists():
        return f"uv tool upgrade {_NAME}"
    names = " ".join(shlex.quote(name) for name in dict.fromkeys(packages))
    return f"{_pip(folder)} --upgrade {names} && {alone(_BROTLI, prefix)}"


def alone(requirement: str, prefix: str = sys.prefix) -> str:
    """The command that installs one package and changes no other."""
    return f"{_pip(Path(prefix))} --no-deps {shlex.quote(requirement)}"


def _pip(folder: Path) -> str:
    """That of this very Python, which need not be on the path; uv and pipx make environments without one."""
    if (folder / _OF_PIPX).exists():
        return f"pipx runpip {_NAME} install"
    python = shlex.quote(sys.executable)
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
