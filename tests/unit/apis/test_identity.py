"""The identity of callers: every example of the rule file, and claims. Claims never join two callers."""

import base64
import json
from typing import Any

import pytest
from mitmproxy.test import tutils

from penumbra import rules
from penumbra.apis.identity import Caller, Credentials, credential_headers
from penumbra.flow.destination import query_of

KNOWN = rules.load("credentials.yaml")
KEY = b"k" * 32
HOST = "api.example.com:443"


def who(headers: dict[str, Any], host: str = HOST, user: str = "", peer: str = "10.0.0.1") -> Caller:
    headers = dict(headers)
    query = headers.pop("query", {})
    return Credentials.of(host, peer, headers, query).caller(KEY, user)


def jwt(claims: Any, signature: str = "sig") -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"Bearer eyJ.{part}.{signature}"


@pytest.mark.parametrize("example", KNOWN["examples"], ids=str)
def test_every_example(example: dict[str, Any]) -> None:
    host = f"{example.get('host', 'api.example.com')}:443"
    one, other = who(example["one"], host), who(example["other"], host)
    same = (one.scope == other.scope, one.owner == other.owner)
    assert same == {"same": (True, True), "renewed": (False, True), "other": (False, False)}[example["is"]]
    assert not one.is_open


def test_every_known_header_is_a_credential() -> None:
    for name in KNOWN["headers"]:
        assert who({name: "a=1"}).scope != who({name: "a=2"}).scope, name
    for name in KNOWN["queries"]:
        assert who({"query": {name: "1"}}).scope != who({"query": {name: "2"}}).scope, name
    for name in KNOWN["not"]:
        assert who({name: "1"}).is_open, name
    for name in KNOWN["cookies_not"]:
        assert who({"cookie": f"{name}=1"}).is_open, name


def test_the_host_counts() -> None:
    assert who({"x-api-key": "a"}).scope != who({"x-api-key": "a"}, "api.example.com:8443").scope
    assert who({"x-api-key": "a"}).owner != who({"x-api-key": "a"}, "evil.example.com:443").owner


def test_kinds_and_lengths_are_told_apart() -> None:
    assert who({"x-api-key": "peer 10.0.0.1"}).scope != who({}).scope
    ids = {
        who(headers).scope
        for headers in (
            {"x-api-key": "ab"},
            {"x-api-key": "a", "x-b-key": "b"},
            {"x-api-key": "a", "x-b-key": "", "api-key": "b"},
            {"cookie": "x-api-key=ab"},
            {"query": {"x-api-key": "ab"}},
        )
    }
    assert len(ids) == 5


def test_every_value_of_a_repeated_key_counts() -> None:
    queries = ("key=a", "key=a&key=b", "key=b&key=a", "key=b", "key=b&key=b")
    requests = [tutils.treq(path=f"/x?{query}".encode()) for query in queries]
    assert len({who({"query": query_of(request)}).scope for request in requests}) == len(queries)
    assert query_of(tutils.treq(path=b"/x?alt=sse&key=a")) == {"alt": "sse", "key": "a"}


def test_without_credentials_there_is_the_address() -> None:
    one, other = who({}), who({}, peer="10.0.0.2")
    assert one.is_open
    assert one.scope == one.owner != other.scope


def test_a_claim_never_brings_two_callers_together() -> None:
    victim = {"authorization": jwt({"iss": "i", "sub": "me"}), "chatgpt-account-id": "acc"}
    forged = {"authorization": jwt({"iss": "i", "sub": "me"}, "forged"), "chatgpt-account-id": "acc"}
    assert who(victim).scope != who(forged).scope
    for name in ("x-api-key", "api-key"):
        beside = {**victim, name: "the attacker's own"}
        assert who(beside).scope != who(victim).scope
        assert who(beside).owner != who(victim).owner
        assert who({name: victim["authorization"]}).owner != who(victim).owner
    user = json.dumps({"account_uuid": "u1"})
    login, other = ({"authorization": f"Bearer sk-ant-oat01-{name}"} for name in ("victim", "attacker"))
    assert who(login, user=user).scope != who(other, user=user).scope


def test_a_claim_may_tell_two_callers_apart() -> None:
    me, you = (who({"authorization": jwt({"iss": "i", "sub": sub})}) for sub in ("me", "you"))
    assert me.owner != you.owner
    login = {"authorization": "Bearer sk-ant-oat01-a"}
    users = [json.dumps({"account_uuid": one}) for one in ("u1", "u2")]
    assert who(login, user=users[0]).owner != who(login, user=users[1]).owner
    assert who(login, user="user_abc").owner == who(login, user='{"account_uuid":1}').owner


def test_a_renewed_token_may_show_what_it_possesses() -> None:
    old, new = (who({"authorization": jwt({"iss": "i", "sub": "me", "exp": n}, str(n))}) for n in (1, 2))
    assert old.scope != new.scope
    assert old.owner == new.owner


def test_odd_tokens_are_read_without_an_error() -> None:
    for token in ("Bearer a.b.c", "Bearer ..", "Bearer a.eyJ9.c", jwt({"sub": ""}), jwt([1]), "Bearer a.%.c"):
        assert who({"authorization": token}).scope != who({"authorization": token + "x"}).scope
    assert who({"authorization": "Bearer \ud800"}).scope


def test_headers_that_a_strategy_may_send_on() -> None:
    headers = {"authorization": "a", "anthropic-beta": "x, oauth-2025-04-20", "cookie": "c"}
    assert credential_headers(headers) == {"authorization": "a", "anthropic-beta": "oauth-2025-04-20"}
    assert credential_headers({"anthropic-beta": "oauth-2025-04-20"}) == {}
