"""Every module can be imported, whatever the interpreter: what is off by default, too."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import penumbra


def test_every_module_is_imported() -> None:
    names = [found.name for found in pkgutil.walk_packages(penumbra.__path__, "penumbra.")]
    assert len(names) > 200
    for name in names:
        if not name.endswith("__main__"):
            import_module(name)
