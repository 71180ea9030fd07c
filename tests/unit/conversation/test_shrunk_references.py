"""Texts that say parts of themselves by reference, when what they refer to is shortened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.apis.recognise import apis
from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite, shrunk_request
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.conversation.model import Request
from penumbra.conversation.shrink_to_fit import Need
from penumbra.expand.reference import References
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document

REFERENCES = References(b"k", b"s" * 32, "expand_context", True)
SOURCE = "\n".join(f"    value_{n} = compute({n}, other={n * 7919 % 1009})" for n in range(300))
EDITED = SOURCE.replace("compute(140,", "compute_differently(140,")
SHORT = "\n".join(SOURCE.split("\n")[20:36])


def request(*texts: str) -> Request:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for n, text in enumerate(texts):
        call = {
            "type": "tool_use",
            "id": f"toolu_own{n:021}",
            "name": "Read",
            "input": {"file_path": ("a.py", "/repo/a.py", "/home/repo/a.py")[n]},
        }
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    messages += [{"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    api = next(one for one in apis() if one.id == "anthropic-messages")
    made = read.read(Document(body), api, Settings(redact_secrets=False, adopt="compress"), b"s" * 32)
    assert made is not None
    return made


def written(*texts: str, known: Any = None, given: Any = None) -> tuple[dict[bytes, Decision], list[str]]:
    one = request(*texts)
    made = rewrite.rewrite(
        Inputs(one, known or {}, lambda text, hint: Redacted(text), REFERENCES, {}, given or {}),
        LineIndexes(),
    )
    contents = [
        message["content"][0]["content"]
        for message in json.loads(made.body)["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
    ]
    return {**(known or {}), **made.decisions}, contents


def smaller(decided: Any, needed: Need, *texts: str) -> Any:
    return shrunk_request.smaller(
        request(*texts), decided, needed, lambda text, hint: Redacted(text), REFERENCES
    )


@pytest.mark.parametrize("later", [EDITED, SHORT])
def test_who_refers_to_a_shortened_text_stands_for_itself(later: str) -> None:
    decided, before = written(SOURCE, later)
    assert "same as in Read a.py" in before[1]
    given = smaller(decided, Need(bytes=2000), SOURCE, later)
    known, after = written(SOURCE, later, known=decided, given=given.decisions)
    assert len(after[0]) < len(before[0])
    assert "same as in " not in after[1]
    assert len(after[1]) <= max(len(before[1]), 400)
    if later == EDITED:
        ref = REFERENCES.ref(EDITED)
        assert after[1].startswith(REFERENCES.prefix(ref))
        assert given.originals[ref] == EDITED
    # It is final.
    assert written(SOURCE, later, known=known)[1] == after


def test_whoever_refers_to_one_that_refers_follows_too() -> None:
    third = EDITED.replace("value_7 ", "worth_7 ")
    decided, before = written(SOURCE, EDITED, third)
    given = smaller(decided, Need(bytes=5000), SOURCE, EDITED, third)
    _, after = written(SOURCE, EDITED, third, known=decided, given=given.decisions)
    assert "same as in " in before[2]
    assert not any("same as in " in text for text in after)


def test_a_reference_into_what_is_shortened_does_not_hold() -> None:
    """Decisions of the past may lack the form of whoever refers."""
    decided, _ = written(SOURCE, EDITED)
    given = smaller(decided, Need(bytes=2000), SOURCE, EDITED)
    first = next(iter(given.decisions))
    known, after = written(SOURCE, EDITED, known={**decided, first: given.decisions[first]})
    assert after[1] == EDITED
    assert written(SOURCE, EDITED, known=known)[1] == after


def test_what_nobody_has_shortened_is_still_referred_to() -> None:
    other = "\n".join(f"row {n * 7919 % 10007} of {n}" for n in range(900))
    decided, before = written(SOURCE, EDITED, other)
    given = smaller(decided, Need(bytes=2000), SOURCE, EDITED, other)
    _, after = written(SOURCE, EDITED, other, known=decided, given=given.decisions)
    assert after[:2] == before[:2]
    assert len(after[2]) < len(before[2])
