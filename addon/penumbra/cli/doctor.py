"""`penumbra doctor`: one line a check, with what helps beside it. It changes nothing."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import orjson

from penumbra import rules
from penumbra.cli import ca_check, environment_check, local, store_check
from penumbra.cli.advisories import FOR_OLD_PYTHON, holes_of, version_of
from penumbra.cli.checks import Check, State
from penumbra.cli.failure import WRONG
from penumbra.cli.installation import newer
from penumbra.cli.parser import Parser
from penumbra.errors import one_line

if TYPE_CHECKING:
    from penumbra.config.settings import Settings

USAGE = """\
usage: penumbra doctor [--json]

Checks versions, clock, settings, rules, store, port, CA certificate, whether clients trust it, and what in
the environment leads past the proxy; one line each: `ok`, `note` (something should be done) or `BAD` (it
can't start), and what helps. It changes nothing, and asks nobody over the network.

Exit code: 0, or 2 if something is BAD.
"""


def main(arguments: Sequence[str]) -> int:
    """Prints all checks; the exit code."""
    parser = Parser("doctor")
    parser.add_argument("--json", action="store_true")
    given = parser.read(arguments)
    made = []
    for check in checks(os.environ):
        made.append(check)
        if not given.json:
            print(check, flush=True)
    if given.json:
        lines = [
            {"check": check.about, "state": check.state.name.lower(), "told": check.told, "fix": check.fix}
            for check in made
        ]
        print(orjson.dumps(lines, option=orjson.OPT_INDENT_2).decode())
    return WRONG if any(check.state is State.BAD for check in made) else 0


def checks(environment: Mapping[str, str]) -> Iterator[Check]:
    """All of them, in the order in which a start needs them."""
    yield _python()
    yield from _versions()
    yield _clock(datetime.now(UTC).date())
    yield from _settings(environment)
    yield environment_check.port(environment)
    yield from environment_check.prefixes(environment)
    yield from ca_check.certificate(environment)
    yield from environment_check.past_the_proxy(environment)


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info < (3, 12):
        told = f"Python {version}: mitmproxy 11.0.2 is the last one for it, and has known holes"
        return Check(State.NOTE, "python", told, FOR_OLD_PYTHON)
    return Check(State.OK, "python", f"Python {version}")


def _versions() -> Iterator[Check]:
    advisories = rules.load("advisories.yaml")
    for package in dict.fromkeys(entry["package"] for entry in advisories["holes"]):
        version = version_of(package)
        holes = holes_of(package, version)
        if not version:
            yield Check(State.BAD, package, f"{package} is not installed", newer((package,)))
        elif not holes:
            yield Check(
                State.OK, package, f"{package} {version}: no hole in the list of {advisories['date']}"
            )
        for remedy in dict.fromkeys(hole.remedy for hole in holes):
            named = ", ".join(f"{hole.what} ({hole.id})" for hole in holes if hole.remedy == remedy)
            yield Check(State.NOTE, package, f"{package} {version}: {named}", remedy)
    lacks = local.lacking()
    told = f"mitmproxy_rs {version_of('mitmproxy_rs')}" + (f" ({lacks})" if lacks else "")
    yield Check(State.OK, "mitmproxy_rs", told)


def _clock(today: date) -> Check:
    """Certificates hold from a day to a day, and what is kept grows old."""
    released = rules.load("advisories.yaml")["date"]
    if today < released:
        told = f"the clock says {today}, which is before this release was made ({released})"
        return Check(State.NOTE, "clock", told, "set it: certificates are refused by a clock that is wrong")
    return Check(State.OK, "clock", f"clock: {today}")


def _settings(environment: Mapping[str, str]) -> Iterator[Check]:
    from penumbra.config.remarks import remarks
    from penumbra.config.settings import SettingsError, config_path, load, unknown_variables

    try:
        settings = load({}, environment, config_path("", environment))
    except SettingsError as error:
        yield Check(State.BAD, "settings", f"settings of environment and file: {error}")
        return
    yield Check(State.OK, "settings", f"settings of environment and file: mode {settings.mode}")
    for name in unknown_variables(environment):
        yield Check(
            State.NOTE, "settings", f"{name}: Penumbra reads no variable of this name", f"unset {name}"
        )
    if not settings.redact_secrets:
        told = "redact_secrets is off: secrets in tool results reach the provider"
        yield Check(State.NOTE, "settings", told)
    if settings.pause:
        yield Check(
            State.NOTE,
            "settings",
            "pause is on: results go as they are",
            "set penumbra_pause to false where it is set",
        )
    if settings.observe:
        told = "observe is on: nothing is changed, and secrets reach the provider"
        yield Check(State.NOTE, "settings", told)
    for line in remarks(settings):
        yield Check(State.NOTE, "settings", line)
    yield from _unusable(settings)
    yield from _rules(settings.rules, environment)
    yield store_check.store(settings, environment)


def _unusable(settings: Settings) -> Iterator[Check]:
    """What else would stop a start."""
    from mitmproxy import flowfilter

    from penumbra.redaction import RuleError, ruleset

    try:
        if settings.filter:
            flowfilter.parse(settings.filter)
    except ValueError as error:
        yield Check(
            State.BAD, "settings", f"penumbra_filter: got {settings.filter!r}: {one_line(str(error))}"
        )
    try:
        ruleset.user_rules(settings.gitleaks_config, only=settings.gitleaks_only)
    except RuleError as error:
        yield Check(State.BAD, "settings", one_line(str(error)))


def _rules(setting: str, environment: Mapping[str, str]) -> Iterator[Check]:
    """The user's own rules, if there are any."""
    from penumbra import user_rules
    from penumbra.rule_schemas import RuleError

    try:
        folder = user_rules.folder_of(setting, environment)
    except RuleError as error:
        yield Check(State.BAD, "rules", f"penumbra_rules: {error}")
        return
    problems = user_rules.use(folder)
    for problem in problems:
        yield Check(State.NOTE, "rules", f"rule left out: {one_line(problem)}")
    if folder is not None and not problems:
        yield Check(State.OK, "rules", f"rules of your own: {folder}")
