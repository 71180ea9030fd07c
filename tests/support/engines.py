"""Conversations that an engine rewrites as if they had arrived over the network."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from penumbra.apis.base import Hidden, MadeCall
from penumbra.apis.formats import FORMATS
from penumbra.apis.recognise import Api as KnownApi
from penumbra.apis.recognise import apis
from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.decide import Inputs
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import Accepted, EngineSettings, Incoming
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.model import Rewritten
from penumbra.expand.loop import Done
from penumbra.wire.document import Document
from support.apis import Api, Turn

HIDDEN = "WHAT THE CLIENT DID NOT SEE"


def api_of(name: str) -> KnownApi:
    """Return the package's own description of an API."""
    return next(one for one in apis() if one.id == name)


def arriving(api: Api, body: bytes, headers: Mapping[str, str], **more: Any) -> Incoming:
    """Return a request as a proxy hands it to the engine."""
    made = Incoming(api_of(api.id), body, dict(headers), {}, "10.0.0.1", api.host, api.path)
    return structs.replace(made, **more)


class Callers:
    """`Callers` send requests through one engine."""

    def __init__(self, **settings: Any) -> None:
        # Conversations in tests are smaller than those of agents.
        chosen = {"database": "memory", "max_output_bytes": 4_000, "expand_from": 0, **settings}
        self.settings = Settings(**chosen)
        self.engine = Engine(EngineSettings.of(self.settings))

    def close(self) -> None:
        self.engine.close()

    def restart(self) -> None:
        """Start the engine anew over the same database, as another process would."""
        self.engine.close()
        self.engine = Engine(EngineSettings.of(self.settings))

    def send(self, api: Api, body: bytes, headers: Mapping[str, str], **more: Any) -> Accepted:
        """Return a request as the engine accepts it."""
        incoming = arriving(api, body, headers, **more)
        found = asyncio.run(self.engine.process(incoming, self.settings))
        assert isinstance(found, Accepted)
        return found

    def answer(self, accepted: Accepted, api: Api, turn: Turn, shows: bool = False, **more: Any) -> None:
        """Record this turn as the provider's response, by default after a hidden exchange."""
        assert accepted.prepared is not None
        wire = FORMATS[accepted.request.api.format]
        visible = wire.visible(Document(api.body([turn])))[-1]
        before = (json.dumps(api.write(("said", HIDDEN))).encode(),)
        last = json.dumps(api.write(turn)).encode()
        made = (MadeCall(turn[1], "Bash", json.dumps({"command": turn[2]})),) if turn[0] == "call" else ()
        done = Done(
            b"",
            visible.calls,
            visible.text,
            None if shows else Hidden(before, last),
            tokens=visible.tokens,
            made=made,
        )
        asyncio.run(self.engine.expansions.remember(accepted.prepared, replace(done, **more)))

    def stored(self, accepted: Accepted, ref: str) -> str | None:
        """Return the original that the store gives to a request for a reference, whatever the request
        carries."""
        assert accepted.prepared is not None

        async def nothing(ref: str) -> None:
            return None

        found = asyncio.run(self.engine.expansions.original(accepted.prepared, nothing, ref))
        return None if found is None else found.text


def rewritten(
    api: str,
    body: Any,
    known: Any = None,
    redact: Callable[[str, str], Redacted] = lambda text, hint: Redacted(text),
    **settings: Any,
) -> Rewritten:
    """Return a request as it is rewritten without I/O; `known` are decisions of earlier turns."""
    document = Document(body if isinstance(body, bytes) else json.dumps(body).encode())
    request = read.read(document, api_of(api), Settings(**settings), b"scope")
    assert request is not None
    return rewrite.rewrite(Inputs(request, known or {}, redact, None), LineIndexes())


def shown(accepted: Accepted) -> Iterator[str]:
    """Return the references in a rewritten request."""
    return (entry.facts.ref for entry in accepted.rewritten.shown if entry.facts.ref)


def database(path: Path) -> str:
    return str(path / "state" / "penumbra.sqlite")
