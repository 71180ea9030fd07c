"""Secrets planted in every place of every API never reach the provider, nor anything that is kept. The tests
look for bytes, in every spelling that a secret could take on its way."""

import base64
import json
import random
import re
import sqlite3
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ahocorasick_rs
import pytest
import zstandard

from penumbra.store.key_file import Seal
from support.apis import BY_ID, Api, Turn
from support.mitm import Mitmdump
from support.upstream import Raw, ToolCall, decode, encode, turn

KEYS = {
    "x-api-key": "k",
    "authorization": "Bearer k",
    "x-goog-api-key": "k",
    "anthropic-version": "2023-06-01",
}
PAGE = Raw(headers=(("content-type", "application/json"),), body=b"{}")


@dataclass
class Planted:
    """A `Planted` makes texts with secrets in them, and knows the secrets."""

    random: random.Random
    secrets: list[str] = field(default_factory=list)

    def word(self, length: int, letters: str = string.ascii_letters + string.digits) -> str:
        made = "".join(self.random.choice(letters) for _ in range(length - 2)) + "7k"
        self.secrets.append(made)
        return made

    def text(self) -> str:
        """Return a text as a tool prints it."""
        key = "\n".join(self.word(64) for _ in range(3))
        return (
            f"GITHUB_TOKEN=ghp_{self.word(36)}\nDB_PASSWORD='{self.word(12)}'\nDEBUG=true\n"
            f"postgres://app:{self.word(16)}@db.internal/orders\nAuthorization: Bearer {self.word(40)}\n"
            f"-----BEGIN RSA PRIVATE KEY-----\n{key}\n-----END RSA PRIVATE KEY-----\n"
        )

    def said(self) -> str:
        """Return a text as a person writes it."""
        return f"Use the token xoxb-{self.random.randrange(10**11, 10**12)}-{self.word(24)} for Slack."

    def value(self) -> dict[str, Any]:
        """Return a value as a service answers it, or as a call's arguments."""
        pair = {"name": "API_TOKEN", "value": self.word(32)}
        return {"env": {"DB_PASSWORD": self.word(14)}, "list": [pair], "log": self.text(), "n": 1}


SYSTEM: dict[str, Callable[[str], dict[str, Any]]] = {
    "anthropic-messages": lambda words: {"system": [{"type": "text", "text": words}]},
    "openai-responses": lambda words: {"instructions": words},
    "gemini": lambda words: {"systemInstruction": {"parts": [{"text": words}]}},
    "bedrock-converse": lambda words: {"system": [{"text": words}]},
}
"""The members with a system prompt; other APIs have it in the first message."""


def conversation(api: Api, it: Planted) -> dict[str, Any]:
    """Return a request with secrets in prompts, calls and results."""
    turns: list[Turn] = [("user", it.said())]
    for _ in range(2):
        call_id = "toolu_" + "".join(it.random.choice(string.ascii_letters) for _ in range(24))
        turns += [("call", call_id, "Bash", it.value()), ("result", call_id, it.text())]
    body = json.loads(api.body([*turns, ("said", it.said()), ("user", it.said())]))
    if api.id in SYSTEM:
        return body | SYSTEM[api.id](it.said())
    body["messages"].insert(0, {"role": "system", "content": it.said()})
    return body


@dataclass(frozen=True)
class Kind:
    """A `Kind` is one request of an API."""

    path: str
    api: str
    coding: str = ""
    """The content coding of the body; empty: none."""
    without: tuple[str, ...] = ()
    """The members that the request of the API has and this kind does not have."""
    more: Mapping[str, Any] = field(default_factory=dict)
    inside: str = ""
    """The member that holds the request of the API; empty if no member does."""

    def make(self, it: Planted) -> dict[str, Any]:
        body = {**self.more, **conversation(BY_ID[self.api], it)}
        for name in self.without:
            del body[name]
        return {"model": "m", self.inside: body} if self.inside else body


