"""This module makes the environment variables for a program that uses the proxy and trusts its CA."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from penumbra import rules
from penumbra.cli.certificates import Certificates
from penumbra.rule_schemas.providers import Providers

_SEPARATOR = re.compile(r"[,\s]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")


def entries(value: str) -> list[str]:
    """Return the entries in the value of a variable such as `NO_PROXY`. Commas or spaces separate entries."""
    return [entry for entry in _SEPARATOR.split(value) if entry]


def covers_llm_host(entry: str, extra: tuple[str, ...] = ()) -> bool:
    """Return whether an entry of `NO_PROXY` (`*`, a host or a domain) applies to the host of a provider.
    `extra` are globs of further hosts. Local hosts don't count, since requests to them always bypass the
    proxy."""
    domain = _domain(entry)
    providers = rules.load_as("providers.yaml", Providers).providers
    hosts = (*(host for hosts in providers.values() for host in hosts), *extra)
    return not domain or any(_leads_to(domain, host.lower()) for host in hosts)


def _domain(entry: str) -> str:
    """Return an entry without scheme, path, port, leading wildcard and surrounding dots."""
    place = re.split(r"[/?#]", _SCHEME.sub("", entry.strip().lower()), maxsplit=1)[0]
    if place.startswith("["):
        place = place[1:].partition("]")[0]
    elif place.count(":") == 1:
        place = place.partition(":")[0]
    return place.lstrip("*").strip(".")


def _leads_to(domain: str, host: str) -> bool:
    """Return whether a domain matches the glob `host`, or contains a host that matches the glob."""
    if fnmatchcase(domain, host):
        return True
    above, labels = domain.split(".")[::-1], host.split(".")[::-1]
    return len(above) < len(labels) and all(map(fnmatchcase, above, labels))


LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY")
_BUNDLES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "CODEX_CA_CERTIFICATE"),
    *("AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "PIP_CERT", "CARGO_HTTP_CAINFO"),
    "GIT_SSL_CAINFO",
)
"""Variables that name a file of certificates. Programs read this file instead of their own certificates, so
the file includes the public certificates."""
_ADDED = ("NODE_EXTRA_CA_CERTS", "DENO_CERT")
"""Variables that name a file of certificates. Programs read this file in addition to their own
certificates."""
NAMED_FILES = (*_BUNDLES, *_ADDED)
SHELLS = ("sh", "fish", "powershell")


@dataclass(frozen=True, slots=True)
class Programs:
    """A `Programs` has facts about programs on this machine."""

    git_has_own: bool = False
    """True if git's configuration names certificates. GIT_SSL_CAINFO would override these certificates. The
    variable is then not set, and git's connections are not decrypted."""
    node_uses_proxy: bool = True
    """True if the variable NODE_USE_ENV_PROXY is added, so that Node's `fetch` uses the proxy. Node 22 then
    prints a warning."""


def variables(
    proxy: str,
    certificates: Certificates,
    environment: Mapping[str, str],
    *,
    is_llm_host: Callable[[str], bool],
    tools: Programs = Programs(),
) -> dict[str, str]:
    """Return the variables that a program gets in addition to its environment. `proxy` is a host
    and a port."""
    bundle = certificates.bundle
    variables = dict.fromkeys(_spelled(_PROXIES), f"http://{proxy}")
    variables |= dict.fromkeys(_spelled(("NO_PROXY",)), no_proxy(environment, is_llm_host))
    if tools.node_uses_proxy:
        variables["NODE_USE_ENV_PROXY"] = "1"
    if bundle is not None:
        variables |= dict.fromkeys(_BUNDLES, str(bundle))
    if tools.git_has_own:
        variables.pop("GIT_SSL_CAINFO", None)
    for name in _ADDED:
        # If the variable names a file already, the bundle contains that file. Otherwise the CA alone
        # suffices, and is read faster.
        variables[name] = str(bundle if bundle is not None and environment.get(name) else certificates.ca)
    return variables


def no_proxy(environment: Mapping[str, str], is_llm_host: Callable[[str], bool]) -> str:
    """Return a value for `NO_PROXY`: the existing entries that apply to no LLM host, and this machine."""
    named = [entry for name in _spelled(("NO_PROXY",)) for entry in entries(environment.get(name, ""))]
    return ",".join(dict.fromkeys([*(entry for entry in named if not is_llm_host(entry)), *LOOPBACK]))


def upstream(environment: Mapping[str, str]) -> str:
    """Return the HTTPS proxy that the environment names; empty if there is none."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        if value := environment.get(name, "").strip():
            return value if "://" in value else f"http://{value}"
    return ""


def extra_files(environment: Mapping[str, str]) -> list[Path]:
    """Return the certificate files that the environment already names."""
    named = (environment.get(name, "") for name in NAMED_FILES)
    return [Path(os.path.expanduser(path)) for path in dict.fromkeys(named) if path]


def for_shell(environment: Mapping[str, str], shell: str) -> str:
    """Return assignments for sh, fish or PowerShell."""
    # Windows ignores the case of variables' names, so lower-case names are not needed.
    names = [name for name in environment if shell != "powershell" or name.isupper()]
    return "\n".join(_ASSIGNMENTS[shell](name, environment[name]) for name in names)


def shell_of(environment: Mapping[str, str]) -> str:
    name = Path(environment.get("SHELL", "")).name
    if name in ("pwsh", "powershell") or (os.name == "nt" and not name):
        return "powershell"
    return "fish" if name == "fish" else "sh"


def _spelled(names: Iterable[str]) -> list[str]:
    """Return each name in upper and in lower case, since programs read either."""
    return [spelling for name in names for spelling in (name, name.lower())]


_FISH, _POWERSHELL = str.maketrans({"\\": "\\\\", "'": "\\'"}), str.maketrans({"'": "''"})
_ASSIGNMENTS: Mapping[str, Callable[[str, str], str]] = {
    "sh": lambda name, value: f"export {name}={shlex.quote(value)}",
    "fish": lambda name, value: f"set -gx {name} '{value.translate(_FISH)}'",
    "powershell": lambda name, value: f"$env:{name} = '{value.translate(_POWERSHELL)}'",
}
