"""Secrets in texts as tools print them: plain, decorated, escaped, and as bytes."""

import json

import pytest

from penumbra import redact
from penumbra.redaction.redactor import Redactor
from support import examples
from support import secret_contexts as contexts
from support.secret_kinds import KINDS, is_left, text_with
from support.tool_forms import FORMS


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
    """The text equals the original if the placeholder is replaced by the value."""
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMS)
def test_secret_goes_and_nothing_else_does_a_second_time(redactor: Redactor, name: str, kind: str) -> None:
    text, secret = text_with(kind)
    form = FORMS[name]
    redacted = redactor.redact(form.show(text)).text
    left = form.read(redacted).replace("\n", "")
    assert redacted != form.show(text)
    assert not is_left(secret.replace("\n", ""), left)
    assert redactor.redact(redacted).text == redacted


@pytest.mark.parametrize("name", FORMS)
def test_text_without_a_secret_stays(redactor: Redactor, name: str) -> None:
    shown = FORMS[name].show("# settings of the shop\nregion: eu-central-1\nretries: 3\npage size: 200\n")
    assert redactor.redact(shown).text == shown


DISGUISES = {
    "escape of JSON": r"\u0054r1cky-W0rd92",
    "entity": "Tr1cky-W&#48;rd92",
    "no width": "Tr1cky\u200b-W0rd92",
    "colour": "Tr1cky-\x1b[1mW0rd92\x1b[0m",
    "word diff": "{+Tr1cky-W0rd92+}",
}


@pytest.mark.parametrize("disguised", DISGUISES.values(), ids=DISGUISES)
@pytest.mark.parametrize("filler", ["x = 1\n", "x+1,"], ids=["lines", "one line"])
def test_disguise_goes_however_far_the_next_one_is(redactor: Redactor, disguised: str, filler: str) -> None:
    line = f"\nDB_PASSWORD={disguised}\n"
    long = filler * 8_000
    redacted = redactor.redact(long + line + long + line + long).text
    assert "rd92" not in redacted
    assert redacted.count("[REDACTED:") == 2
    assert len(redacted) > 3 * len(long)
