"""Secrets planted in every place of every API never reach the provider, nor anything that is kept. The tests
look for bytes, in every spelling that a secret could take on its way."""

from __future__ import annotations

import base64
import json
import random
import re
import sqlite3
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ahocorasick_rs
import pytest
import zstandard

from penumbra.store.key_file import Seal
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


def ident(planted: Planted) -> str:
    return "".join(planted.random.choice(string.ascii_letters) for _ in range(24))


def anthropic(it: Planted) -> dict[str, Any]:
    ids = [f"toolu_{ident(it)}" for _ in range(2)]
    use = [{"type": "tool_use", "id": one, "name": "Bash", "input": it.value()} for one in ids]
    parts = [{"type": "text", "text": it.text()}, {"type": "text", "text": it.text()}]
    results = [
        {"type": "tool_result", "tool_use_id": ids[0], "content": it.text()},
        {"type": "tool_result", "tool_use_id": ids[1], "content": parts, "is_error": True},
    ]
    return {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": it.said()}],
        "messages": [
            {"role": "user", "content": it.said()},
            {"role": "assistant", "content": [{"type": "text", "text": it.said()}, *use]},
            {"role": "user", "content": [*results, {"type": "text", "text": it.said()}]},
        ],
    }


def counted(it: Planted) -> dict[str, Any]:
    body = anthropic(it)
    del body["max_tokens"]
    return body


def on_vertex(it: Planted) -> dict[str, Any]:
    body = anthropic(it)
    del body["model"]
    return {"anthropic_version": "vertex-2023-10-16", **body}


def on_bedrock(it: Planted) -> dict[str, Any]:
    return {**on_vertex(it), "anthropic_version": "bedrock-2023-05-31"}


def converse(it: Planted) -> dict[str, Any]:
    use = {"toolUse": {"toolUseId": f"tooluse_{ident(it)}", "name": "Bash", "input": it.value()}}
    content = [{"text": it.text()}, {"json": it.value()}]
    result = {"toolResult": {"toolUseId": use["toolUse"]["toolUseId"], "content": content}}
    tool = {"toolSpec": {"name": "Bash", "inputSchema": {"json": {"type": "object"}}}}
    return {
        "system": [{"text": it.said()}],
        "toolConfig": {"tools": [tool]},
        "messages": [
            {"role": "user", "content": [{"text": it.said()}]},
            {"role": "assistant", "content": [{"text": it.said()}, use]},
            {"role": "user", "content": [result]},
        ],
    }


def chat(it: Planted) -> dict[str, Any]:
    ids = [f"call_{ident(it)}" for _ in range(2)]
    calls = [
        {"id": one, "type": "function", "function": {"name": "Bash", "arguments": json.dumps(it.value())}}
        for one in ids
    ]
    parts = [{"type": "text", "text": it.text()}]
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": it.said()},
            {"role": "user", "content": [{"type": "text", "text": it.said()}]},
            {"role": "assistant", "content": it.said(), "tool_calls": calls},
            {"role": "tool", "tool_call_id": ids[0], "content": it.text()},
            {"role": "tool", "tool_call_id": ids[1], "content": parts},
        ],
    }


def responses(it: Planted) -> dict[str, Any]:
    ids = [f"call_{ident(it)}" for _ in range(5)]
    pieces = [{"type": "input_text", "text": it.text()}]
    shell = {"stdout": it.text(), "stderr": it.text(), "outcome": {"type": "exit", "exit_code": 1}}
    action = {"type": "exec", "command": ["bash", "-c", it.text()], "env": {"DB_PASSWORD": it.word(14)}}
    patch = {"type": "update_file", "path": "a", "diff": f"+DB_PASSWORD={it.word(14)}\n"}
    items = [
        {"type": "function_call", "name": "Bash", "arguments": json.dumps(it.value())},
        {"type": "function_call_output", "output": it.text()},
        {"type": "custom_tool_call", "name": "apply", "input": it.text()},
        {"type": "custom_tool_call_output", "output": pieces},
        {"type": "local_shell_call", "status": "completed", "action": action},
        {"type": "local_shell_call_output", "output": json.dumps({"output": it.text()})},
        {"type": "shell_call", "action": {"commands": [it.text()]}},
        {"type": "shell_call_output", "output": [shell]},
        {"type": "apply_patch_call", "operation": patch},
        {"type": "apply_patch_call_output", "status": "failed", "output": it.text()},
    ]
    for number, item in enumerate(items):
        item["call_id"] = ids[number // 2]
    words = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": it.said()}]}
    return {"model": "m", "instructions": it.said(), "input": [words, *items]}


def gemini(it: Planted) -> dict[str, Any]:
    calls = [{"functionCall": {"id": ident(it), "name": f"f{n}", "args": it.value()}} for n in range(2)]
    given = [{"output": it.text()}, it.value()]
    answers = [
        {"functionResponse": {"id": call["functionCall"]["id"], "name": f"f{n}", "response": given[n]}}
        for n, call in enumerate(calls)
    ]
    return {
        "systemInstruction": {"parts": [{"text": it.said()}]},
        "contents": [
            {"role": "user", "parts": [{"text": it.said()}]},
            {"role": "model", "parts": calls},
            {"role": "user", "parts": answers},
        ],
    }


def code_assist(it: Planted) -> dict[str, Any]:
    return {"model": "m", "project": "p", "request": gemini(it)}


def ollama(it: Planted) -> dict[str, Any]:
    call = {"function": {"name": "Bash", "arguments": it.value()}}
    return {
        "model": "m",
        "stream": False,
        "messages": [
            {"role": "system", "content": it.said()},
            {"role": "user", "content": it.said()},
            {"role": "assistant", "content": it.said(), "tool_calls": [call]},
            {"role": "tool", "tool_name": "Bash", "content": it.text()},
        ],
    }


@dataclass(frozen=True)
class Kind:
    """A `Kind` is one request of an API."""

    path: str
    make: Callable[[Planted], dict[str, Any]]
    coding: str = ""
    """The content coding of the body; empty: none."""
    least: int = 20
    """The least number of secrets in a body; with fewer the test would show little."""


PROJECT = "/v1/projects/p/locations/l/publishers"
KINDS = {
    "anthropic": Kind("/v1/messages", anthropic, "deflate"),
    "anthropic count": Kind("/v1/messages/count_tokens", counted),
    "vertex anthropic": Kind(f"{PROJECT}/anthropic/models/m@1:streamRawPredict", on_vertex),
    "bedrock invoke": Kind("/model/anthropic.m/invoke", on_bedrock),
    "bedrock converse": Kind("/model/m/converse", converse),
    "chat": Kind("/v1/chat/completions", chat, "gzip"),
    "responses": Kind("/openai/v1/responses", responses, "zstd", 60),
    "responses compact": Kind("/v1/responses/compact", responses, least=60),
    "responses count": Kind("/v1/responses/input_tokens", responses, least=60),
    "gemini": Kind("/v1beta/models/gemini-2.5-pro:generateContent", gemini, "br", 30),
    "gemini count": Kind("/v1beta/models/gemini-2.5-pro:countTokens", gemini),
    "code assist": Kind("/v1internal:generateContent", code_assist),
    "vertex": Kind(f"{PROJECT}/google/models/m:generateContent", gemini),
    "ollama": Kind("/api/chat", ollama, least=15),
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
    assert len(planted.secrets) >= kind.least
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
    body = anthropic(Planted(random.Random(1)))
    body["tools"] = [{"name": "Bash", "input_schema": {"type": "object"}}]
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
