"""This module normalises the host and path of a request, and recognises calls of Penumbra itself.

A normalised path is used only to recognise API calls and is never sent. Servers normalise paths in different
ways. This module decodes escapes several times, and removes parameters and empty and relative segments. An
API call with an unusual path is therefore still searched for secrets.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from urllib.parse import unquote

from penumbra.short_texts import remembered

_ROUNDS = 3
"""The greatest number of times that a path is percent-decoded."""
_QUERY = re.compile(r"[?#]")
_PARAMETERS = re.compile(r";[^/]*")
_OWN_NAMES = ("ip6-localhost", "ip6-loopback", "host.docker.internal")
_OLD_ADDRESS = re.compile(
    r"(?:0x[0-9a-f]{0,16}|[0-9]{1,16})(?:\.(?:0x[0-9a-f]{0,16}|[0-9]{1,16})){0,3}", re.ASCII
)
"""An address that `inet_aton` accepts: one to four numbers, each decimal, octal or hexadecimal."""


@remembered(1_024)
def host_name(host: str) -> str:
    """Return the normalised name or address of a host. The result is in lower case, without brackets, zone
    and final dot. Other letters than ASCII are encoded by IDNA. Every spelling of an IPv4 address (`127.1`,
    `0x7f000001`, `::ffff:127.0.0.1`) becomes the usual one."""
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
    """Return whether a host is `localhost` or a loopback address, in any spelling. Names are not resolved."""
    name = host_name(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # A connection to an unspecified address (0.0.0.0 or ::) reaches this machine.
    return address.is_loopback or address.is_unspecified


def is_this_machine(host: str) -> bool:
    """Return whether a host is a name or an address of this machine. Names are not resolved."""
    name = host_name(host)
    if is_loopback(name) or name in (*_OWN_NAMES, socket.gethostname().lower()):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # A socket can be bound only to an address of this machine.
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((name, 0))
        except OSError:
            return False
        return True


@remembered(1_024)
def normal(path: str) -> str:
    """Return the path with its escapes decoded. Query, fragment, parameters, empty and relative segments, and
    the final slash are removed. Bytes and escapes that are not UTF-8 become U+FFFD."""
    try:
        data = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # The path has surrogates that stand for no byte.
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
"""The header that marks a call of Penumbra's own. Its value is the call's number."""
under_way: set[str] = set()
"""Numbers of Penumbra's own calls that are not finished."""


def is_ours(number: str) -> bool:
    """Return whether a header's value is the number of an unfinished call of Penumbra's own."""
    return number in under_way
