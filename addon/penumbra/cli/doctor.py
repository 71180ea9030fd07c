"""`penumbra doctor` prints one line for each check, with a remedy for a problem. The command changes nothing.
The checks cover versions, settings, the port, variables that bypass the proxy, the store and the CA
certificate. A TLS handshake with each kind of installed client shows whether this client trusts the
certificate."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import shutil
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from penumbra import rules
from penumbra.cli import agent_environment, certificates, local
from penumbra.cli.advisories import FOR_OLD_PYTHON, holes_of, newer, version_of
from penumbra.cli.agent_environment import covers_llm_host, entries
from penumbra.cli.certificates import NAME, ca_file, certificate_file
from penumbra.cli.command import WRONG, Failure, Parser, print_json
from penumbra.config.settings import (
    Settings,
    SettingsError,
    config_path,
    database_path,
    load,
    unknown_variables,
)
from penumbra.errors import one_line
from penumbra.metrics import running
from penumbra.store import database_file
from penumbra.store.database_file import VERSION


class Level(IntEnum):
    OK = 0
    NOTE = 1
    BAD = 2


@dataclass(frozen=True, slots=True)
class Check:
    """A `Check` has the outcome of a check, which is printed as one line."""

    state: Level
    about: str
    """The check's subject in one word, for programs that read the output."""
    text: str
    fix: str = ""
    """A command that helps, or advice."""

    def __str__(self) -> str:
        words = ("ok", "note", "BAD")
        return f"{words[self.state]:<5} {self.text}" + (f": {self.fix}" if self.fix else "")


ok, note, bad = (partial(Check, state) for state in Level)
_STORE = "store"


