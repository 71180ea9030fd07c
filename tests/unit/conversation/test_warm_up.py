"""Patterns that are compiled before the first request."""

from concurrent.futures import Future

from penumbra.conversation import compiled_rules
from penumbra.redaction import RedactionError
from penumbra.redaction.redactor import Redactor


def test_the_outputs_go_through_the_stages(monkeypatch, caplog) -> None:
    shortened = []
    shorten = compiled_rules.pipeline.shorten
    monkeypatch.setattr(compiled_rules.pipeline, "shorten", lambda *given: shortened.append(shorten(*given)))
    ready: Future[Redactor] = Future()
    ready.set_result(Redactor(b"k"))
    compiled_rules.warm_up(ready)
    assert not caplog.records, "no stage has failed"
    assert len(shortened) == 3
    assert all(each.stages for each in shortened)


def test_broken_rules_do_not_stop_the_warm_up() -> None:
    broken: Future[Redactor] = Future()
    broken.set_exception(RedactionError("x"))
    compiled_rules.warm_up(broken)
