"""Every kind of request of the rule file that is no LLM call: what is searched, and what passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis import recognise
from support.planted import GITHUB
from support.search import search

KNOWN = rules.load("providers.yaml")


def cases(section: str) -> Iterator[tuple[str, tuple[str, Any]]]:
    for name, entry in KNOWN[section].items():
        for example in entry["examples"]:
            yield f"{name} {example['path']}", (name, example)


OTHERS, SOCKETS = dict(cases("others")), dict(cases("sockets"))


@pytest.mark.parametrize(("name", "example"), OTHERS.values(), ids=OTHERS)
def test_every_example(name: str, example: Any) -> None:
    assert recognise.is_llm_host(example["host"])
    assert recognise.by_request_line(example.get("method", "POST"), example["path"]) is None
    found = recognise.by_path(example["path"])
    assert found is not None
    assert found.id == name
    if found.passes or "{secret}" not in example["body"]:
        return
    # On a line with its name, as files and logs have them, and alone, as a tool may print it.
    for text in (f"line one\\nGITHUB_TOKEN={GITHUB}\\n", f"see {GITHUB} there"):
        body = example["body"].replace("{secret}", text).encode()
        searched = search(body, files=found.files)
        assert GITHUB.encode() not in searched.body
        before, after = json.loads(body), json.loads(searched.body)
        assert _shape(before) == _shape(after)
        assert searched.body.count(b"[REDACTED:") == example["body"].count("{secret}")


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shape(one) for name, one in value.items()}
    return [_shape(one) for one in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize(("name", "example"), SOCKETS.values(), ids=SOCKETS)
def test_every_socket(name: str, example: Any) -> None:
    found = recognise.socket_by_path(example["path"])
    assert found is not None
    assert found.id == name
    frame = example["frame"].replace("{secret}", f"GITHUB_TOKEN={GITHUB}").encode()
    searched = search(frame, strict=True)
    assert GITHUB.encode() not in searched.body
    assert 'say "why"' in json.dumps(json.loads(found.refusal('say "why"')), ensure_ascii=False).replace(
        "\\", ""
    )


def test_errors_have_the_shape_of_their_host() -> None:
    assert json.loads(recognise.error_body("api.anthropic.com", 400, "m"))["type"] == "error"
    assert (
        json.loads(recognise.error_body("generativelanguage.googleapis.com", 400, "m"))["error"]["code"]
        == 400
    )
    assert (
        json.loads(recognise.error_body("bedrock-agent-runtime.eu-west-1.amazonaws.com", 400, "m"))["message"]
        == "m"
    )
    assert json.loads(recognise.error_body("llm.example.org", 400, "m"))["error"]["message"] == "m"
