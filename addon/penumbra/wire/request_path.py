"""Host and path of a request as resolvers and servers may read them, and the header of own calls.

Normalised paths serve to recognise calls and are never sent. Routers differ in the spellings of a path that
they undo, so each spelling that some router undoes is undone here: an odd one must not lead past the search
for secrets.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from urllib.parse import unquote

from penumbra.short_texts import remembered

_ROUNDS = 3
"""Depth of nested percent escapes."""
_QUERY = re.compile(r"[?#]")
_PARAMETERS = re.compile(r";[^/]*")
_OWN_NAMES = ("ip6-localhost", "ip6-loopback", "host.docker.internal")
_OLD_ADDRESS = re.compile(
    r"(?:0x[0-9a-f]{0,16}|[0-9]{1,16})(?:\.(?:0x[0-9a-f]{0,16}|[0-9]{1,16})){0,3}", re.ASCII
)
"""An address as `inet_aton` takes it: one to four numbers, each decimal, octal or hexadecimal."""


@remembered(1_024)
def host_name(host: str) -> str:
    """Return the name or address that a resolver finds a host by: in lower case, without brackets, zone and
    closing dot, with letters and dots of other alphabets as it takes them; an IPv4 address in its usual
    spelling, however it was spelled (`127.1`, `0x7f000001`, `::ffff:127.0.0.1`)."""
    if not host.isascii():
        with contextlib.suppress(UnicodeError):
            host = host.encode("idna").decode("ascii")
    name = host.lower().rstrip(".")
    name = name.removeprefix("[").removesuffix("]").partition("%")[0]
    try:
        if _OLD_ADDRESS.fullmatch(name):
            return socket.inet_ntoa(socket.inet_aton(name))
        address = ipaddress.ip_address(name)
    except (OSError, ValueError):
        return name
    return str(getattr(address, "ipv4_mapped", None) or address)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself by its name or address, however these are spelled. No name
    is looked up."""
    name = host_name(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # A connection to the unspecified address is one to this machine.
    return address.is_loopback or address.is_unspecified


def is_this_machine(host: str) -> bool:
    """Return whether a host is this machine by one of its names or addresses. No name is looked up."""
    name = host_name(host)
    if is_loopback(name) or name in (*_OWN_NAMES, socket.gethostname().lower()):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # An address that can be bound is this machine's.
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((name, 0))
        except OSError:
            return False
        return True


@remembered(1_024)
def normal(path: str) -> str:
    """Return the path without query and fragment, escapes, parameters, empty and relative segments, and a
    closing slash. Bytes that are no UTF-8 are read as their escapes are."""
    try:
        data = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # Surrogates that stand for no byte.
        data = path.encode("utf-8", "surrogatepass")
    path = data.decode("utf-8", "replace")
    path = _QUERY.split(path, maxsplit=1)[0]
    for _ in range(_ROUNDS):
        if (plain := unquote(path)) == path:
            break
        path = _QUERY.split(plain, maxsplit=1)[0]
    kept: list[str] = []
    for segment in _PARAMETERS.sub("", path.replace("\\", "/")).split("/"):
        segment = segment.strip()
        if segment == "..":
            kept = kept[:-1]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


HEADER = "x-penumbra-call"
"""Header with the number of an own call."""
under_way: set[str] = set()
"""Numbers of calls under way."""


def is_ours(number: str) -> bool:
    """Return whether a header's value is the number of a call under way."""
    return number in under_way
