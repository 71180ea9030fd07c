"""Signatures equal the signatures that botocore makes."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from penumbra.wire.sigv4 import AwsKeys, Signable, covers_body

KEYS = AwsKeys("AKIDEXAMPLE", "secret/Key")
HOST = "https://bedrock-runtime.us-east-1.amazonaws.com"
PATHS = [
    "/model/us.anthropic.claude-3-5-sonnet-20241022-v2%3A0/converse",
    "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aprofile%2Fx/invoke",
    "/model/m/converse?b=2&a=1%20x",
]


def signed(path: str, body: bytes, token: str | None = None, **headers: str) -> Signable:
    """Return a request that botocore has signed."""
    request = AWSRequest(
        "POST", HOST + path, headers={"Content-Type": "application/json", **headers}, data=body
    )
    SigV4Auth(Credentials(KEYS.id, KEYS.secret, token), "bedrock", "us-east-1").add_auth(request)
    found: dict[str, Any] = {name.lower(): value for name, value in request.headers.items()}
    return Signable("POST", path, {"host": urlsplit(HOST).netloc, **found}, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", [None, "session/token=="])
def test_signatures_of_botocore_are_recognised_and_made(path: str, token: str | None) -> None:
    request = signed(path, '{"a":"é"}'.encode(), token)
    assert KEYS.made(request)
    changed = Signable("POST", path, request.headers, b"other")
    assert not KEYS.made(changed)
    new = KEYS.sign(changed)
    assert KEYS.made(Signable("POST", path, {**request.headers, **new}, b"other"))
    assert new["authorization"].rpartition("=")[0] == request.headers["authorization"].rpartition("=")[0]


def test_a_hash_of_the_body_in_the_headers_is_renewed() -> None:
    request = signed("/model/m/converse", b"{}", **{"X-Amz-Content-SHA256": "0" * 64})
    new = KEYS.sign(Signable("POST", request.path, request.headers, b"other"))
    assert new.keys() == {"authorization", "x-amz-content-sha256"}
    assert KEYS.made(Signable("POST", request.path, {**request.headers, **new}, b"other"))


def test_a_later_time_and_headers_that_are_gone() -> None:
    request = signed("/model/m/converse", b"{}", **{"X-Mine": "1", "Accept-Encoding": "gzip, br"})
    assert "x-mine" in request.headers["authorization"]
    headers = {name: value for name, value in request.headers.items() if name != "x-mine"}
    headers["accept-encoding"] = "gzip"
    new = KEYS.sign(Signable("POST", request.path, headers, b"other"), "20310102T030405Z")
    assert new["x-amz-date"] == "20310102T030405Z"
    assert "/20310102/us-east-1/bedrock/aws4_request, " in new["authorization"]
    assert "x-mine" not in new["authorization"]
    assert KEYS.made(Signable("POST", request.path, {**headers, **new}, b"other"))
    assert not KEYS.made(
        Signable("POST", request.path, {**headers, **new, "accept-encoding": "br"}, b"other")
    )


def test_signatures_of_other_keys_and_requests_are_not_replaced() -> None:
    request = signed("/model/m/converse", b"{}")
    assert not AwsKeys("AKIDEXAMPLE", "another").made(request)
    other = AwsKeys("AKIDOTHER", KEYS.secret)
    assert not other.made(request)
    assert other.sign(request) == {}
    assert not KEYS.made(Signable("GET", request.path, request.headers, b"{}"))
    assert not KEYS.made(Signable("POST", "/model/n/converse", request.headers, b"{}"))
    for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "AWS4-HMAC-SHA256 nonsense"}):
        unsigned = Signable("POST", "/", headers, b"")
        assert not KEYS.made(unsigned)
        assert KEYS.sign(unsigned) == {}
    assert "secret/Key" not in repr(KEYS)


def test_requests_whose_bodies_are_signed() -> None:
    assert covers_body(signed("/model/m/converse", b"{}").headers)
    assert not covers_body({"authorization": "Bearer bedrock-api-key-x"})
    assert not covers_body({})
    assert not covers_body(
        {"authorization": "AWS4-HMAC-SHA256 x", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    )
