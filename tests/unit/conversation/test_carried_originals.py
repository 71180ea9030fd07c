"""References of a request are none of those under which it carries another text already."""

import json
import re

import pytest

from penumbra.apis import recognise
from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.conversation.result_text import comparing
from penumbra.expand import reference
from penumbra.expand.reference import References
from penumbra.wire.document import Document

API = next(entry for entry in recognise.apis() if entry.id == "anthropic-messages")
SETTINGS = Settings(adopt="compress", redact_secrets=False)
REF = re.compile(r"<<<SHADOW:(\w+)>>>")


def unredacted(text, hint=""):
    return Redacted(text)


def log(word):
    return "".join(f"{word} step {number} of the {word} run took {number * 7} ms\n" for number in range(900))


def turn(texts, past):
    """The references of a request with these results, and what is decided about them."""
    messages = [{"role": "user", "content": "go"}]
    for number, text in enumerate(texts):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "./x"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    request = read.read(Document(body), API, SETTINGS, b"k" * 32)
    references = References(b"k" * 32, b"c" * 32, "expand_context", False)
    inputs = Inputs(request, past, unredacted, comparing(references, request, past, unredacted))
    rewritten = rewrite.rewrite(inputs, LineIndexes())
    return REF.findall(rewritten.body.decode()), rewritten.decisions, references


@pytest.mark.parametrize("texts", [[log("red"), log("blue")], [log("red"), log("red"), log("blue")]])
def test_a_text_of_a_later_turn_gets_another_reference(monkeypatch, texts):
    monkeypatch.setattr(reference, "_MANY", 1)
    first, past, references = turn(texts[:-1], {})
    assert first == [reference.SAMPLE] * len(first)
    later, new, _ = turn(texts, past)
    assert later == [*first, references.whole(texts[-1])]
    assert turn(texts, past | new)[0] == later
