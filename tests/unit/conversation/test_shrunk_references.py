"""Texts with references after their referents have been shortened."""

from typing import Any

import pytest

from penumbra.conversation.planner import Need, Planner
from penumbra.store.decisions import Decision
from support.talks import REFERENCES, Talk, unredacted

SOURCE = "\n".join(f"    value_{n} = compute({n}, other={n * 7919 % 1009})" for n in range(300))
EDITED = SOURCE.replace("compute(140,", "compute_differently(140,")
SHORT = "\n".join(SOURCE.split("\n")[20:36])


def talk(*texts: str) -> Talk:
    made = Talk(redact_secrets=False, adopt="compress")
    for path, text in zip(("a.py", "/repo/a.py", "/home/repo/a.py"), texts, strict=False):
        made.call("Read", text, file_path=path)
    made.messages += [{"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
    return made


def written(*texts: str, known: Any = None, planned: Any = None) -> tuple[dict[bytes, Decision], list[str]]:
    one = talk(*texts)
    one.known |= {**(known or {}), **(planned or {})}
    sent = one.send()
    return one.known, sent


def smaller(decided: Any, needed: Need, *texts: str) -> Any:
    return Planner(talk(*texts).request(), decided, unredacted, REFERENCES).to_fit(needed)


@pytest.mark.parametrize("later", [EDITED, SHORT], ids=["edited", "short"])
def test_a_text_that_refers_to_a_shortened_one_loses_its_references(later: str) -> None:
    decided, before = written(SOURCE, later)
    assert "same as in Read a.py" in before[1]
    made = smaller(decided, Need(bytes=2000), SOURCE, later)
    known, after = written(SOURCE, later, known=decided, planned=made.decisions)
    assert len(after[0]) < len(before[0])
    assert "same as in " not in after[1]
    assert len(after[1]) <= max(len(before[1]), 400)
    if later == EDITED:
        ref = REFERENCES.ref(EDITED)
        assert after[1].startswith(REFERENCES.prefix(ref))
        assert made.originals[ref] == EDITED
    # The form is final.
    assert written(SOURCE, later, known=known)[1] == after


def test_texts_that_refer_to_such_a_text_follow() -> None:
    third = EDITED.replace("value_7 ", "worth_7 ")
    decided, before = written(SOURCE, EDITED, third)
    made = smaller(decided, Need(bytes=5000), SOURCE, EDITED, third)
    _, after = written(SOURCE, EDITED, third, known=decided, planned=made.decisions)
    assert "same as in " in before[2]
    assert not any("same as in " in text for text in after)


def test_a_reference_into_a_shortened_text_is_not_valid() -> None:
    """The earlier decisions may lack the form of the text with the reference."""
    decided, _ = written(SOURCE, EDITED)
    made = smaller(decided, Need(bytes=2000), SOURCE, EDITED)
    first = next(iter(made.decisions))
    known, after = written(SOURCE, EDITED, known={**decided, first: made.decisions[first]})
    assert after[1] == EDITED
    assert written(SOURCE, EDITED, known=known)[1] == after


def test_texts_that_keep_their_form_are_still_referred_to() -> None:
    other = "\n".join(f"row {n * 7919 % 10007} of {n}" for n in range(900))
    decided, before = written(SOURCE, EDITED, other)
    made = smaller(decided, Need(bytes=2000), SOURCE, EDITED, other)
    _, after = written(SOURCE, EDITED, other, known=decided, planned=made.decisions)
    assert after[:2] == before[:2]
    assert len(after[2]) < len(before[2])
