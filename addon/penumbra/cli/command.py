"""This module has functions for all commands: for arguments, settings, standard input, and failures. A
failure is a message and an exit code. The help must appear fast, so only functions that read settings or
rules import them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from penumbra.errors import one_line

if TYPE_CHECKING:
    from penumbra.config.settings import Settings
    from penumbra.redaction.rule import Allowed, Rule

WRONG = 2
I_KNOW = "--i-know"
"""The argument with which mitmweb starts even if its version shows each client the flows of all clients."""
FILTER_BEGINNINGS = ("~", "!", "(", '"', "'")
"""First characters of mitmproxy's filter expressions."""


class Failure(Exception):
    """A `Failure` ends a command with a message for the user."""

    def __init__(self, message: str, code: int = 1, *, is_abrupt: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_abrupt = is_abrupt
        """True if the process must end at once, without Python's clean-up."""


class Parser(argparse.ArgumentParser):
    """A `Parser` reads the arguments of one command, such as `rules try`. The command's `USAGE` is its
    help."""

    def __init__(self, command: str) -> None:
        super().__init__(prog=f"penumbra {command}", add_help=False, allow_abbrev=False)
        self.command = command

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the parsed arguments. Raises Failure."""
        parsed, rest = self.parse_known_args(list(arguments))
        if rest:
            self.error(f"got {rest[0]!r}, allowed: {self._allowed()}")
        return parsed

    def error(self, message: str) -> NoReturn:
        raise Failure(f"{self.command}: {message.removeprefix('argument ')}", code=WRONG)

    def _allowed(self) -> str:
        allowed = self.format_usage().removeprefix(f"usage: {self.prog}").translate(_NO_BRACKETS)
        return " ".join(allowed.split()) or "no argument"


_NO_BRACKETS = str.maketrans("", "", "[]")


def wrap_instead(words: Sequence[str]) -> str:
    """Return a hint for a command line that starts an agent and lacks `wrap`."""
    name = one_line(Path(words[0]).name) if words else "claude"
    return f"to run a program through Penumbra: penumbra wrap -- {name}"


def word_of(*allowed: str) -> Callable[[str], str]:
    """Return an argparse type that accepts the allowed words only."""

    def read(word: str) -> str:
        if word not in allowed:
            raise argparse.ArgumentTypeError(f"got {word!r}, allowed: {', '.join(allowed)}")
        return word

    return read


def action(command: str, arguments: Sequence[str], allowed: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the first argument, which must be an allowed word, and the others. Raises Failure."""
    word = arguments[0] if arguments else ""
    if word not in allowed:
        raise Failure(f"{command}: got {word!r}, allowed: {', '.join(allowed)}", code=WRONG)
    return word, arguments[1:]


def settings() -> Settings:
    """Return the settings in the environment and the YAML file. Commands that need no settings also call this
    function, to report the same errors as a start of the proxy. Raises Failure."""
    from penumbra.config.settings import SettingsError, config_path, load

    try:
        loaded = load({}, os.environ, config_path("", os.environ))
    except SettingsError as error:
        raise Failure(str(error), code=WRONG) from None
    if any(entry.startswith("rule:") for entry in loaded.secrets_allow):
        use_rules(loaded.rules)
        secret_rules(loaded)
    return loaded


def secret_rules(settings: Settings) -> tuple[tuple[Rule, ...], Allowed]:
    """Return the rules for secrets that are in force, and the exceptions from them. Raises Failure."""
    from penumbra.redaction import ruleset
    from penumbra.rule_schemas import RuleError

    try:
        loaded = ruleset.user_rules(settings.gitleaks_config, only=settings.gitleaks_only)
        in_force = ruleset.rules(loaded, only=settings.gitleaks_only)
        return in_force, ruleset.allowed(settings.secrets_allow, in_force)
    except RuleError as error:
        raise Failure(str(error), code=WRONG) from None


def use_rules(setting: str) -> list[str]:
    """Use the rules of a folder, in addition to Penumbra's own, and return their problems. Raises Failure."""
    from penumbra import user_rules
    from penumbra.rule_schemas import RuleError

    try:
        return user_rules.use(user_rules.folder_of(setting))
    except RuleError as error:
        raise Failure(f"rules: {error}", code=WRONG) from None


def print_json(value: Any) -> None:
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def piped_text(name: str) -> str:
    """Return all of standard input. At a terminal, the user gets a hint that names the text by `name`."""
    if sys.stdin.isatty():
        print(f"penumbra: reading the {name} from the terminal, up to Ctrl-D", file=sys.stderr)
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def print_left_out(problems: Sequence[str]) -> None:
    for problem in problems:
        print(f"penumbra: left out: {one_line(problem)}", file=sys.stderr)
