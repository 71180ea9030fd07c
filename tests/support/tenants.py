"""Conversations of several tenants."""

import base64
import json
from typing import Any

import pytest

from support.apis import APIS, Api
from support.engines import Callers

LOG = "\n".join(
    f"line {number}: worker {number * 7919 % 1009} has finished its part" for number in range(300)
)


OTHER = LOG.replace("worker", "runner")
ASK = ("user", "What is in the log?")
CALL = ("call", "call_0", "cat log")
NEXT = ("call", "call_1", "ls")
DONE = ("result", "call_1", "a b c")
every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)


def result(text: str) -> tuple[str, ...]:
    return ("result", "call_0", text)


def begun(callers: Callers, api: Api, headers: dict[str, str], log: str = LOG) -> Any:
    """Return the last request of a conversation whose second answer has a hidden exchange."""
    callers.answer(callers.send(api, api.body([ASK]), headers), api, CALL, shows=True)
    asked = callers.send(api, api.body([ASK, CALL, result(log)]), headers)
    callers.answer(asked, api, NEXT)
    return asked


def jwt(sub: str, signature: str) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"iss": "i", "sub": sub}).encode()).rstrip(b"=").decode()
    return f"Bearer eyJhbGciOiJub25lIn0.{claims}.{signature}"


FORGERIES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "an unsigned token": ({"authorization": jwt("victim", "true")}, {"authorization": jwt("victim", "")}),
    "a token in x-api-key": ({"authorization": jwt("victim", "true")}, {"x-api-key": jwt("victim", "")}),
    "beside a key of one's own": (
        {"authorization": jwt("victim", "true")},
        {"authorization": jwt("victim", "true"), "x-api-key": "the attacker's own"},
    ),
    "beside an api-key of one's own": (
        {"authorization": jwt("victim", "true")},
        {"authorization": jwt("victim", "forged"), "api-key": "the attacker's own"},
    ),
    "an account id": (
        {"authorization": jwt("victim", "true"), "chatgpt-account-id": "victim"},
        {"authorization": jwt("attacker", "true"), "chatgpt-account-id": "victim"},
    ),
    "the name of a signing key": (
        {
            "authorization": "AWS4-HMAC-SHA256 Credential=AKIAVICTIM/20260101/r/bedrock/aws4_request, Signature=0"
        },
        {"x-api-key": "aws AKIAVICTIM"},
    ),
    "an address": ({}, {"x-api-key": "peer 10.0.0.1"}),
    "a header that is not known": ({"x-acme-api-key": "victim"}, {"x-acme-api-key": "attacker"}),
}
