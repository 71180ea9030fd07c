"""What holds for every input, as functions of bytes: hypothesis tries a few, `scripts/fuzz` many.

Each takes bytes, makes of them what a hostile client, provider or model could send, and raises if
something is wrong with what becomes of it.
"""

from collections.abc import Callable

from support.properties.bodies import bodies
from support.properties.framings import codings, framings
from support.properties.patterns import rule_patterns
from support.properties.redaction import redaction
from support.properties.responses import answers, sockets

TARGETS: dict[str, Callable[[bytes], None]] = {
    "redaction": redaction,
    "framings": framings,
    "codings": codings,
    "bodies": bodies,
    "answers": answers,
    "sockets": sockets,
    "rules": rule_patterns,
}