PROJECT = "/v1/projects/p/locations/l/publishers"
CLAUDE, NO_MODEL = "anthropic-messages", ("model",)
KINDS = {
    "anthropic": Kind("/v1/messages", CLAUDE, "deflate"),
    "anthropic count": Kind("/v1/messages/count_tokens", CLAUDE, without=("max_tokens",)),
    "vertex anthropic": Kind(
        f"{PROJECT}/anthropic/models/m@1:streamRawPredict",
        CLAUDE,
        without=NO_MODEL,
        more={"anthropic_version": "vertex-2023-10-16"},
    ),
    "bedrock invoke": Kind(
        "/model/anthropic.m/invoke",
        CLAUDE,
        without=NO_MODEL,
        more={"anthropic_version": "bedrock-2023-05-31"},
    ),
    "bedrock converse": Kind("/model/m/converse", "bedrock-converse"),
    "chat": Kind("/v1/chat/completions", "openai-chat", "gzip"),
    "responses": Kind("/openai/v1/responses", "openai-responses", "zstd"),
    "responses compact": Kind("/v1/responses/compact", "openai-responses"),
    "responses count": Kind("/v1/responses/input_tokens", "openai-responses"),
    "gemini": Kind("/v1beta/models/gemini-2.5-pro:generateContent", "gemini", "br"),
    "gemini count": Kind("/v1beta/models/gemini-2.5-pro:countTokens", "gemini"),
    "code assist": Kind("/v1internal:generateContent", "gemini", inside="request"),
    "vertex": Kind(f"{PROJECT}/google/models/m:generateContent", "gemini"),
    "ollama": Kind("/api/chat", "ollama-chat"),
}
every_kind = pytest.mark.parametrize("name", KINDS)


def spellings(secret: str) -> Iterator[bytes]:
    """Yield the bytes that a secret may have become."""
    raw = secret.encode()
    yield raw
    yield quote(secret, safe="").encode()
    yield "".join(f"%{byte:02x}" for byte in raw).encode()
    yield "".join(f"\\u{byte:04x}" for byte in raw).encode()
    yield raw.hex().encode()
    yield raw[::-1]
    yield raw.decode().encode("utf-16-le")
    for shift in range(3):
        # These letters do not depend on the neighbouring bytes.
        coded = base64.b64encode(b"\0" * shift + raw)[(0, 2, 3)[shift] : len(raw) * 4 // 3 - 2]
        yield from (coded, coded.replace(b"+", b"-").replace(b"/", b"_"))


class Search:
    """A `Search` finds secrets in all their spellings."""

    def __init__(self, secrets: list[str]) -> None:
        forms = [(form, secret) for secret in secrets for form in spellings(secret)]
        # Hexadecimal digits of escapes may be of either case.
        forms += [(form.upper().replace(b"\\U", b"\\u"), secret) for form, secret in forms if form.islower()]
        self._secrets = [secret for _, secret in forms]
        self._automaton = ahocorasick_rs.BytesAhoCorasick([form for form, _ in forms])

    def __call__(self, data: bytes) -> set[str]:
        """Return the secrets in some bytes."""
        return {self._secrets[index] for index, _, _ in self._automaton.find_matches_as_indexes(data)}

    def assert_nothing_kept(self, proxy: Mitmdump) -> None:
        for name, data in kept(proxy.home):
            assert self(data) == set(), name


def kept(home: Path) -> Iterator[tuple[str, bytes]]:
    """Yield everything that a proxy keeps: its files unchanged, and its databases' values unpacked."""
    for path in sorted(home.rglob("*")):
        if path.is_file():
            yield path.name, path.read_bytes()
    for path in sorted(home.rglob("*.sqlite")):
        with sqlite3.connect(path) as connection:
            tables = [
                row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
            ]
            for table in tables:
                seal = Seal(path.with_suffix(".key").read_bytes(), table)
                for row in connection.execute(f"SELECT * FROM {table}"):
                    for value in row:
                        data = str(value).encode() if not isinstance(value, bytes) else value
                        data = seal.open(row[0], data) or data
                        head, packed, rest = data.partition(b"\x28\xb5\x2f\xfd")
                        if packed:
                            data = head + zstandard.ZstdDecompressor().decompressobj().decompress(
                                packed + rest
                            )
                        yield table, data


@pytest.fixture(scope="module")
def running(
    provider: Any, confdir: Path, starter: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Mitmdump]]:
    """`running(scope)` returns one proxy for each scope, which keeps all that it can."""
    made: dict[str, Mitmdump] = {}

    def start(scope: str) -> Mitmdump:
        if scope not in made:
            home = tmp_path_factory.mktemp("planted")
            options = {
                "penumbra_redact_scope": scope,
                "penumbra_events": str(home / "events.jsonl"),
                "penumbra_mode": "aggressive",
                "penumbra_min_bytes": "1",
                "termlog_verbosity": "debug",
                # Requests are printed as they were sent, and so with the places that were not searched.
                "flow_detail": "3" if scope == "all" else "1",
            }
            made[scope] = Mitmdump(
                provider, confdir, home, "reverse", options=options, starter=starter
            ).start()
        return made[scope]

    yield start
    for proxy in made.values():
        proxy.stop()


