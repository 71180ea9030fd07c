"""Where a CA's files lie, by mitmproxy's names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penumbra.metrics import running

NAME = "mitmproxy"
"""What the names of all of them begin with."""


def own_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a CA of our own lies, made or not."""
    return running.folder(environment).parent / "ca"


def ca_file(folder: Path) -> Path:
    """The CA with its key."""
    return folder / f"{NAME}-ca.pem"


def certificate_file(folder: Path) -> Path:
    """The CA's certificate alone."""
    return folder / f"{NAME}-ca-cert.pem"
