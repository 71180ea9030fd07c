"""Where the rule files lie, and how they are read.

Everything that is knowledge and not logic is YAML below `rules/`: beside the package in an
installed wheel, at the top of the tree in a clone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_PACKAGE = Path(__file__).resolve().parent
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def directory() -> Path:
    """The folder of the rule files. Raises FileNotFoundError if the installation is broken."""
    for candidate in (_PACKAGE / "rules", _PACKAGE.parents[1] / "rules"):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"no rules folder beside {_PACKAGE}")


def load(name: str) -> Any:
    """The content of one rule file, `name` relative to the rules folder (`"providers.yaml"`)."""
    return yaml.load((directory() / name).read_text(encoding="utf-8"), Loader=_LOADER)


def load_folder(name: str) -> Iterator[tuple[str, Any]]:
    """(file name, content) of every YAML file in a subfolder, in name order."""
    for path in sorted((directory() / name).glob("*.yaml")):
        yield path.name, yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
