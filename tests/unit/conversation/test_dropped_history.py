"""No reference names a result that the provider drops."""

import json
from typing import Any

import pytest

from penumbra.compress.result import Mode
from penumbra.config.settings import Settings
from penumbra.conversation import provider_history
from penumbra.wire.document import Document
from support.messages_requests import LOG, References, answer, body, contents, go, use

SOURCE = "\n".join(f"    value_{number} = compute({number}, other={number * 7})" for number in range(160))
EDITED = SOURCE.replace("compute(80,", "compute_differently(80,")
DUPLICATE = "[Duplicate of Bash; see earlier result]"
COMPACTION = {"role": "assistant", "content": [{"type": "compaction", "content": "They read it."}]}


def keeps(**members: Any) -> bool:
    return provider_history.keeps_results(Document(json.dumps(body(**members)).encode()))


def test_whether_a_provider_keeps_all_results() -> None:
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}]
    for kept in (
        {},
        {"truncation": "disabled"},
        {"truncation": None, "transforms": [], "context_management": None},
        {"context_management": {"edits": edits}},
        {"plugins": [{"id": "web"}], "additionalModelRequestFields": {"top_k": 3}},
    ):
        assert keeps(**kept), kept
    clearing = {"edits": [*edits, {"type": "clear_tool_uses_20250919"}]}
    for dropped in (
        {"truncation": "auto"},
        {"context_management": [{"type": "compaction", "compact_threshold": 1}]},
        {"context_management": clearing},
        {"context_management": {"edits": edits, "more": 1}},
        {"context_management": {"edits": "all"}},
        {"additionalModelRequestFields": {"context_management": clearing}},
        {"transforms": ["middle-out"]},
        {"plugins": [{"id": "context-compression"}]},
    ):
        assert not keeps(**dropped), dropped


def test_no_result_refers_across_a_compaction() -> None:
    before, behind = [use("toolu_1"), answer("toolu_1", LOG)], [use("toolu_2"), answer("toolu_2", LOG)]
    for references in (None, References()):
        safe: dict[str, Any] = {"settings": Settings(mode=Mode.SAFE), "references": references}
        assert contents(go(body(*before, *behind), **safe))[1].endswith(DUPLICATE)
        first = go(body(*before, COMPACTION, *behind), **safe)
        assert contents(first) == [LOG, LOG]
        # The request has all results after the compaction.
        again = body(*before, COMPACTION, *behind, use("toolu_3"), answer("toolu_3", LOG))
        assert contents(go(again, known=first.decisions, **safe))[2].endswith(DUPLICATE)
    read = [use("toolu_1", "Read", file_path="a.py"), answer("toolu_1", SOURCE)]
    reread = [use("toolu_2", "Read", file_path="a.py"), answer("toolu_2", EDITED)]
    assert contents(go(body(*read, *reread)))[1] != EDITED
    assert contents(go(body(*read, COMPACTION, *reread)))[1] == EDITED


def test_a_sent_reference_stays() -> None:
    one, two = "toolu_01AbCdEfGhIjKlMnOp2345", "toolu_02AbCdEfGhIjKlMnOp2345"
    messages = [use(one), answer(one, LOG), use(two), answer(two, LOG)]
    safe = Settings(mode=Mode.SAFE)
    first = go(body(*messages), settings=safe)
    for later in (body(*messages, COMPACTION), body(*messages, truncation="auto")):
        assert contents(go(later, known=first.decisions, settings=safe)) == contents(first)
    # Results that a client keeps after a compaction have lost their referents.
    between = body(*messages[:2], COMPACTION, *messages[2:])
    assert contents(go(between, known=first.decisions, settings=safe)) == [LOG, LOG]


def test_arguments_before_a_compaction_are_no_referents() -> None:
    """The result of such a call may come after the compaction."""
    write, wrote = use("toolu_w", "Write", file_path="a.py", content=SOURCE), answer("toolu_w", "ok")
    read = [use("toolu_1", "Read", file_path="a.py"), answer("toolu_1", EDITED)]
    assert "same as in what Write a.py was given" in contents(go(body(write, wrote, *read)))[1]
    assert contents(go(body(write, COMPACTION, wrote, *read)))[1] == EDITED


@pytest.mark.parametrize("more", [{"truncation": "auto"}, {"context_management": {"edits": "all"}}])
def test_references_to_results_that_may_be_dropped_need_expand_context(more: dict[str, Any]) -> None:
    messages = [use("toolu_1"), answer("toolu_1", LOG), use("toolu_2"), answer("toolu_2", LOG)]
    safe = Settings(mode=Mode.SAFE)
    assert contents(go(body(*messages, **more), settings=safe)) == [LOG, LOG]
    second = contents(go(body(*messages, **more), settings=safe, references=References()))[1]
    assert second.startswith("<<<SHADOW:")
    assert second.endswith(DUPLICATE)