def send(kind: Kind, proxy: Mitmdump, clients: Any, body: dict[str, Any], upstream: Any) -> bytes:
    """Return the bytes of a request that reached the provider: its head, and its body without its content
    coding."""
    headers = {**KEYS, "content-type": "application/json"} | (
        {"content-encoding": kind.coding} if kind.coding else {}
    )
    upstream.pages[kind.path] = PAGE
    data = encode(kind.coding, json.dumps(body, ensure_ascii=False).encode())
    answer = clients.http(proxy).post(proxy.url + kind.path, content=data, headers=headers)
    assert answer.status_code == 200, answer.text
    received = upstream.requests[-1]
    head = repr((received.target, received.headers)).encode()
    return head + decode(received.header("content-encoding") or "", received.raw_body)


@every_kind
def test_everywhere(name: str, running: Any, clients: Any, upstream: Any) -> None:
    planted = Planted(random.Random(name))
    kind = KINDS[name]
    body = kind.make(planted)
    assert len(planted.secrets) >= 36
    proxy = running("all")
    first = send(kind, proxy, clients, body, upstream)
    search = Search(planted.secrets)
    assert search(first) == set()
    assert first.count(b"[REDACTED:") >= 10
    # The next turn sends the same bytes.
    assert send(kind, proxy, clients, body, upstream) == first
    proxy.command("penumbra.stats")
    search.assert_nothing_kept(proxy)
    events = (proxy.home / "events.jsonl").read_text()
    assert '"redactions"' in events


@every_kind
def test_results_alone(name: str, running: Any, clients: Any, upstream: Any) -> None:
    """By default only results are searched."""

    planted = Planted(random.Random(f"{name} results"))
    kind = KINDS[name]
    body = kind.make(planted)
    proxy = running("results")
    arrived = send(kind, proxy, clients, body, upstream)
    # Secrets in the client's own texts stay, and those in results of tools are replaced.
    printed = [secret for secret in planted.secrets if secret.encode() not in arrived]
    said = re.findall(r"token xoxb-[0-9]+-(\w+) for", json.dumps(body))
    assert said
    assert not set(said) & set(printed)
    assert len(printed) >= 7
    Search(printed).assert_nothing_kept(proxy)


def test_an_original_that_the_model_asks_for(running: Any, clients: Any, upstream: Any) -> None:
    """Hidden exchanges carry originals, which are without secrets, too."""
    planted = Planted(random.Random("original"))
    filler = "\n".join(f"line {n}: {random.Random(n).random()}" for n in range(3000))
    text = planted.text() + filler + planted.text()

    def model(received: Any) -> Any:
        found = re.findall(rb"shadow_[0-9a-f]{18,32}", received.body)
        if b"expand_context" in received.body and b"line 1500: " not in received.body and found:
            return turn(ToolCall("expand_context", {"id": found[0].decode()}))
        return turn("Done.")

    upstream.script(model)
    body = KINDS["anthropic"].make(Planted(random.Random(1)))
    body["messages"][2]["content"][0]["content"] = text
    body["system"] = "x"
    proxy = running("results")
    client = clients.http(proxy)
    for turns in (body["messages"][:1], body["messages"]):
        answer = client.post(f"{proxy.url}/v1/messages", json={**body, "messages": turns}, headers=KEYS)
        assert answer.status_code == 200
    assert len(upstream.requests) > 2
    search = Search(planted.secrets)
    assert [search(received.raw_body) for received in upstream.requests] == [set()] * len(upstream.requests)
    search.assert_nothing_kept(proxy)


def test_spellings_are_found() -> None:
    """The search itself finds what it should."""
    secret = "q8Zk2mVt41Lx9R"
    shown = [
        base64.b64encode(f"user:{secret}".encode()),
        base64.urlsafe_b64encode(f"ab{secret}c".encode()),
        json.dumps({"a": secret}).encode(),
        secret.encode().hex().upper().encode(),
        "".join(f"%{ord(letter):02X}" for letter in secret).encode(),
    ]
    assert [Search([secret])(data) for data in shown] == [{secret}] * len(shown)
    assert Search([secret])(b"q8Zk2mVt41Lx9") == set()
