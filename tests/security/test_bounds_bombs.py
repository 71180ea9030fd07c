"""Answers of a few bytes that decode to gigabytes, through a running proxy: it keeps its memory.

Asserted on the most memory that the process ever had, with a wide margin.
"""

from __future__ import annotations

import json
import re
import zlib
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from support.upstream import Raw

_PLAIN = 700_000_000
_MARGIN_KB = 450_000
"""Far less than what one of the answers decodes to, far more than what the limit lets through."""
EVENT = b'data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\n'
BODY = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 9,
    "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "hi"}],
}


@cache
def _bomb(coding: str, begin: bytes) -> bytes:
    """`begin`, and then nothing but blanks."""
    parts = [begin] + [b" " * 1_000_000] * (_PLAIN // 1_000_000)
    if coding == "br":
        machine = brotli.Compressor(quality=1)
        return b"".join([machine.process(part) for part in parts]) + machine.finish()
    if coding == "zstd":
        frames = zstandard.ZstdCompressor(level=1).compressobj()
        return b"".join([frames.compress(part) for part in parts]) + frames.flush()
    gzip = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = gzip.compress(begin) + gzip.flush(zlib.Z_FULL_FLUSH)
    # Behind a full flush nothing refers to what came before, so that one part can stand for all.
    return head + (gzip.compress(parts[1]) + gzip.flush(zlib.Z_FULL_FLUSH)) * (len(parts) - 1)


def _peak(running: Any) -> int:
    """Kilobytes."""
    status = Path(f"/proc/{running.process.pid}/status")
    found = re.search(r"VmHWM:\s+([0-9]+)", status.read_text()) if status.exists() else None
    if found is None:
        pytest.skip("the memory of a process can't be read here")
    return int(found[1])


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_an_answer_that_decodes_to_gigabytes_takes_no_memory(
    coding: str, http2: bool, clients: Any, proxy: Any, upstream: Any, api_key: str
) -> None:
    running = proxy("reverse-tls")
    client = clients.http(running, http2=http2)
    base = clients.base(running, running.url, http2=http2)
    headers = {"x-api-key": api_key, "accept-encoding": "gzip, br, zstd", "anthropic-version": "2023-06-01"}

    def ask(kind: str, begin: bytes) -> tuple[int, Any, bytes]:
        upstream.answers(
            Raw(200, (("content-type", kind), ("content-encoding", coding)), _bomb(coding, begin))
        )
        body = json.dumps({**BODY, "stream": "event" in kind}).encode()
        url = f"{base}/v1/messages"
        with client.stream(
            "POST", url, content=body, headers={**headers, "content-type": "application/json"}
        ) as got:
            pieces: list[bytes] = []
            # A stream that goes too far breaks off; a document goes on as it came.
            with pytest.raises(Exception, match=r"closed|StreamReset") if "event" in kind else nullcontext():
                pieces.extend(got.iter_raw())
            return got.status_code, got.headers, b"".join(pieces)

    before = _peak(running)
    status, _, body = ask("text/event-stream", EVENT)
    assert status == 200
    assert len(body) < 100_000_000
    assert b"event: error" not in body[-400:]
    status, told, body = ask("application/json", b"{")
    assert (status, told["content-encoding"]) == (200, coding)
    assert body == _bomb(coding, b"{")
    assert _peak(running) - before < _MARGIN_KB
