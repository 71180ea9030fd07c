"""Hostile texts that hide a secret, and texts that must stay."""

import json

import pytest

from penumbra import redact, redact_many
from penumbra.redaction import RedactionError
from penumbra.redaction import redactor as searched
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from support import secret_contexts as contexts
from support.work_counts import calls

TOKEN = "gh" + "p_" + contexts.values(3)["base62"][:36]
PASSWORD = "n0t-A.real_One"


def escaped(text: str, form: str) -> str:
    return "".join(form % ord(char) for char in text)


DISGUISED = {
    "colour inside": TOKEN[:12] + "\x1b[1;31m" + TOKEN[12:20] + "\x1b[0m" + TOKEN[20:],
    "colour at both ends": "\x1b[32m" + TOKEN + "\x1b[0m",
    "link inside": TOKEN[:9] + "\x1b]8;;http://example.net\x1b\\" + TOKEN[9:] + "\x1b]8;;\x1b\\",
    "title inside": TOKEN[:9] + "\x1b]0;title\x07" + TOKEN[9:],
    "zero width space": "\u200b".join(TOKEN),
    "zero width joiner": TOKEN[:7] + "\u200d\u2060" + TOKEN[7:],
    "soft hyphen": TOKEN[:20] + "\u00ad" + TOKEN[20:],
    "byte order mark": TOKEN[:20] + "\ufeff" + TOKEN[20:],
    "overstruck": "".join(f"{char}\x08{char}" for char in TOKEN),
    "one letter as JSON escape": '{"k": "\\u0067' + TOKEN[1:] + '"}',
    "all letters as JSON escapes": '{"k": "' + escaped(TOKEN, "\\u%04x") + '"}',
    "JSON escapes twice": '{"k": "{\\"a\\":\\"' + escaped(TOKEN, "\\\\u%04X") + '\\"}"}',
    "hexadecimal escapes": "'" + escaped(TOKEN, "\\x%02x") + "'",
    "hexadecimal digits": json.dumps(f"token {TOKEN} of a dump".encode().hex("\n", 30)),
    "hexadecimal digits with colons": TOKEN.encode().hex(":"),
    "halves in numbered lines": f"   12\tkey = ('{TOKEN[:11]}' +\n   13\t       '{TOKEN[11:]}')\n",
    "halves in numbered lines in JSON": json.dumps(f"12→k = '{TOKEN[:11]}' +\n13→  '{TOKEN[11:]}'\n"),
    "halves in added lines": f'+key = "{TOKEN[:11]}" +\n+      "{TOKEN[11:]}"\n',
    "halves in hits": f'a.py:12:k = "{TOKEN[:11]}" \\\na.py-13-    "{TOKEN[11:]}"\n',
    "percent escapes": "q=" + escaped(TOKEN, "%%%02X"),
    "percent escape of one letter": "q=%67" + TOKEN[1:] + "&n=1",
    "escaped percent escapes": "q=" + escaped(TOKEN, "%%25%02x"),
    "percent escapes of signs, twice": "q=" + TOKEN.replace("_", "%25255F"),
    "hexadecimal digits of the token alone": TOKEN.encode().hex()[:40] + "\n" + TOKEN.encode().hex()[40:],
    "quoted printable": "value " + escaped(TOKEN, "=%02X") + ".",
    "quoted printable with wraps": f'<a href=3D"https://example.net/?t=3D{TOKEN[:9]}=\n{TOKEN[9:]}">',
    "colour escapes in JSON": json.dumps({"out": f"\x1b[32m{TOKEN[:10]}\x1b[0m{TOKEN[10:]}"}),
    "wrapped": "x" * 60 + " " + TOKEN[:18] + "\n" + TOKEN[18:] + "\n",
    "wrapped with backslash": "curl -H " + TOKEN[:18] + "\\\n" + TOKEN[18:] + "\n",
    "wrapped in quoted printable": TOKEN[:18] + "=\r\n" + TOKEN[18:] + "\r\n",
    "wrapped in JSON": json.dumps({"out": TOKEN[:18] + "\n" + TOKEN[18:]}),
    "behind an escape": json.dumps({"out": f"a\n{TOKEN}\tb"}),
    "behind percent": f"https://example.net/?u=x%3D{TOKEN}%26y",
    "between words": f"see({TOKEN})and[{TOKEN}]",
    "in a path": f"/tmp/{TOKEN}/x",
}


