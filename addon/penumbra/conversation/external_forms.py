"""What external compressors make of a request's results that are not decided about.

Imported only where the settings ask for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from penumbra.compress.result import Asked, Redacted
from penumbra.conversation import cache_price, result_text
from penumbra.conversation.model import Request
from penumbra.conversation.rewrite import undecided
from penumbra.errors import one_line
from penumbra.expand.reference import References
from penumbra.external.dispatch import Reader, Work
from penumbra.external.selection import Asking, ExternalCompressors, OpenResult, question
from penumbra.external.strategy import Credential
from penumbra.redaction.shown_names import ShowName
from penumbra.store.decisions import Decision


async def forms(
    compressors: ExternalCompressors,
    request: Request,
    past: Mapping[bytes, Decision],
    redact: Callable[[str, str], Redacted],
    references: References | None,
    credential: Credential | None,
    work: Work,
    show: ShowName = one_line,
) -> dict[bytes, Asked]:
    """What comes of it by the items' keys. `past`: decisions of the past. Raises RedactionError."""

    def asked() -> str:
        text = question(request.document, request.conversation.messages)
        return redact(text, "").text if text and request.settings.redact_secrets else text

    def results() -> Iterator[OpenResult]:
        for item in undecided(request, past):
            output = result_text.tool_output(request, item)
            yield OpenResult(item.key, output, result_text.cleaner(request, item, output, redact))

    reader = _reader(request)
    asking = Asking(request.settings, request.scope, asked, reader, references, credential, work, show)
    return await compressors.forms(asking, results)


def _reader(request: Request) -> Reader:
    model = request.conversation.model
    try:
        price = cache_price.of_request(request.api.format, model, request.document)
    except KeyError:
        return Reader(model)
    return Reader(model, price.read, price.write)
