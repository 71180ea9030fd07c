"""Cheap looks that come before the search: they pass over nothing that the search would find."""

from __future__ import annotations

import random

from penumbra import rules
from penumbra.redaction import rule, view
from penumbra.redaction.finders.tokens import Glance, at_anchor
from penumbra.redaction.secret_examples import plain
from penumbra.rule_schemas.schema import convert
from penumbra.rule_schemas.secret_rules import SecretFile


def test_what_begins_with_an_anchor_is_worth_a_look() -> None:
    """Where the end of a line breaks the token, too."""
    by_id = {each.id: each for each in rule.read()}
    seen = 0
    for file in rules.load_folder("secrets"):
        for written in convert(SecretFile, file.content, "").rules:
            each = by_id[written.id]
            if not each.anchors or each.before or each.whole:
                continue
            glance = Glance.of((each,))
            for data in (
                text for example in written.examples.match for text in _texts(plain(example).encode())
            ):
                for at in filter(lambda at: at >= 0, map(data.lower().find, each.anchors)):
                    if at_anchor(each, data, at, wraps=True) is not None:
                        seen += 1
                        assert glance.may_match(data, at), (each.id, data)
                        assert at_anchor(each, data, at, glance.may_wrap(data, at)), (each.id, data)
    assert seen > 500


def _texts(example: bytes) -> tuple[bytes, ...]:
    half = len(example) * 2 // 3
    return example, example[:half] + b"\n" + example[half:] + b"\n"


def test_a_text_full_of_disguises_shows_the_same() -> None:
    pieces = (
        *(
            b"\x1b[31m",
            b"\x1b",
            b"\x08",
            b"\x08\x08",
            b"\\",
            b"\\\\",
            b"\\u0041",
            b"\\x41",
            b"%41",
            b"&quot;",
            b"&",
        ),
        *(
            b"\xe2\x80\x8b",
            b"a",
            b"bc",
            b"\n",
            b"\xc2\xad",
            b"\\e[0m",
            b"[",
            b"m",
            b"\x1b]8;;x\x07",
            b"\xef\xbb\xbf",
        ),
    )
    drawn = random.Random(7)
    for _ in range(2_000):
        data = b"".join(drawn.choices(pieces, k=drawn.randint(1, 14)))
        found = [match.span() for match in view._many(data)]
        assert found == [match.span() for match in view._DISGUISES.finditer(data)], data
