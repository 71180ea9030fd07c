"""Questions that are asked before a search miss nothing that the search finds."""

from __future__ import annotations

import random

from penumbra import rules
from penumbra.redaction import rule, view
from penumbra.redaction.finders.tokens import Anchor, at_anchor
from penumbra.rule_schemas.schema import convert
from penumbra.rule_schemas.secret_rules import SecretFile
from penumbra.user_rules import plain


def test_what_begins_with_an_anchor_is_worth_a_look() -> None:
    """An anchor passes over no secret of its rules, not even over one that a line break divides."""
    by_id = {each.id: each for each in rule.read()}
    seen = 0
    for file in rules.load_folder("secrets"):
        for written in convert(SecretFile, file.content, "").rules:
            each = by_id[written.id]
            if not each.anchors or each.before or each.whole:
                continue
            alone, several = Anchor.of((each,)), Anchor.of((by_id["github-token"], each))
            for data in (
                text for example in written.examples.match for text in _texts(plain(example).encode())
            ):
                for at in filter(lambda at: at >= 0, map(data.lower().find, each.anchors)):
                    if at_anchor(each, data, at, wraps=True) is not None:
                        seen += 1
                        for one in (alone, several):
                            assert one.wraps(data, at) or one.following(data, at, at) == at, (each.id, data)
                            before = max(0, data.rfind(b"\n", 0, at))
                            assert one.wraps(data, at) or one.following(data, before, at) <= at, (
                                each.id,
                                data,
                            )
    assert seen > 500


def _texts(example: bytes) -> tuple[bytes, ...]:
    half = len(example) * 2 // 3
    return example, example[:half] + b"\n" + example[half:] + b"\n"


def test_a_text_full_of_disguises_shows_the_same() -> None:
    pieces = (
        *(b"\x1b[31m", b"\x1b", b"\x08", b"\x08\x08", b"\\", b"\\\\", b"\\u0041", b"\\x41", b"%41"),
        *(b"&quot;", b"&", b"\xe2\x80\x8b", b"a", b"bc", b"\n", b"\xc2\xad", b"\\e[0m", b"[", b"m"),
        *(b"\x1b]8;;x\x07", b"\xef\xbb\xbf", b"\xef\xbf\xbd", 40 * b"\\", b"u0041"),
    )
    drawn = random.Random(7)
    for _ in range(2_000):
        data = b"".join(drawn.choices(pieces, k=drawn.randint(1, 14)))
        found = [match.span() for match in view.many_disguises(data)]
        assert found == [match.span() for match in view.DISGUISE.finditer(data)], data


def test_it_makes_no_difference_how_full_of_disguises_a_text_is() -> None:
    full, plain = 40 * b"\\u0041,", 40 * b"a b c d e f " + 9 * b"%41,"
    for data in (full + plain + full, plain + full + plain, 40 * b"\\" + b"u0041" + full, full):
        found = [match.span() for match in view.disguises(data)]
        assert found == [match.span() for match in view.DISGUISE.finditer(data)], data
