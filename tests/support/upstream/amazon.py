"""Amazon's framing of streams, and the signatures of its requests."""

import datetime
import hmac
import json
import re
import struct
from collections.abc import Mapping
from zlib import crc32

from support.upstream.api import Received

KEY_ID, SECRET = "AKIDEXAMPLE", "secret/Key"
"""The one access key that the test provider knows."""
_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([\w-]+)/bedrock/aws4_request,"
    r" SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})"
)
_SKEW = datetime.timedelta(minutes=5)


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message of a stream: lengths, their checksum, headers, payload, checksum of all."""
    head = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    lengths = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    whole = lengths + struct.pack(">I", crc32(lengths)) + head + payload
    return whole + struct.pack(">I", crc32(whole))


def event(name: str, value: object) -> bytes:
    """Return an event of a stream; a name that ends in Exception makes it an error."""
    kind = "exception" if name.endswith("Exception") else "event"
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return message(headers, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def why_not_signed(received: Received) -> str:
    """Return what is wrong with a request's signature; empty if nothing is."""
    # The demonstration uses this module where botocore is not installed.
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    match = _SIGNED.fullmatch(received.header("authorization") or "")
    if match is None or match[1] != KEY_ID:
        return "The security token included in the request is invalid."
    names = match[4].split(";")
    headers = {name: received.header(name) or "" for name in names}
    if not {"host", "x-amz-date"} <= headers.keys() or headers["x-amz-date"][:8] != match[2]:
        return "The request signature does not conform to AWS standards."
    sent = datetime.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    if abs(datetime.datetime.now(datetime.UTC) - sent) > _SKEW:
        return f"Signature expired: {headers['x-amz-date']} is now earlier than is allowed."
    request = AWSRequest("POST", f"https://{headers['host']}{received.target}", headers, received.raw_body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(KEY_ID, SECRET), "bedrock", match[3])
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    if not hmac.compare_digest(signature, match[5]):
        return "The request signature we calculated does not match the signature you provided."
    return ""
