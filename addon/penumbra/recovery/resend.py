"""A request once more, smaller: which of its results get another form, as decisions to be remembered."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penumbra import rewrite
from penumbra.calls import tools
from penumbra.history import budget, superseded
from penumbra.recovery import ladder
from penumbra.redaction import RedactionError
from penumbra.shadow.ledger import Decision, Facts
from penumbra.text import tokens
from penumbra.text.result import Loss, Redacted
from penumbra.text.size import size

_SMALL = 300
"""Results up to this size (UTF-8 bytes) give nothing worth having."""


@dataclass(frozen=True, slots=True)
class Given:
    """Forms that are decided before a request is rewritten."""

    decisions: Mapping[bytes, Decision] = field(default_factory=dict)
    originals: Mapping[str, str] = field(default_factory=dict)
    """Redacted originals by reference."""
    line: str = ""
    """Why, for a log."""

    def plus(self, other: Given) -> Given:
        """Both; of two forms of one text the other's."""
        return Given(
            {**self.decisions, **other.decisions},
            {**self.originals, **other.originals},
            "; ".join(line for line in (self.line, other.line) if line),
        )


def smaller(
    request: rewrite.Request,
    decided: Mapping[bytes, Decision],
    needed: ladder.Need,
    redact: Callable[[str, str], Redacted],
    shadows: rewrite.Shadows | None,
    parameters: superseded.Parameters,
) -> Given:
    """Smaller forms for as many results as it takes, old ones first.

    `decided`: the form of every text as it was sent. Tools that the operator excluded stay as they are.
    Raises RedactionError.
    """
    texts = _texts(request, decided, redact, shadows, parameters, needed.most)
    forms = ladder.plan(texts, needed)
    decisions: dict[bytes, Decision] = {}
    originals: dict[str, str] = {}
    for text in texts:
        if (form := forms.get(text.part.index)) is None:
            continue
        item = request.items[text.part.index]
        ref = shadows.ref(text.original) if shadows is not None else ""
        if ref:
            originals[ref] = text.original
        decisions[item.key] = decision("recovered", item.text, form, ref, request_facts(decided, item))
    return Given(decisions, originals)


def decision(how: str, before: str, form: str, ref: str, past: Facts) -> Decision:
    """The decision for a text that lost something."""
    facts = Facts(
        how=how,
        loss=int(Loss.LOSSY),
        stages=(how,),
        family=past.family,
        ref=ref,
        bytes_before=size(before),
        bytes_after=size(form),
        tokens_before=tokens.estimate(before),
        tokens_after=tokens.estimate(form),
        redactions=dict(past.redactions),
    )
    return Decision(form, facts)


def request_facts(decided: Mapping[bytes, Decision], item: rewrite.Item) -> Facts:
    """What is known of a text's form so far."""
    return decided[item.key].facts if item.key in decided else Facts()


_IDENTITIES: OrderedDict[tuple[str, bytes], superseded.Identity] = OrderedDict()
_MOST_IDENTITIES = 20_000


def calls(request: rewrite.Request, parameters: superseded.Parameters) -> list[superseded.Result]:
    """The request's results, each with its call."""
    last = request.conversation.last_answer
    return [
        superseded.Result(
            index=index,
            call_id=item.result.call_id,
            tool=item.tool,
            arguments=None,
            is_error=item.result.is_error,
            unread=item.result.turn > last,
            identity=_identity(request, item, parameters),
        )
        for index, item in enumerate(request.items)
    ]


def _identity(
    request: rewrite.Request, item: rewrite.Item, parameters: superseded.Parameters
) -> superseded.Identity:
    """The same call comes with every request: only a new one is looked at."""
    call = item.result.call
    source = request.document.source(call.arguments) if call and call.arguments is not None else b""
    key = (item.tool, hashlib.blake2b(source, digest_size=16).digest())
    plain = not parameters.tool_only and item.tool not in parameters.tool_identifier_fields
    found = _IDENTITIES.get(key) if plain else None
    if found is None:
        arguments = rewrite.tool_output(request, item).arguments
        found = superseded.identify(item.tool, arguments, parameters)
        if plain:
            _IDENTITIES[key] = found
            while len(_IDENTITIES) > _MOST_IDENTITIES:
                _IDENTITIES.popitem(last=False)
    return found


def referents(decided: Mapping[bytes, Decision]) -> frozenset[bytes]:
    """Keys of the texts that others refer to."""
    return frozenset(bytes.fromhex(key) for one in decided.values() for key in one.facts.referents)


def _texts(
    request: rewrite.Request,
    decided: Mapping[bytes, Decision],
    redact: Callable[[str, str], Redacted],
    shadows: rewrite.Shadows | None,
    parameters: superseded.Parameters,
    most: int,
) -> list[ladder.Text]:
    given_up = superseded.find(calls(request, parameters), parameters)
    referred = referents(decided)
    last = request.conversation.last_answer
    texts: list[ladder.Text] = []
    seen: set[bytes] = set()
    for index, item in enumerate(request.items):
        past = decided.get(item.key)
        forwarded = item.text if past is None or past.text is None else past.text
        if item.key in seen or size(forwarded) <= _SMALL or (most and len(forwarded) <= most):
            continue
        if tools.skips(item.tool, request.settings.skip_tools):
            continue
        seen.add(item.key)
        try:
            original = rewrite.original(request, item, redact)
        except RedactionError:
            raise
        except Exception:
            original = redact(item.text, "").text if request.settings.redact_secrets else item.text
        part = budget.Part(
            index=index,
            size=len(forwarded),
            unread=item.result.turn > last,
            superseded=index in given_up,
            referred=item.key in referred,
        )
        prefix = shadows.prefix(shadows.ref(original)) if shadows is not None else ""
        texts.append(ladder.Text(part, original, forwarded, prefix))
    return texts
