"""JSON results: the names of members show which values are secrets."""

import json
from collections import Counter
from typing import Any

import pytest

from penumbra.apis import recognise
from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.redaction import RedactionError
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redact_calls import forgiving
from penumbra.redaction.redactor import Redactor
from penumbra.wire.document import Document
from support.planted import GITHUB, PASSWORD

CALL = {"id": "toolu_01AbCdEfGhIjKlMnOpQrStUv", "name": "get"}
OTHER = "q8Zk2mVt41Lx9RwPz0bT6c"


def gemini(response: Any) -> dict[str, Any]:
    call = {"functionCall": {**CALL, "args": {}}}
    answer = {"functionResponse": {**CALL, "response": response}}
    contents = [("user", {"text": "hi"}), ("model", call), ("user", answer)]
    return {"contents": [{"role": role, "parts": [part]} for role, part in contents]}


def converse(response: Any) -> dict[str, Any]:
    call = {"toolUse": {"toolUseId": CALL["id"], "name": "get", "input": {}}}
    answer = {"toolResult": {"toolUseId": CALL["id"], "content": [{"json": response}]}}
    messages = [("user", {"text": "hi"}), ("assistant", call), ("user", answer)]
    return {"messages": [{"role": role, "content": [block]} for role, block in messages]}


FORMS = {"gemini": gemini, "bedrock-converse": converse}
every_form = pytest.mark.parametrize("api", FORMS)


def sent(api: str, response: Any, redact: Any = None, **settings: Any) -> tuple[str, Counter[str]]:
    """Return the sent request, and the number of secrets by rule."""
    known = next(one for one in recognise.apis() if one.id == api)
    document = Document(json.dumps(FORMS[api](response)).encode())
    request = read.read(document, known, Settings(**settings), b"scope")
    assert request is not None
    rewritten = rewrite.rewrite(Inputs(request, {}, redact or Redactor(b"k").redact, None), LineIndexes())
    counts: Counter[str] = Counter()
    for one in rewritten.shown:
        counts.update(one.facts.redactions)
    return rewritten.body.decode(), counts


@every_form
def test_names_tell(api: str) -> None:
    response = {
        "db": {"DB_PASSWORD": PASSWORD, "host": "db1", "port": 5432},
        "env": [{"name": "API_TOKEN", "value": OTHER}, {"name": "MODE", "value": "fast"}],
        "again": PASSWORD,
        "log": f"started\nGITHUB_TOKEN={GITHUB}\n",
    }
    body, counts = sent(api, response)
    found = json.dumps(FORMS[api](response)).replace(PASSWORD, "@").replace(OTHER, "@").replace(GITHUB, "@")
    assert PATTERN.sub("@", body) == found
    assert counts == {"name-password": 2, "name-token": 1, "github-token": 1}
    assert sent(api, response)[0] == body


@every_form
def test_kubernetes_secrets_as_objects(api: str) -> None:
    response = {
        "kind": "Secret",
        "apiVersion": "v1",
        "data": {"a": "c3VwZXItczNjcjN0", "b": "cXdlcnR5MTIzNDU2"},
    }
    body, _ = sent(api, response)
    assert "c3VwZXItczNjcjN0" not in body
    assert "cXdlcnR5MTIzNDU2" not in body


@every_form
def test_nothing_else_changes(api: str) -> None:
    response = {"token_count": 9, "password": None, "key": "user.name", "rows": [["a", 1.10], [{"b": "é"}]]}
    for settings in ({}, {"redact_secrets": False}):
        assert sent(api, response, **settings) == (json.dumps(FORMS[api](response)), Counter())


@every_form
def test_a_text_of_several_lines_is_searched_once(api: str) -> None:
    searched: list[str] = []
    log = "started\nstopped\n"

    def redact(text: str, hint: str) -> Redacted:
        searched.append(text)
        return Redacted(text)

    sent(api, {"log": log}, redact)
    assert [text for text in searched if "stopped" in text] == [log]


@every_form
def test_without_redaction_it_stays(api: str) -> None:
    assert PASSWORD in sent(api, {"password": PASSWORD}, redact_secrets=False)[0]


@every_form
def test_results_that_cannot_be_searched_are_refused_masked_or_passed(api: str) -> None:
    def broken(text: str, hint: str) -> Redacted:
        raise RedactionError("no")

    with pytest.raises(RedactionError):
        sent(api, {"password": PASSWORD}, broken)
    masked, _ = sent(api, {"password": PASSWORD}, forgiving(broken, "mask"))
    assert PASSWORD not in masked
    assert f"[REDACTED:unscanned:{len(PASSWORD)} bytes]" in masked
    assert PASSWORD in sent(api, {"password": PASSWORD}, forgiving(broken, "pass"))[0]
