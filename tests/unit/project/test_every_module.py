"""Every module can be imported on every interpreter, optional ones included."""

import pkgutil
from collections import Counter
from importlib import import_module

import penumbra


def test_every_module_is_imported() -> None:
    names = [found.name for found in pkgutil.walk_packages(penumbra.__path__, "penumbra.")]
    assert len(names) > 200
    for name in names:
        if not name.endswith("__main__"):
            import_module(name)


def test_no_two_modules_have_one_name() -> None:
    """Each module has a name of its own."""
    names = Counter(
        found.name.rpartition(".")[2]
        for found in pkgutil.walk_packages(penumbra.__path__, "penumbra.")
        if not found.ispkg and not found.name.endswith("__main__")
    )
    assert [name for name, count in names.items() if count > 1] == []
