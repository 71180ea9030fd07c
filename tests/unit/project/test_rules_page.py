"""The examples of docs/rules.md hold, and its lists are complete."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penumbra import user_rules
from penumbra.apis.formats import REQUESTS
from penumbra.compress.calls.tools import CATEGORIES

TEXT = (Path(__file__).parents[3] / "docs/rules.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name, content in BLOCKS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    yield tmp_path
    user_rules.use(None)


def test_examples_hold(folder: Path) -> None:
    assert {name.rpartition("/")[0] or name for name, _ in BLOCKS} == {
        *("commands", "secrets", "tools.yaml", "providers.yaml", "shell.yaml"),
    }
    assert user_rules.use(folder) == []
    assert [problem.split(": ")[1] for problem in user_rules.use(_spoilt(folder))] == ["bazel"]


def _spoilt(folder: Path) -> Path:
    path = folder / "commands" / "bazel.yaml"
    path.write_text(path.read_text().replace("PASSED in 0.1s\n    gives", "PASSED in 9.1s\n    gives"))
    return folder


def test_lists_are_complete() -> None:
    formats = re.search(r"one of the formats that there are: ([^.]*)\.", TEXT)
    assert formats is not None
    assert sorted(formats[1].split(", ")) == sorted(REQUESTS)
    categories = re.search(r"^Categories: (.*)\.$", TEXT, re.MULTILINE)
    assert categories is not None
    assert set(categories[1].split(", ")) == CATEGORIES
    for name, keys in user_rules.KEYS.items():
        if name == "tools.yaml":
            assert f"In your file: {', '.join(f'`{key}`' for key in keys[:-1])} and `{keys[-1]}`." in TEXT
