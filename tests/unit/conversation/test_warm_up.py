"""What is compiled before the first request."""

from __future__ import annotations

from concurrent.futures import Future

from penumbra.compress.calls import envelope
from penumbra.conversation import compiled_rules
from penumbra.redaction import RedactionError
from penumbra.redaction.redactor import Redactor


def test_the_outputs_go_through_the_stages(monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(compiled_rules.pipeline, "_failed", lambda stage, error: calls.append(stage))
    shortened = []
    shorten = compiled_rules.pipeline.shorten
    monkeypatch.setattr(compiled_rules.pipeline, "shorten", lambda *given: shortened.append(shorten(*given)))
    ready: Future[Redactor] = Future()
    ready.set_result(Redactor(b"k"))
    compiled_rules.warm_up(ready)
    assert calls == []
    assert len(shortened) == 3
    assert all(each.stages for each in shortened)
    assert envelope._patterns()


def test_broken_rules_are_told_elsewhere() -> None:
    broken: Future[Redactor] = Future()
    broken.set_exception(RedactionError("x"))
    compiled_rules.warm_up(broken)
