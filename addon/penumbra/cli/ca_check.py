"""The CA certificate: there, private, in time, for all LLM hosts, and trusted by clients that are here."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from penumbra.cli import agent_environment, certificates
from penumbra.cli.ca_files import ca_file, certificate_file
from penumbra.cli.checks import Check, State
from penumbra.cli.failure import Failure
from penumbra.cli.no_proxy import covers_llm_host
from penumbra.errors import one_line
from penumbra.metrics import running

_ABOUT, _TRUST = "ca", "trust"
_SOON = timedelta(days=30)
_AGAIN = "penumbra ca make --again"


def certificate(environment: Mapping[str, str]) -> Iterator[Check]:
    """All about it."""
    try:
        folder = certificates.folder_in_use(environment=environment)
    except Failure as failure:
        yield Check(State.BAD, _ABOUT, str(failure))
        return
    if not os.path.lexists(ca_file(folder)):
        yield _to_be_made(folder)
        return
    problems = list(_problems(folder))
    yield from problems or [Check(State.OK, _ABOUT, f"CA certificate {certificate_file(folder)}")]
    if all(problem.state is not State.BAD for problem in problems):
        yield from _trusted(folder, environment)


def _to_be_made(folder: Path) -> Check:
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return Check(State.OK, _ABOUT, f"no CA certificate yet: the first start makes one in {folder}")
    told = f"no CA certificate can be made in {folder}: {above} can't be written"
    return Check(State.BAD, _ABOUT, told, "name another folder: --set confdir=FOLDER")


def _problems(folder: Path) -> Iterator[Check]:
    from penumbra.cli import own_ca

    key = ca_file(folder)
    try:
        ca = own_ca.read(folder)
        mode = key.stat().st_mode
    except (OSError, ValueError) as error:
        told = f"the CA certificate in {folder} can't be read ({one_line(str(error))[:80]})"
        yield Check(State.BAD, _ABOUT, told, _AGAIN)
        return
    if stat.S_IMODE(mode) & 0o077:
        yield Check(State.NOTE, _ABOUT, f"others can read the CA's key {key}", f"chmod 600 {key}; {_AGAIN}")
    now = datetime.now(UTC)
    since = ca.certificate.not_valid_before_utc
    if not since <= now < ca.until:
        told = f"the CA certificate holds from {since:%Y-%m-%d} to {ca.until:%Y-%m-%d}"
        yield Check(State.BAD, _ABOUT, told, _AGAIN)
    elif ca.until < now + _SOON:
        yield Check(State.NOTE, _ABOUT, f"the CA certificate ends on {ca.until:%Y-%m-%d}", _AGAIN)
    if lacking := ca.lacks(own_ca.provider_hosts()):
        told = f"the CA certificate may not sign for {', '.join(lacking)}, which clients will refuse"
        yield Check(State.NOTE, _ABOUT, told, _AGAIN)


def _trusted(folder: Path, environment: Mapping[str, str]) -> Iterator[Check]:
    """By a handshake in the environment that programs get: this shell's, if it is led to a proxy of ours,
    else that of `penumbra wrap`."""
    from penumbra.cli import trust_check

    led_to = {environment.get(name, "").removeprefix("http://") for name in ("HTTPS_PROXY", "https_proxy")}
    ours = {entry.get("proxy") for entry in running.running(running.folder(environment))}
    where, fix, tried = "in this shell", 'eval "$(penumbra wrap --print-env)"', dict(environment)
    if not (led_to & ours) - {""}:
        trusted = certificates.Certificates(certificate_file(folder), folder / "penumbra-ca-bundle.pem")
        where, fix = "under `penumbra wrap`", ""
        tried |= agent_environment.variables("127.0.0.1:9", trusted, environment, is_llm_host=covers_llm_host)
        if trusted.bundle is None or not trusted.bundle.is_file():
            yield Check(State.OK, _TRUST, "no bundle of certificates yet: the first start makes it")
            return
    for client, problem in trust_check.families(folder, tried):
        if problem:
            told = f"{client} does not trust the CA certificate {where} ({one_line(problem)[:120]})"
            yield Check(State.NOTE, _TRUST, told, fix)
        else:
            yield Check(State.OK, _TRUST, f"{client} trusts the CA certificate {where}")