@pytest.mark.parametrize("form", DISGUISED)
def test_disguise_is_seen_through(form: str) -> None:
    redacted = redact(DISGUISED[form])
    assert "[REDACTED:github-token:" in redacted
    assert TOKEN[12:] not in redacted
    assert not any(TOKEN[at : at + 9] in redacted for at in range(len(TOKEN) - 9))


@pytest.mark.parametrize("lead", ["", "Hello,\r\n\r\n"])
def test_a_soft_line_break_in_a_full_line_belongs_to_the_value(lead: str) -> None:
    value = "Xk29vLq8ZtR4mWc7YpB3nD6f"
    line = f"{'so you can log in with ':.<55}password: {value[:10]}"
    redacted = redact(f"{lead}{line}=\r\n{value[10:]} from tomorrow on.\r\n")
    assert len(line) == 75
    assert value[10:] not in redacted
    assert redacted.endswith(" from tomorrow on.\r\n")
    # The sign at the end of a short line is the end of the value.
    assert redact(f"password: {value[:10]}=\n{value[10:]} from\n").endswith(f"\n{value[10:]} from\n")


def test_the_padding_of_base64_in_a_full_line_is_no_soft_line_break() -> None:
    line = "pbkdf2_sha256$260000$saltsalt$Zr0kQwvN5nVnXxj0Tn6mYb8s1uVtq2R3pLkJhGfDsAq="
    assert redact(f"{line}\nPORT=8080\n").endswith("]\nPORT=8080\n")


def test_long_token_wrapped_after_enough_of_it() -> None:
    token = "sk-ant" + "-api03-" + contexts.values(12)["urlsafe"] + contexts.values(13)["urlsafe"] + "AA"
    text = f"{'x' * 30} {token[:60]}\n{token[60:]}\nnext line\n"
    redacted = redact(text)
    assert token[64:] not in redacted
    assert redacted.endswith("\nnext line\n")


@pytest.mark.parametrize(
    "form", ["one letter as JSON escape", "all letters as JSON escapes", "JSON escapes twice"]
)
def test_unescaping_does_not_bring_it_back(form: str) -> None:
    inner = json.dumps(json.loads(redact(DISGUISED[form])))
    assert TOKEN[:12] not in inner
    assert TOKEN[:12] not in inner.encode().decode("unicode_escape")


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_value_to_the_end_of_its_line_ends_with_its_string(redactor: Redactor, depth: int) -> None:
    text = "    Key Content            : letmein"
    for _ in range(depth):
        text = json.dumps([text, "Cost settings"])
    text = redactor.redact(text).text
    assert "letmein" not in text
    for _ in range(depth):
        text, rest = json.loads(text)
        assert rest == "Cost settings"


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_json_in_json(depth: int) -> None:
    text = json.dumps({"password": PASSWORD, "n": [1, {"api_key": TOKEN}]})
    for _ in range(depth):
        text = json.dumps({"stdout": text})
    redacted = redact(text)
    assert PASSWORD not in redacted
    assert TOKEN not in redacted
    for _ in range(depth):
        redacted = json.loads(redacted)["stdout"]
    inner = json.loads(redacted)
    assert PATTERN.fullmatch(inner["password"])
    assert PATTERN.fullmatch(inner["n"][1]["api_key"])


@pytest.mark.parametrize("backslashes", [1, 2, 4])
def test_json_in_json_as_dot_net_writes_it(backslashes: int) -> None:
    quote = "\\" * backslashes + "u0022"
    inner = f"{{{quote}password{quote}:{quote}@{quote},{quote}n{quote}:1}}"
    redacted = redact(f'{{"body":"{inner}"}}'.replace("@", PASSWORD))
    assert PATTERN.sub("@", redacted) == f'{{"body":"{inner}"}}'


@pytest.mark.parametrize("number", ["123456789", "-12345678.5e3"])
def test_the_placeholder_of_a_number_is_a_string(number: str) -> None:
    redacted = redact(f'{{"a": {{"password": {number}}}, "n": 1}}')
    assert PATTERN.sub("@", redacted) == '{"a": {"password": "@"}, "n": 1}'


def test_two_secrets_differ_and_one_stays_the_same() -> None:
    other = "gh" + "p_" + contexts.values(4)["base62"][:36]
    first, second, third = redact(f"{TOKEN}\n{other}\n{TOKEN}\n").split("\n")[:3]
    assert first == third
    assert first != second