def store(settings: Settings, environment: Mapping[str, str]) -> Check:
    """Check the database that the settings name."""
    path = database_path(settings, environment)
    if path is None:
        text = "the store is in memory: after a restart, conversations are sent and billed anew"
        return note(_STORE, text, "unset PENUMBRA_DATABASE")
    if not path.exists():
        return _store_to_be_made(path)
    if not os.access(path, os.R_OK | os.W_OK):
        return note(_STORE, f"store {path} can't be written: all is kept in memory", _chown(path))
    try:
        with closing(database_file.connect(path)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except (sqlite3.Error, ValueError) as error:
        return note(_STORE, f"store {path} can't be read ({error}); a start replaces it")
    size = sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
    text = f"store {path}: {size / 1024**2:,.1f} of {settings.database_max_bytes / 1024**2:,.0f} MB"
    if version > VERSION:
        return note(_STORE, f"{text}, made by a later release; a start replaces it")
    return ok(_STORE, f"{text}, version {version}")


def _store_to_be_made(path: Path) -> Check:
    folder = next(above for above in path.parents if above.exists())
    if os.access(folder, os.W_OK | os.X_OK) and folder.is_dir():
        return ok(_STORE, f"no store yet: {path} is made at the first start")
    text = f"store {path} can't be made, since {folder} can't be written: all is kept in memory"
    return note(_STORE, text, _chown(folder))


def _chown(path: Path) -> str:
    return f"make {path} yours, or name another file: PENUMBRA_DATABASE"


HOST = "api.anthropic.com"
_SECONDS = 20
_CLIENTS = {
    "Python": (
        sys.executable,
        "-c",
        (
            "import socket,ssl,sys;c=ssl.create_default_context()\n"
            "try: c.wrap_socket(socket.create_connection(('127.0.0.1',{port})),server_hostname='{host}')\n"
            "except ssl.SSLCertVerificationError as e: sys.exit(e.verify_message)"
        ),
    ),
    "Node": (
        "node",
        "-e",
        (
            "const t=require('tls').connect({host:'127.0.0.1',port:{port},servername:'{host}'},"
            "()=>process.exit(0));t.on('error',e=>{console.error(e.code);process.exit(1)})"
        ),
    ),
    "curl": (
        *("curl", "-sS", "-o", os.devnull, "--noproxy", "*"),
        *("--resolve", "{host}:{port}:127.0.0.1", "https://{host}:{port}/"),
    ),
}
"""Commands that make a TLS connection to a host and port, by kind of client."""


def families(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each kind of installed client, and why this client does not trust the CA; empty if it trusts the
    CA."""
    with _server(folder) as port:
        for name, words in _CLIENTS.items():
            if program := shutil.which(words[0], path=environment.get("PATH")):
                arguments = [word.replace("{host}", HOST).replace("{port}", str(port)) for word in words[1:]]
                yield name, _run([program, *arguments], environment)


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[int]:
    """Run a TLS server on this machine with a certificate for a provider's host, and yield its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as there:
        context.load_cert_chain(_leaf(folder, Path(there)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, context), daemon=True).start()
        yield listener.getsockname()[1]


def _leaf(folder: Path, there: Path) -> Path:
    """Make a certificate like the proxy's, and return the file with the certificate and its key."""
    from mitmproxy.certs import CertStore

    from penumbra.flow.certificate_names import CertificateNames

    store = CertStore.from_store(folder, NAME, 2048)
    entry = CertificateNames.limited(store).get_cert(HOST, x509.GeneralNames([x509.DNSName(HOST)]))
    key = entry.privatekey.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = there / "leaf.pem"
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(key + entry.cert.to_pem())
    return path


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        client.settimeout(_SECONDS)
        with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True) as secured:
            secured.recv(4096)
            secured.sendall(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    """Return the first line of a failed program's errors; empty if the program succeeds."""
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    line = done.stderr.strip().split("\n")[0]
    return "" if done.returncode == 0 else line or f"exit code {done.returncode}"


_PORT = 8080
_BASES = (
    *("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "GOOGLE_GEMINI_BASE_URL"),
    *("ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL"),
)
_SETTINGS = ("~/.claude/settings.json", "~/.claude/settings.local.json")
"""Settings files of Claude Code, whose `env` overrides variables of the environment."""
_READ_THERE = (*_BASES, "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "NODE_EXTRA_CA_CERTS")


def port(environment: Mapping[str, str]) -> Check:
    """Check the port of `penumbra proxy`. (`penumbra wrap` chooses a free port itself.)"""
    for entry in running.running(running.folder(environment)):
        if _PORT in entry.get("ports", ()):
            paused = ", paused" if entry.get("is_paused") else ""
            text = f"port {_PORT}: a proxy of ours runs there (process {entry.get('pid')}{paused})"
            return ok("port", text)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _PORT))
        except OSError as error:
            why = "taken by another program" if error.errno == errno.EADDRINUSE else str(error.strerror)
            fix = f"penumbra proxy -p {_PORT + 1}; `penumbra wrap` takes a free one"
            return note("port", f"port {_PORT} on 127.0.0.1 is {why}", fix)
    return ok("port", f"port {_PORT} on 127.0.0.1 is free")


def prefixes(environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield a note for each running proxy that has by mistake changed the beginning of a prompt."""
    for entry in running.running(running.folder(environment)):
        found = entry.get("totals", {}).get("prefix", {})
        if found.get("broken"):
            text = (
                f"process {entry['pid']} broke {found['broken']:,} of {found['compared']:,} compared prefixes"
            )
            fix = "the sessions on its page name the places: report them, and set penumbra_pause until then"
            yield note("prefix", text, fix)


def past_the_proxy(environment: Mapping[str, str]) -> Iterator[Check]:
    """Check for variables, in this shell or in agents' settings, that make requests bypass the proxy."""
    checks = [*_variables(environment, ""), *_files(environment)]
    yield from checks or [ok("environment", "no variable makes clients bypass the proxy")]


def _files(environment: Mapping[str, str]) -> Iterator[Check]:
    for name in _SETTINGS:
        path = Path(os.path.expanduser(name))
        try:
            there = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        named: Any = there.get("env") if isinstance(there, dict) else None
        if isinstance(named, dict):
            yield from _variables(
                {key: str(named[key]) for key in _READ_THERE if key in named}, f" in {path}"
            )


def _variables(environment: Mapping[str, str], where: str) -> Iterator[Check]:
    for name in _BASES:
        if (value := environment.get(name, "").strip()) and not _is_usual(value):
            text = (
                f"{name}={one_line(value)}{where} is no LLM host that is known: requests there are not read"
            )
            yield note("environment", text, f"{_undo(name, where)}, or set penumbra_hosts")
    only = " so in the environment only" if where else ""
    for name in ("NO_PROXY", "no_proxy"):
        past = [entry for entry in entries(environment.get(name, "")) if covers_llm_host(entry)]
        if past:
            text = f"{name}{where} leads requests to LLM hosts past the proxy ({one_line(', '.join(past))})"
            yield note("environment", text, f"take it out; `penumbra wrap` does{only}")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        if environment.get(name, "").lower().startswith("socks"):
            text = f"{name}{where} is a SOCKS proxy, which mitmproxy can't go through"
            yield note("environment", text, _undo(name, where))
        elif where and environment.get(name):
            text = f"{name}{where} overrides the agent's environment"
            yield note("environment", text, _undo(name, where))
    if environment.get("NODE_TLS_REJECT_UNAUTHORIZED", "") == "0":
        text = "NODE_TLS_REJECT_UNAUTHORIZED=0: Node programs accept any certificate"
        yield note("environment", text, "unset NODE_TLS_REJECT_UNAUTHORIZED")


def _undo(name: str, where: str) -> str:
    return f"take it out{where}" if where else f"unset {name}"


def _is_usual(url: str) -> bool:
    """Return whether a URL names a provider or this machine. A proxy in reverse mode may run on this
    machine."""
    from penumbra.apis import recognise

    try:
        return recognise.is_llm_host(urlsplit(url).hostname or "")
    except ValueError:
        return False


_CA, _TRUST = "ca", "trust"
_SOON = timedelta(days=30)
_AGAIN = "penumbra ca make --again"


def certificate(environment: Mapping[str, str]) -> Iterator[Check]:
    """Check the CA certificate, and whether clients trust it."""
    try:
        folder = certificates.folder_in_use(environment=environment)
    except Failure as failure:
        yield bad(_CA, str(failure))
        return
    if not os.path.lexists(ca_file(folder)):
        yield _ca_to_be_made(folder)
        return
    problems = list(_problems(folder))
    yield from problems or [ok(_CA, f"CA certificate {certificate_file(folder)}")]
    if all(problem.state is not Level.BAD for problem in problems):
        yield from _trusted(folder, environment)


def _ca_to_be_made(folder: Path) -> Check:
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return ok(_CA, f"no CA certificate yet: the first start makes one in {folder}")
    text = f"no CA certificate can be made in {folder}: {above} can't be written"
    return bad(_CA, text, "name another folder: --set confdir=FOLDER")


def _problems(folder: Path) -> Iterator[Check]:
    from penumbra.cli.ca import provider_hosts, read

    key = ca_file(folder)
    try:
        ca = read(folder)
        mode = key.stat().st_mode
    except (OSError, ValueError) as error:
        yield bad(_CA, f"the CA certificate in {folder} can't be read ({one_line(str(error))[:80]})", _AGAIN)
        return
    if stat.S_IMODE(mode) & 0o077:
        yield note(_CA, f"others can read the CA's key {key}", f"chmod 600 {key}; {_AGAIN}")
    now = datetime.now(UTC)
    since = ca.certificate.not_valid_before_utc
    if not since <= now < ca.until:
        yield bad(_CA, f"the CA certificate is valid from {since:%Y-%m-%d} to {ca.until:%Y-%m-%d}", _AGAIN)
    elif ca.until < now + _SOON:
        yield note(_CA, f"the CA certificate ends on {ca.until:%Y-%m-%d}", _AGAIN)
    if lacking := ca.lacks(provider_hosts()):
        text = f"the CA certificate may not sign for {', '.join(lacking)}, which clients will refuse"
        yield note(_CA, text, _AGAIN)


def _trusted(folder: Path, environment: Mapping[str, str]) -> Iterator[Check]:
    """Check by TLS handshakes whether clients trust the CA. If this shell's environment names a proxy of
    Penumbra, the clients run in this environment. Otherwise the clients run in an environment like that of
    `penumbra wrap`."""

    led_to = {environment.get(name, "").removeprefix("http://") for name in ("HTTPS_PROXY", "https_proxy")}
    ours = {entry.get("proxy") for entry in running.running(running.folder(environment))}
    where, fix, tried = "in this shell", 'eval "$(penumbra wrap --print-env)"', dict(environment)
    if not (led_to & ours) - {""}:
        trusted = certificates.Certificates(certificate_file(folder), folder / "penumbra-ca-bundle.pem")
        where, fix = "under `penumbra wrap`", ""
        tried |= agent_environment.variables("127.0.0.1:9", trusted, environment, is_llm_host=covers_llm_host)
        if trusted.bundle is None or not trusted.bundle.is_file():
            yield ok(_TRUST, "no bundle of certificates yet: the first start makes it")
            return
    for client, problem in families(folder, tried):
        if problem:
            text = f"{client} does not trust the CA certificate {where} ({one_line(problem)[:120]})"
            yield note(_TRUST, text, fix)
        else:
            yield ok(_TRUST, f"{client} trusts the CA certificate {where}")


USAGE = """\
usage: penumbra doctor [--json]

Checks versions, clock, settings, rules, store, port, the CA certificate, whether clients trust it, and
variables that make clients bypass the proxy. Each check prints one line: `ok`, `note` (something should be
done) or `BAD` (the proxy can't start), with the fix. Doctor changes nothing, and does not use the network.

Exit code: 0, or 2 if something is BAD.
"""


def main(arguments: Sequence[str]) -> int:
    """Print all checks and return the exit code."""
    parser = Parser("doctor")
    parser.add_argument("--json", action="store_true")
    options = parser.read(arguments)
    made = []
    for check in checks(os.environ):
        made.append(check)
        if not options.json:
            print(check, flush=True)
    if options.json:
        lines = [
            {"check": check.about, "state": check.state.name.lower(), "told": check.text, "fix": check.fix}
            for check in made
        ]
        print_json(lines)
    return WRONG if any(check.state is Level.BAD for check in made) else 0


def checks(environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield all checks, in the order of the steps of a start."""
    yield from _versions()
    yield clock(datetime.now(UTC).date())
    yield from _settings(environment)
    yield port(environment)
    yield from prefixes(environment)
    yield from certificate(environment)
    yield from past_the_proxy(environment)


def _versions() -> Iterator[Check]:
    """Check Python and the packages. A single note names all packages whose newer versions need a later
    Python."""
    advisories = rules.load("advisories.yaml")
    names = list(dict.fromkeys(entry["package"] for entry in advisories["holes"]))
    found = {name: holes_of(name, version_of(name)) for name in names}
    version = f"Python {platform.python_version()}"
    bound = [hole for holes in found.values() for hole in holes if hole.remedy == FOR_OLD_PYTHON]
    if sys.version_info < (3, 12):
        packages = ", ".join(dict.fromkeys(f"{hole.package} {hole.version}" for hole in bound))
        text = f"{version}: the last releases for it have {len(bound)} known holes ({packages})"
        yield note("python", text, FOR_OLD_PYTHON)
    else:
        yield ok("python", version)
    for name, holes in found.items():
        if not version_of(name):
            yield bad(name, f"{name} is not installed", newer((name,)))
        elif not holes:
            yield ok(name, f"{name} {version_of(name)}: no hole in the list of {advisories['date']}")
        for remedy in dict.fromkeys(hole.remedy for hole in holes if hole not in bound):
            named = ", ".join(f"{hole.what} ({hole.id})" for hole in holes if hole.remedy == remedy)
            yield note(name, f"{name} {version_of(name)}: {named}", remedy)
    lacks = local.lacking()
    text = f"mitmproxy_rs {version_of('mitmproxy_rs')}" + (f" ({lacks})" if lacks else "")
    yield ok("mitmproxy_rs", text)


def clock(today: date) -> Check:
    """Check the clock, which decides when certificates and stored rows expire."""
    released = rules.load("advisories.yaml")["date"]
    if today < released:
        text = f"the clock says {today}, which is before this release was made ({released})"
        return note("clock", text, "set it: certificates are refused by a clock that is wrong")
    return ok("clock", f"clock: {today}")


def _settings(environment: Mapping[str, str]) -> Iterator[Check]:
    from penumbra.config.settings import remarks

    try:
        settings = load({}, environment, config_path("", environment))
    except SettingsError as error:
        yield bad("settings", f"settings of environment and file: {error}")
        return
    yield ok("settings", f"settings of environment and file: mode {settings.mode}")
    for name in unknown_variables(environment):
        yield note("settings", f"{name}: Penumbra reads no variable of this name", f"unset {name}")
    if not settings.redact_secrets:
        yield note("settings", "redact_secrets is off: secrets in tool results reach the provider")
    if settings.pause:
        yield note(
            "settings", "pause is on: results go as they are", "set penumbra_pause to false where it is set"
        )
    if settings.observe:
        yield note("settings", "observe is on: nothing is changed, and secrets reach the provider")
    for line in remarks(settings):
        yield note("settings", line)
    yield from _unusable(settings)
    yield from own_rules(settings.rules, environment)
    yield store(settings, environment)


def _unusable(settings: Settings) -> Iterator[Check]:
    """Check for settings that are valid but prevent a start."""
    from mitmproxy import flowfilter

    from penumbra.redaction import RuleError, ruleset

    try:
        if settings.filter:
            flowfilter.parse(settings.filter)
    except ValueError as error:
        yield bad("settings", f"penumbra_filter: got {settings.filter!r}: {one_line(str(error))}")
    try:
        ruleset.user_rules(settings.gitleaks_config, only=settings.gitleaks_only)
    except RuleError as error:
        yield bad("settings", one_line(str(error)))


def own_rules(setting: str, environment: Mapping[str, str]) -> Iterator[Check]:
    from penumbra import user_rules
    from penumbra.rule_schemas import RuleError

    try:
        folder = user_rules.folder_of(setting, environment)
    except RuleError as error:
        yield bad("rules", f"penumbra_rules: {error}")
        return
    problems = user_rules.use(folder)
    for problem in problems:
        yield note("rules", f"rule left out: {one_line(problem)}")
    if folder is not None and not problems:
        yield ok("rules", f"rules of your own: {folder}")
