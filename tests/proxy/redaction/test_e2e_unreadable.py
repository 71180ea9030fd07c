"""Requests whose bodies can't be read, and so can't be searched for secrets, are not sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.error_shapes import PATHS, said
from support.planted import GITHUB, anthropic
from support.upstream import Raw, encode

BODY = json.dumps(anthropic(f"GITHUB_TOKEN={GITHUB}"), ensure_ascii=False)
UNREADABLE = {
    "unknown coding": ("lzma", BODY.encode(), 400),
    "coding that is none": ("zstd", BODY.encode(), 400),
    "cut off": ("zstd", encode("zstd", BODY.encode())[:-9], 400),
    "data behind its end": ("gzip", encode("gzip", BODY.encode()) + BODY.encode(), 400),
    "too large": ("", (BODY + " " * 300_000).encode(), 413),
    "too large when decoded": ("gzip", encode("gzip", (BODY + " " * 300_000).encode()), 413),
    "no JSON": ("", BODY[:-1].encode(), 400),
    "a comment": ("", (BODY + "// x").encode(), 400),
    "a mark in front": ("", BODY.encode("utf-8-sig"), 400),
    "two bytes a letter": ("", BODY.encode("utf-16"), 400),
    "not UTF-8": ("", BODY.replace("hi", "\xe9").encode("latin-1"), 400),
    "deep nesting": (
        "",
        BODY.replace('"m"', "[" * 100_000 + "]" * 100_000).replace('"hi"', '"' + GITHUB + '"').encode(),
        400,
    ),
}


@pytest.fixture
def ask(proxy: Any, clients: Any) -> Any:
    def ask(coding: str, body: bytes, *, path: str = PATHS["anthropic-messages"], **more: Any) -> Any:
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        headers |= {"content-encoding": coding} if coding else {}
        running = proxy("reverse", penumbra_max_body_bytes="280k", **more.pop("options", {}))
        answer = clients.http(running).post(running.url + path, content=body, headers={**headers, **more})
        assert GITHUB not in answer.text + running.log()
        return answer

    return ask


@pytest.mark.parametrize("name", UNREADABLE)
def test_nothing_is_sent(name: str, ask: Any, upstream: Any) -> None:
    coding, body, status = UNREADABLE[name]
    answer = ask(coding, body)
    assert upstream.requests == []
    assert answer.status_code == status
    message = said("anthropic-messages", status, answer.json())
    assert message.startswith(
        "Penumbra could not search this request for secrets and did not send it: its body"
    )


@pytest.mark.parametrize("api", PATHS)
def test_nothing_is_sent_to_any_api(api: str, ask: Any, upstream: Any) -> None:
    for name in ("unknown coding", "too large", "no JSON"):
        coding, body, status = UNREADABLE[name]
        answer = ask(coding, body, path=PATHS[api])
        assert answer.status_code == status
        said(api, status, answer.json())
    assert upstream.requests == []


@pytest.mark.parametrize("name", ["cut off", "too large", "no JSON"])
def test_a_mask_can_not_be_put_on_a_body(name: str, ask: Any, upstream: Any) -> None:
    coding, body, status = UNREADABLE[name]
    assert ask(coding, body, options={"penumbra_redaction_failure": "mask"}).status_code == status
    assert upstream.requests == []


@pytest.mark.parametrize(
    "options", [{"penumbra_redaction_failure": "pass"}, {"penumbra_redact_secrets": "false"}]
)
def test_an_operator_may_let_it_pass(options: Any, ask: Any, upstream: Any) -> None:
    for coding, body, _ in UNREADABLE.values():
        ask(coding, body, options=options)
        assert upstream.requests[-1].raw_body == body
    assert len(upstream.requests) == len(UNREADABLE)


def test_what_is_no_call_passes(ask: Any, upstream: Any) -> None:
    """Paths that need their bytes, texts without secrets, and empty bodies."""
    coding, body, _ = UNREADABLE["cut off"]
    for path in ("/v1/embeddings", "/v1/oauth/token", "/api/event_logging/batch"):
        upstream.pages[path] = Raw(body=b"{}")
        ask(coding, body, path=path)
        assert upstream.requests[-1].raw_body == body
    for kind, plain in (
        ("multipart/form-data; boundary=x", b"--x--"),
        ("text/plain", b"model=m"),
        ("", b" "),
    ):
        ask("", plain, **({"content-type": kind} if kind else {}))
        assert upstream.requests[-1].raw_body == plain
    assert len(upstream.requests) == 6


@pytest.mark.parametrize(
    "kind", ["multipart/form-data; boundary=x", "text/plain", "application/octet-stream"]
)
def test_what_is_no_json_by_its_own_account_is_not_sent_either(kind: str, ask: Any, upstream: Any) -> None:
    """A provider may read it whatever it says."""
    for name in ("a mark in front", "two bytes a letter", "not UTF-8", "deep nesting"):
        assert ask("", UNREADABLE[name][1], **{"content-type": kind}).status_code == 400
    assert ask("", encode("gzip", BODY.encode()), **{"content-type": kind}).status_code == 400
    assert upstream.requests == []


def test_nothing_is_sent_to_a_path_that_nobody_knows(ask: Any, upstream: Any) -> None:
    for name in ("cut off", "unknown coding", "no JSON", "a mark in front", "two bytes a letter"):
        coding, body, status = UNREADABLE[name]
        assert ask(coding, body, path="/elsewhere").status_code == status
    assert upstream.requests == []


def test_json_that_is_called_a_form_is_read(ask: Any, upstream: Any) -> None:
    """`curl -d` says so, and some servers don't mind."""
    ask("", BODY.encode(), **{"content-type": "application/x-www-form-urlencoded"})
    assert GITHUB.encode() not in upstream.requests[-1].raw_body
    assert b"[REDACTED:github-token:" in upstream.requests[-1].raw_body
