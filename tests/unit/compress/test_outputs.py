"""Outputs of real programs: the facts that a reader needs are still there, and of the others most are not."""

from __future__ import annotations

from functools import cache

import pytest

from penumbra import redact
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Mode, Policy, Redacted, ToolOutput
from support.outputs import NAMES, missing, read

WAYS = {
    "safe": Policy(mode=Mode.SAFE),
    "lossless": Policy(),
    "standard": Policy(lossy=True),
}


@cache
def sent(name: str, way: str) -> str:
    output = read(name)
    call = ToolOutput(output.text, "Bash", {"command": output.call}, "call_1")
    return shorten(call, WAYS[way], lambda text: Redacted(redact(text)), lambda _: "shadow_1").text


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_in_the_output_itself(name: str) -> None:
    output = read(name)
    assert output.keep
    assert missing(output.text, output.keep + output.may_go) == []
    assert not set(output.keep) & set(output.may_go)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_facts_stay(name: str, way: str) -> None:
    assert missing(sent(name, way), read(name).keep) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_grows(name: str, way: str) -> None:
    assert len(sent(name, way).encode()) <= len(read(name).text.encode())


def test_of_all_that_may_go_most_goes() -> None:
    """A third of the text and half of the lines that say nothing."""
    outputs = {name: read(name) for name in NAMES}
    texts = {name: sent(name, "standard") for name in NAMES}
    may_go = sum(len(output.may_go) for output in outputs.values())
    gone = sum(len(missing(texts[name], output.may_go)) for name, output in outputs.items())
    assert gone > 0.5 * may_go
    assert sum(map(len, texts.values())) < 0.7 * sum(len(output.text) for output in outputs.values())
