"""`scripts/bench examples` shows results as they were and as they are sent."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_in_the_repository() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    kinds = re.findall(r"(?m)^## ([\w ,-]+): `", page)
    assert len(kinds) == len(set(kinds)) == 20
    assert page.count("As it was, about ") == page.count("As it is sent, about ") == len(kinds)
