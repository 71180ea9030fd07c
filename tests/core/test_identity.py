"""Who is asking: keys count as they are, renewed logins stay the same caller."""

import base64
import json

from penumbra.wire.identity import credential, principal


def jwt(claims):
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"Bearer eyJ.{part}.sig"


def test_keys_count_as_they_are():
    assert principal({"x-api-key": "a"}, {}) == "a"
    assert principal({"api-key": "b"}, {}) == "b"
    assert principal({"authorization": "Bearer sk-c"}, {}) == "Bearer sk-c"
    assert principal({}, {"key": "d"}) == "d"
    assert principal({}, {}) == ""
    assert credential({"x-api-key": "a", "authorization": "Bearer x"}, {"key": "d"}) == "a"


def test_a_renewed_token_is_the_same_caller():
    old = {"authorization": jwt({"iss": "i", "sub": "me", "exp": 1}), "chatgpt-account-id": "acc"}
    new = {"authorization": jwt({"iss": "i", "sub": "me", "exp": 2}), "chatgpt-account-id": "acc"}
    assert principal(old, {}) == principal(new, {})
    assert principal(old, {}) != principal({"authorization": jwt({"iss": "i", "sub": "you"})}, {})
    assert principal(old, {}) != principal({**old, "chatgpt-account-id": "other"}, {})


def test_a_claude_login_is_its_account():
    user = json.dumps({"account_uuid": "u1", "session_id": "s"})
    old, new = ({"authorization": f"Bearer sk-ant-oat01-{name}"} for name in ("old", "new"))
    assert principal(old, {}, user) == principal(new, {}, user)
    assert principal(old, {}, user) != principal(old, {}, json.dumps({"account_uuid": "u2"}))
    assert principal(old, {}, "user_abc") == "Bearer sk-ant-oat01-old"
    assert principal({"x-api-key": "k"}, {}, user) == "k"


def test_odd_tokens_count_as_they_are():
    for token in ("Bearer a.b.c", "Bearer ..", "Bearer a.eyJ9.c", jwt({"sub": ""}), jwt([1])):
        assert principal({"authorization": token}, {}) == token


def test_a_signed_request_is_its_key():
    def signed(key, signature):
        scope = f"Credential={key}/20260101/us-east-1/bedrock/aws4_request"
        return {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature={signature * 64}"}

    assert principal(signed("AKIDA", "0"), {}) == principal(signed("AKIDA", "1"), {})
    assert principal(signed("AKIDA", "0"), {}) != principal(signed("AKIDB", "0"), {})
