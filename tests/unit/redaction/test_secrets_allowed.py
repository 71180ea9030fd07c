"""Values that the operator allows stay; all others are redacted as before."""

import base64
import hashlib
import re

import pytest

from penumbra.redaction import LIBRARY_KEY, RuleError, rule, ruleset
from penumbra.redaction.placeholder import make
from penumbra.redaction.redactor import Redactor
from penumbra.redaction.rule import Allowed

TOKEN = "gh" + "p_lqcPuQybgKxtzX17jVL0GAPxirppHx92KGBZ"
TEXT = f"GITHUB_TOKEN={TOKEN}\nDB_PASSWORD=n0t-a-Real1\n"


def redacted(*entries: str, hint: str = "") -> str:
    return Redactor(LIBRARY_KEY, allowed=Allowed.of(entries)).redact(TEXT, hint).text


def test_one_value_by_the_id_of_its_placeholder() -> None:
    plain = Redactor(LIBRARY_KEY).redact(TEXT).text
    token, password = re.findall(r":([a-z2-7]{6})\]", plain)
    assert TOKEN in redacted(f"id:{token}")
    assert "n0t-a-Real1" not in redacted(f"id:{token}")
    assert "n0t-a-Real1" in redacted(f"id:{password}")


@pytest.mark.parametrize(
    "entry", ["sha256:" + hashlib.sha256(TOKEN.encode()).hexdigest().upper(), "value:gh[po]_.*"]
)
def test_one_value_by_its_hash_or_by_a_pattern(entry: str) -> None:
    assert redacted(entry).startswith(f"GITHUB_TOKEN={TOKEN}\n")
    assert "n0t-a-Real1" not in redacted(entry)


def test_an_allowed_value_may_be_in_base64() -> None:
    encoded = base64.b64encode(f"# settings of the tests\nGITHUB_TOKEN={TOKEN}\n".encode()).decode()
    text = f"data: {encoded}\n"
    assert Redactor(LIBRARY_KEY).redact(text).text == f"data: {_whole(encoded)}\n"
    assert Redactor(LIBRARY_KEY, allowed=Allowed.of(["value:gh[po]_.*"])).redact(text).text == text
    assert Redactor(LIBRARY_KEY, allowed=Allowed.of(["value:gl.*"])).redact(text).text != text


def _whole(value: str) -> str:
    return make("encoded-secret", LIBRARY_KEY, value.encode())


def test_a_pattern_means_the_whole_value() -> None:
    assert TOKEN not in redacted("value:gh[po]_")


def test_a_rule_by_its_name() -> None:
    assert "n0t-a-Real1" in redacted("rule:name-*")
    # The form of the token is also known, and another rule finds it.
    assert TOKEN not in redacted("rule:name-*")


@pytest.mark.parametrize(
    ("hint", "stays"),
    [
        ("tests/fixtures/app.env", True),
        ("/src/shop/tests/fixtures/app.env", True),
        ("fixtures/app.env", False),
        ("cat tests/fixtures/app.env", False),
        ("tests/fixtures/app.env;cat /etc/app.env", False),
        ("", False),
    ],
)
def test_a_file_by_its_path_alone(hint: str, stays: bool) -> None:
    assert (redacted("path:tests/fixtures/*.env", hint=hint) == TEXT) is stays


@pytest.mark.parametrize(
    ("glob", "hint", "stays"),
    [
        ("tests/*.env", "tests/.env", True),
        ("tests/*.env", "tests/../.env", False),
        ("tests/*.env", "tests/a/app.env", False),
        ("tests/**/*.env", "tests/app.env", True),
        ("tests/**/*.env", "/src/tests/a/b/app.env", True),
        ("tests/**/*.env", "tests/a/../../.env", False),
        ("tests/**", "tests/..\\..\\.env", False),
        ("tests/*.env", "tests/./app.env", False),
        ("/src/*.env", "/src/app.env", True),
        ("tests/*.env", "C:\\w\\tests\\app.env", True),
        ("tests/*.env", "C:\\w\\tests\\..\\app.env", False),
        ("tests/*.env", "C:\\w\\other\\tests\\a\\app.env", False),
        ("/src/*.env", "/home/src/app.env", False),
    ],
)
def test_a_glob_leads_out_of_no_folder(glob: str, hint: str, stays: bool) -> None:
    assert (redacted(f"path:{glob}", hint=hint) == TEXT) is stays


@pytest.mark.parametrize("entry", ["", "x", "colour:red", "id:abc", "sha256:12", "value:a(b", "rule:"])
def test_a_wrong_entry_is_refused(entry: str) -> None:
    with pytest.raises(RuleError):
        Allowed.of([entry])


def test_a_second_pass_replaces_no_part_of_an_allowed_value() -> None:
    """A second pass over the redacted text changes nothing."""
    once = redacted("value:n0t-a-Real1")
    assert Redactor(LIBRARY_KEY, allowed=Allowed.of(["value:n0t-a-Real1"])).redact(once).text == once


def test_the_error_of_an_unknown_rule_names_the_nearest_rule() -> None:
    rules = rule.read()
    for known in (
        "rule:github-token",
        "rule:name-password",
        "rule:record-*",
        "rule:cookie",
        "rule:password-hash*",
    ):
        ruleset.allowed([known], rules)
    with pytest.raises(
        RuleError, match=r"penumbra_secrets_allow: got .rule:name-pasword., .*rule:name-password"
    ):
        ruleset.allowed(["rule:name-password", "rule:name-pasword"], rules)


def test_every_rule_that_found_something_can_be_named() -> None:
    rules = rule.read()
    for text in (TEXT, "Cookie: sid=q8Zk2mVt41Lx9RwPz0bT6c\n", "passwords: ['Sommer2031!', 'k1ngf1sher7']\n"):
        for found in Redactor(LIBRARY_KEY).scan(text).counts:
            ruleset.allowed([f"rule:{found}"], rules)
