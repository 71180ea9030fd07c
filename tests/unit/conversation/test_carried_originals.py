"""A request gets no new reference that it already uses for another text."""

import re

import pytest

from penumbra.conversation import rewrite
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.result_text import comparing
from penumbra.expand import reference
from penumbra.expand.reference import References
from support.talks import Talk, unredacted

REF = re.compile(r"<<<SHADOW:(\w+)>>>")


def log(word):
    return "".join(f"{word} step {number} of the {word} run took {number * 7} ms\n" for number in range(900))


def turn(texts, past):
    """Return the references of a request with these results, and the decisions about the results."""
    talk = Talk(adopt="compress", redact_secrets=False)
    for text in texts:
        talk.call("Bash", text, command="./x")
    request = talk.request()
    references = References(b"k" * 32, b"c" * 32, "expand_context", False)
    inputs = Inputs(request, past, unredacted, comparing(references, request, past, unredacted))
    rewritten = rewrite.rewrite(inputs, LineIndexes())
    return REF.findall(rewritten.body.decode()), rewritten.decisions, references


@pytest.mark.parametrize("colours", [("red", "blue"), ("red", "red", "blue")])
def test_a_text_of_a_later_turn_gets_another_reference(monkeypatch, colours):
    texts = [log(colour) for colour in colours]
    monkeypatch.setattr(reference, "MANY", 1)
    first, past, references = turn(texts[:-1], {})
    assert first == [reference.SAMPLE] * len(first)
    later, new, _ = turn(texts, past)
    assert later == [*first, references.whole(texts[-1])]
    assert turn(texts, past | new)[0] == later
