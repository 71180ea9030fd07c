"""`penumbra doctor`: one line a check. Exit code 0: all is well; 1: something should be done; 2: Penumbra
can't start as things are."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from penumbra import rules
from penumbra.cli.advisories import holes_of, version_of
from penumbra.cli.failure import Failure
from penumbra.errors import one_line


class State(IntEnum):
    """How a check came out; the worst one is the exit code."""

    OK = 0
    NOTE = 1
    BAD = 2


@dataclass(frozen=True, slots=True)
class Check:
    """One line."""

    state: State
    told: str

    def __str__(self) -> str:
        return f"{('ok', 'note', 'BAD')[self.state]:<5} {self.told}"


def main(arguments: Sequence[str]) -> int:
    """Prints all checks; the exit code."""
    if arguments:
        raise Failure(f"doctor takes no arguments, got {arguments[0]!r}", code=2)
    results = list(checks(os.environ))
    for check in results:
        print(check)
    return max(check.state for check in results)


def checks(environment: Mapping[str, str]) -> Iterator[Check]:
    """All of them, in the order in which a start needs them."""
    yield _python()
    yield from _versions()
    yield from _settings(environment)
    yield _certificate()


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info < (3, 12):
        return Check(State.NOTE, f"Python {version}: 3.12 or later can have a newer mitmproxy")
    return Check(State.OK, f"Python {version}")


def _versions() -> Iterator[Check]:
    advisories = rules.load("advisories.yaml")
    for package in dict.fromkeys(entry["package"] for entry in advisories["holes"]):
        version = version_of(package)
        holes = holes_of(package, version)
        if not version:
            yield Check(State.BAD, f"{package} is not installed: pip install . (of Penumbra) brings it")
        elif not holes:
            yield Check(State.OK, f"{package} {version}: no hole in the list of {advisories['date']}")
        for hole in holes:
            yield Check(State.NOTE, f"{package} {version}: {hole.id}, {hole.what}: {hole.remedy}")


def _settings(environment: Mapping[str, str]) -> Iterator[Check]:
    from penumbra.config.settings import SettingsError, config_path, load, unknown_variables
    from penumbra.config.strategy_check import remarks

    try:
        settings = load({}, environment, config_path("", environment))
    except SettingsError as error:
        yield Check(State.BAD, f"settings of environment and file: {error}")
        return
    yield Check(State.OK, f"settings of environment and file: mode {settings.mode}")
    for name in unknown_variables(environment):
        yield Check(State.NOTE, f"{name}: Penumbra reads no variable of this name")
    if not settings.redact_secrets:
        yield Check(State.NOTE, "redact_secrets is off: secrets in tool results reach the provider")
    for line in remarks(settings):
        yield Check(State.NOTE, line)
    yield from _rules(settings.rules, environment)


def _rules(setting: str, environment: Mapping[str, str]) -> Iterator[Check]:
    """The user's own rules, if there are any."""
    from penumbra import user_rules
    from penumbra.rule_schemas import RuleError

    try:
        folder = user_rules.folder_of(setting, environment)
    except RuleError as error:
        yield Check(State.BAD, f"penumbra_rules: {error}")
        return
    problems = user_rules.use(folder)
    for problem in problems:
        yield Check(State.NOTE, f"rule left out: {one_line(problem)}")
    if folder is not None and not problems:
        yield Check(State.OK, f"rules of your own: {folder}")


def _certificate() -> Check:
    from mitmproxy.options import Options

    from penumbra.cli import certificates

    try:
        found = certificates.prepare(Options().confdir)
    except Failure as failure:
        return Check(State.BAD, str(failure))
    if found.bundle is None:
        return Check(State.NOTE, f"CA certificate {found.ca}, but {found.problem}")
    return Check(State.OK, f"CA certificate {found.ca}")
