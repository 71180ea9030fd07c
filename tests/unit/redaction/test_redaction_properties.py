"""Properties of redaction that hold for every text."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penumbra import redact
from support import secret_contexts as contexts
from support.examples import examples

SECRETS = [
    "gh" + "p_" + contexts.values(1)["base62"][:36],
    "AK" + "IAQ7Q2XZ5PLMN4TRSW",
    "ey" + "JhbGciOiJub25lIn0.ey" + "JzdWIiOiJwZW51bWJyYSJ9.c2lnbmF0dXJlLW9mLW5vYm9keQ",
    *contexts.HUMAN,
    *contexts.values(2).values(),
    "-----BEGIN RSA PRIVATE KEY-----\n" + "Ab3/Xy9+" * 12 + "\n-----END RSA PRIVATE KEY-----",
]
GLUE = [
    *("\n", " ", ": ", "=", '"', "'", "\\", "\\n", '\\"', "\\\\", ",", "{", "}", "[", "]", "<", ">"),
    *("\t", "&", "@", "://"),
]
GLUE += [
    *("password", "api_key", "token", "secret", "Authorization: Bearer ", "Cookie: "),
    *("kind: Secret\ndata:\n", "-u app:"),
]
GLUE += [
    *("\x1b[31m", "\x1b[0m", "\u200b", "\\u0067", "%67", "é", "\U0001f511", "\ud83d"),
    *("[REDACTED:password:abcdef]", "value", "name"),
]
PIECES = st.sampled_from(SECRETS + GLUE) | st.text(max_size=8)
TEXTS = st.lists(PIECES, max_size=14).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["password", "token", "n", "value", "api_key"]) | TEXTS, inner, max_size=4
        )
    ),
    max_leaves=8,
)


@settings(max_examples=examples(400))
@given(TEXTS)
def test_idempotent(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@settings(max_examples=examples(300))
@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_json_stays_valid(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    json.loads(redact(text))


@settings(max_examples=examples(200))
@given(VALUES)
@example({"password": [1.5000000000419218e16, -2.5e-7]})
@example({"password\\": -10000})
@example({"password": {"value": [-1000, None]}})
def test_json_in_json_stays_valid(value: object) -> None:
    text = json.dumps({"out": json.dumps(value)})
    json.loads(json.loads(redact(text))["out"])


@settings(max_examples=examples(200))
@given(TEXTS, TEXTS)
def test_a_token_is_replaced_in_any_text(before: str, after: str) -> None:
    token = "gh" + "o_" + contexts.values(8)["base62"][:36]
    assert token not in redact(f"{before} {token} {after}")