def test_fingerprint_depends_on_the_key() -> None:
    assert Redactor(b"one").redact(TOKEN).text != Redactor(b"two").redact(TOKEN).text
    assert Redactor(b"one").redact(TOKEN).text == Redactor(b"one").redact(TOKEN).text


def test_placeholders_are_left_alone() -> None:
    text = f"password: {redact(TOKEN)}\ntoken={redact(TOKEN)}&secret={redact(TOKEN)}\n"
    assert redact(text) == text


def test_known_value_goes_everywhere() -> None:
    value = contexts.values(5)["base62"]
    redacted = redact(f"API_KEY={value}\n\nand later in prose {value} or '{value}'\n")
    assert value not in redacted
    assert len(set(PATTERN.findall(redacted))) == 1


@pytest.mark.parametrize("size", [1_000, 70_000, 1_100_000])
def test_secret_at_any_distance(size: int) -> None:
    filler = "ordinary line of a log, nothing here\n" * (size // 37)
    redacted = redact(filler + TOKEN + "\n" + filler + f"password = '{PASSWORD}'\n")
    assert TOKEN not in redacted
    assert PASSWORD not in redacted
    assert redacted.startswith(filler)


def test_counts_are_by_rule(redactor: Redactor) -> None:
    result = redactor.redact(f"{TOKEN}\npassword='{PASSWORD}'\npassword='{PASSWORD}x'\n")
    assert dict(result.counts) == {"github-token": 1, "name-password": 2}


def test_nothing_found_is_the_same_text(redactor: Redactor) -> None:
    text = "a\r\nb\rc\n\n\ud800 \x00"
    result = redactor.redact(text)
    assert result.text == text
    assert result.counts == {}


def test_limit(redactor: Redactor) -> None:
    small = Redactor(b"k", limit=100)
    assert small.redact("é" * 50).text == "é" * 50
    with pytest.raises(RedactionError, match="101 bytes are more than the limit of 100"):
        small.redact("x" * 101)


def test_failure_tells_nothing_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Redactor(b"k")

    def fail(*_: object, **__: object) -> None:
        raise ValueError(TOKEN)

    monkeypatch.setattr(searched, "assigned", fail)
    with pytest.raises(RedactionError) as caught:
        broken.redact(TOKEN)
    assert TOKEN not in str(caught.value)
    assert caught.value.__suppress_context__


def test_many() -> None:
    assert redact_many([TOKEN, "x", ""]) == [redact(TOKEN), "x", ""]


def test_hint_lowers_and_raises_the_threshold(redactor: Redactor) -> None:
    lone = contexts.values(6)["base62"] + "\n"
    assert redactor.redact(lone).text == lone
    assert redactor.redact(lone, "cat ~/.vault-token").text != lone
    weak = f'"x_key": "{contexts.values(6)["base62"]}"\n'
    assert redactor.redact(weak, "settings.json").text != weak
    assert redactor.redact(weak, "web/package-lock.json").text == weak
    assert redactor.redact(f"password='{PASSWORD}'", "git log -p").text != f"password='{PASSWORD}'"


@pytest.mark.parametrize("lead", range(6))
def test_long_value_of_other_alphabets(lead: int) -> None:
    """The part of a long value that is read may end within a character."""
    value = contexts.values(9)["base62"] + "7" * lead + "ключ€😀" * 80
    assert value[:40] not in redact(f"DB_PASSWORD={value}\n")


def test_tokens_without_anything_between_settle_at_once() -> None:
    """The other part of a word with a placeholder is replaced at once, not token by token."""
    text = "AKIA" * 400
    once = redact(text)
    assert 1 <= len(PATTERN.findall(once)) <= 3
    assert redact(once) == once


def work(redactor: Redactor, text: str) -> int:
    """Return the number of calls for a text that was redacted before. The number is equal in every run."""
    redactor.redact(text)
    return calls(redactor.redact, text)


HOSTILE = [
    *(
        *('password="x ', "key=", "bearer=", "token ", "secret a ", "pass:", "://a:"),
        *("password((((", "--password a "),
    ),
    *(
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----END RSA PRIVATE KEY-----\n",
        "LS0tLS1CRUdJTi",
        "MIIEowIBAAKCAQEA\n",
    ),
    *(
        *("Cookie: a=b; ", "kind: Secret\ndata:\n  a: YWJjZGVm\n", "$ cat token\n"),
        *("$ op read x\n", '"$ ', "- name: password\n  value: "),
    ),
    *(
        "eyJ",
        "eyJhbGciOiJub25lIn0.",
        "ghp_sk-xoxb-AKIA",
        "AKIA%41",
        "sk-",
        "A" * 40 + "\n",
        "ab_" + "q8Zk2m" * 5 + "-",
    ),
    *("password='Zt7#q\\\"w9x' ", "password='Zt7#q\\\\\\\"w9x' ", "password=`Zt7#q\\u0022='x` \\\\n"),
    *("4142434445464748ff", "41424344ff" * 6 + "\n", "41" * 30 + "\n"),
    *("\x1b[", "\x1b]8;;", "\\u0067", "a\u200b", "<password ", "<a password>", "[REDACTED:password:abcdef] "),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_work_grows_with_the_text_and_no_faster(piece: str, redactor: Redactor) -> None:
    small, large = (work(redactor, piece * (size // len(piece))) for size in (4_000, 16_000))
    assert large <= 4.5 * small + 300


def test_hexadecimal_digits_are_decoded_by_line(redactor: Redactor) -> None:
    digits = (b"plain words of a file " * 400).hex("\n", 30)
    assert work(redactor, digits) < len(digits) / 3


@pytest.mark.parametrize(
    "text",
    [
        "password:" + "\n1:1:" * 40 + "x",
        '"password",' + "\n1:1:" * 40 + "x",
        "password" + "\n1:1:" * 40 + "valu",
        "<key>password</key>" + "\n1:1:" * 40 + "<strin",
        "password:" + "\\n1:1:" * 40 + "x",
        "token=" + "ab-" * 80 + "\u200b",
        "Authorization: Bearer " + "sk-ant-api03-" * 12 + "\u200b",
    ],
)
def test_no_pattern_tries_every_way_to_read_a_text(text: str, redactor: Redactor) -> None:
    """With backtracking patterns, each of these texts would take exponential time."""
    assert isinstance(redactor.redact(text).text, str)


@pytest.mark.parametrize("said", ["--password '\\u0067 " + PASSWORD, "--password 'eyJhbGciOiJub25lIn0.\""])
def test_a_quote_in_a_string_of_json_ends_the_string(said: str) -> None:
    redacted = redact(json.dumps([json.dumps({"token": said})]))
    assert json.loads(json.loads(redacted)[0]).keys() == {"token"}


@pytest.mark.parametrize("lead", [0, 300, 5_000])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("behind", ["", "\x1b[31m}", '"b'])
def test_a_value_ends_with_its_string_however_long_that_is(behind: str, depth: int, lead: int) -> None:
    said = f"{'word ' * (lead // 5)}--password '{PASSWORD}{behind}"
    text = said
    for _ in range(depth):
        text = json.dumps([text, "it's"])
    for written in (text, text.replace('\\"', "\\u0022")):
        inner = redact(written)
        assert PASSWORD not in inner
        for _ in range(depth):
            inner, other = json.loads(inner)
            assert other == "it's"
        assert inner.startswith(f"{'word ' * (lead // 5)}--password '[REDACTED:password:")


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_deeper_quote_is_of_the_value(depth: int) -> None:
    before, behind = 'say "hello"\n' + 60 * "more ", " and more"
    said = f"{before}--password '{PASSWORD}\"x7'{behind}"
    text = said
    for _ in range(depth):
        text = json.dumps([text])
    redacted = redact(text)
    for _ in range(depth):
        (redacted,) = json.loads(redacted)
    assert redacted.startswith(f"{before}--password '[REDACTED:password:")
    assert depth == 0 or redacted.endswith(f"]'{behind}")


def test_json_with_half_a_surrogate_pair_stays_json() -> None:
    text = json.dumps(
        {"out": "-----BEGIN RSA PRIVATE KEY-----\n\ud83dpasswordpassword", "password": "-----BEGIN"}
    )
    assert json.loads(redact(text)).keys() == {"out", "password"}


@pytest.mark.parametrize("text", ["passwords:\n  - &quot;@db1/x", "token%22%3A%22eyJhbGciOiJub25lIn0."])
def test_no_bare_quote_closes_what_one_in_letters_opens(text: str) -> None:
    outer = redact(json.dumps([json.dumps({"token": text})]))
    (inner,) = json.loads(outer)
    assert text not in json.loads(inner)["token"]
