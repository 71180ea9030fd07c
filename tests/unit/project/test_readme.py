"""The README names what there is: every option and every dependency."""

import re
import tomllib
from pathlib import Path

import pytest

from penumbra.config.options import KNOBS

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_every_option_is_named_with_its_help(knob):
    assert f"| `{knob.option}` |" in README
    assert f"| {knob.help.replace('|', '/')} |" in README


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.match(r"[\w-]+", entry)[0] for entry in project["dependencies"]}
    table = README.partition("## Dependencies")[2].partition("## Work on it")[0]
    assert {name for name in names if name not in table} == set()


def test_every_script_it_names_is_there():
    for name in set(re.findall(r"scripts/(\w+)", README)):
        assert (ROOT / "scripts" / name).exists()
