"""Secrets in texts as tools print them, plain, decorated and escaped."""

from __future__ import annotations

import json

import pytest

from penumbra import redact
from support import examples
from support import secret_contexts as contexts


def still_there(text: str, value: str) -> bool:
    return value in redact(text)


@pytest.mark.parametrize("decoration", contexts.DECORATIONS)
@pytest.mark.parametrize("template", contexts.NAMED)
def test_machine_made_value_beside_a_name(template: str, decoration: str) -> None:
    for index, name in examples.some(list(enumerate(contexts.NAMES[:6]))):
        kinds = contexts.values(index)
        kind = ("base62", "hex", "urlsafe", "base64")[index % 4]
        text = contexts.DECORATIONS[decoration](contexts.fill(contexts.NAMED[template], kinds[kind], name))
        assert not still_there(text, kinds[kind]), (name, kind)


@pytest.mark.parametrize("template", contexts.PASSWORDS)
def test_password_in_its_place(template: str) -> None:
    for index in range(4):
        value = contexts.values(index)["urlsafe"]
        assert not still_there(contexts.fill(contexts.PASSWORDS[template], value), value)


@pytest.mark.parametrize("decoration", contexts.DECORATIONS)
@pytest.mark.parametrize("template", contexts.TOKENS)
def test_token_in_its_place(template: str, decoration: str) -> None:
    for kind in examples.some(("base62", "hex", "urlsafe")):
        value = contexts.values(17)[kind]
        text = contexts.DECORATIONS[decoration](contexts.fill(contexts.TOKENS[template], value))
        assert not still_there(text, value), kind


@pytest.mark.parametrize("template", contexts.NAMED)
def test_only_the_value_goes(template: str) -> None:
    """Name, quotes, newline and all other lines stay: with the value put back, the text is the same."""
    value = contexts.values(23)["base62"]
    text = contexts.fill(contexts.NAMED[template], value, "db_password")
    redacted = redact(text)
    start = redacted.index("[REDACTED:")
    mark = redacted[start : redacted.index("]", start) + 1]
    assert redacted.replace(mark, value) == text


@pytest.mark.parametrize("template", ["json", "json camel", "task definition", "appsettings", "json in json"])
def test_json_stays_json(template: str) -> None:
    value = contexts.values(29)["signs"]
    text = contexts.fill(contexts.NAMED[template], value, "api_key")
    assert set(json.loads(redact(text))) == set(json.loads(text))
