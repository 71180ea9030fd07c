"""docs/options.md has every option: its group, its help, and the default that is in force."""

import re
from pathlib import Path

import pytest

from penumbra.config.options import OPTIONS, groups
from penumbra.config.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/options.md").read_text(encoding="utf-8")
TABLES = PAGE.partition("\n## All of them\n")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| `(\w+)` \| (.*?) ?\| (.*) \|$", re.MULTILINE)
DEFAULTS = {name: default for name, default, _ in ROW.findall(TABLES)}


def test_the_tables_are_those_of_the_options():
    sections = re.split(r"^### ", TABLES, flags=re.MULTILINE)[1:]
    shown = {
        section.partition("\n")[0]: [(name, help) for name, _, help in ROW.findall(section)]
        for section in sections
    }
    assert shown == {
        title: [(option.full_name, option.row.help.replace("|", "/")) for option in options]
        for title, options in groups().items()
    }


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_default_is_the_one_in_force(option):
    assert DEFAULTS[option.full_name] == option.row.parser.write(getattr(Settings(), option.name))
