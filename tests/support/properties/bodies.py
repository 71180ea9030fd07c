"""Request bodies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from penumbra.apis.formats import FORMATS
from penumbra.apis.recognise import Api, by_request_line
from penumbra.config.per_request import OverrideError
from penumbra.config.settings import Settings, load
from penumbra.conversation import read, rewrite
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.redaction import RedactionError
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson
from support.large_requests import MAKERS
from support.properties.redaction import redactor
from support.properties.source import Source, as_text

SECRET = "ghp_" + "q8Zk2mVt41Lx9RwPz0bT6cA3sD5fG7hJ9kLq"


_SAID = (
    *(
        "error: it failed\n",
        "PASS\n",
        '  File "a.py", line 3, in f\n',
        "\x1b[31mred\x1b[0m\n",
        "same line again\n" * 20,
    ),
    *(
        '[{"a":1,"b":2}]',
        '{"k":[1,2,{"x":"y"}]}',
        "12\tcode\n",
        "diff --git a/x b/x\n",
        "| a | b |\n",
        "\ud83d",
        "é\u2028",
    ),
    *(
        f"\n{SECRET}\n",
        "<<<SHADOW:shadow_00>>>",
        "[Duplicate of x (y); see earlier result]",
        "\r\n",
        "\x00",
        "\x08\x08",
    ),
    *(
        "drwxr-xr-x 2 a a 4096 Jan 1 00:00 x\n" * 9,
        "src/a.py:12: error\n",
        "[REDACTED:key:abcdef]",
        "a" * 700,
        " " * 300,
    ),
)


_MODES = ("safe", "standard", "aggressive", "disabled")


@cache
def _settings(mode: str) -> Settings:
    return load({"mode": mode, "min_bytes": "64", "max_output_bytes": "4096"}, {}, "")


def bodies(data: bytes) -> None:
    """A request of any API, read and rewritten: only its results' texts change, and no secret stays."""
    source = Source(data)
    name = source.one(tuple(name for name in MAKERS if name in FORMATS))
    make, path = MAKERS[name]
    api = by_request_line("POST", path)
    assert api is not None
    mode = source.one(_MODES)
    count, apart, ids = 1 + source.number(5), bool(source.number(2)), bool(source.number(2))
    texts = ["".join(source.some(_SAID, as_text, 12)) for _ in range(count)]
    body = make(_order(source, count), ids=ids, apart=apart)
    _fill(body, iter(texts * 2))
    plain = json.dumps(body, ensure_ascii=bool(source.number(2)), indent=source.one((None, 1)))
    raw = plain.encode("utf-8", "surrogatepass") if "\ud83d" not in plain else json.dumps(body).encode()
    _rewritten(api, raw, _settings(mode))
    mutated = bytearray(raw)
    for _ in range(source.number(4)):
        at = source.number(max(1, len(mutated)))
        mutated[at : at + source.number(3)] = source.one(
            (b"", b'"', b"{", b"]", b",", b"\\", b"null", b"\xff", b"0")
        )
    _rewritten(api, bytes(mutated), _settings(mode))


def _order(source: Source, count: int) -> Iterable[int]:
    return source.one((range(count), range(count - 1, -1, -1)))


def _fill(value: Any, texts: Iterator[str]) -> None:
    """Put texts in the place of results'."""
    for key, inner in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        if isinstance(inner, str) and inner.startswith("result "):
            value[key] = next(texts, inner)
        elif isinstance(inner, dict | list):
            _fill(inner, texts)


def _rewritten(api: Api, raw: bytes, settings: Settings) -> None:
    try:
        document = Document(raw)
        request = read.read(document, api, settings, b"k" * 32)
        if request is None:
            return
        done = rewrite.rewrite(Inputs(request, {}, redactor().redact, None), LineIndexes())
    except (NotJson, OverrideError, RedactionError):
        return
    json.loads(done.body)
    placeholders = done.body.count(b"[REDACTED:")
    assert len(done.body) <= len(raw) + 80 * placeholders, "it grew"
    places = {document.place(item.result.value) for item in request.items}
    for edit in document.edits:
        # What only looks like a result is searched for secrets and no more.
        redacted = b"[REDACTED:" in edit.data
        assert redacted or (edit.start, edit.end) in places, "something else than a result has changed"
    for item in request.items:
        decision = done.decisions.get(item.key)
        shown = item.text if decision is None or decision.text is None else decision.text
        assert SECRET not in shown, "a secret went out"
    again = read.read(Document(raw), api, settings, b"k" * 32)
    assert again is not None
    repeated = rewrite.rewrite(Inputs(again, done.decisions, redactor().redact, None), LineIndexes())
    assert repeated.body == done.body, "the first form was not final"
