"""Outputs of real programs in `tests/outputs`. Each file begins with a head in YAML: the call, the facts that
a reader must still find (`keep`), and the facts that may be left out (`may_go`). A fact is words. A line
states the fact if it has these words in this order, so a table, a shortened path or fewer blanks change
nothing. Long outputs lack lines before their last 25, and paths and host names are replaced. A script writes
four outputs (`ps-aux`, `access-log`, `journal` and `seq-csv`) in the form of the program that their call
names."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

FOLDER = Path(__file__).parents[1] / "outputs"
NAMES = sorted(file.stem for file in FOLDER.glob("*.txt"))


@dataclass(frozen=True)
class Output:
    call: str
    """The command line."""
    keep: tuple[str, ...]
    may_go: tuple[str, ...]
    text: str


@cache
def read(name: str) -> Output:
    head, _, text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").partition("\n---\n")
    facts = yaml.safe_load(head)
    return Output(facts["call"], tuple(facts["keep"]), tuple(facts["may_go"]), text)


def missing(text: str, facts: tuple[str, ...]) -> list[str]:
    """Return the facts that no line of the text states."""
    lines = text.split("\n")
    return [fact for fact in facts if not any(_states(line, fact) for line in lines)]


def _states(line: str, fact: str) -> bool:
    at = 0
    for word in fact.split():
        at = line.find(word, at)
        if at < 0:
            return False
        at += len(word)
    return True
