"""`penumbra rules`: what the rules make of an output, and whether rules are right."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from penumbra import rules, user_rules
from penumbra.cli.failure import Failure
from penumbra.compress.result import Mode
from penumbra.errors import one_line
from penumbra.rule_schemas import RuleError, schema_of
from penumbra.rule_schemas.base import broken_patterns, problems

USAGE = """\
usage: penumbra rules try [COMMAND LINE] [--tool NAME] [--mode MODE] [--lossless] [--rules FOLDER] < output
       penumbra rules check [FOLDER]

  try     what family a command's output is of, what each stage makes of it, what comes out, and
          an example for the rule's file
  check   whether rules are what their schemas allow, and their examples hold: ours and those of
          your folder, or those of FOLDER; exit code 0 if all is well, 1 if not

  --tool NAME      the tool that was called (default: Bash)
  --mode MODE      safe, standard or aggressive (default: as set)
  --lossless       nothing may be left out, as where the model can't ask for the original
  --rules FOLDER   rules beside ours, in the place of your folder

Example:
  bazel test //... 2>&1 | penumbra rules try 'bazel test //...'
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Failure(f"rules: {message}; `penumbra rules --help` tells more", code=2)


def main(arguments: Sequence[str]) -> int:
    """Prints what was asked for. Exit code 0, or 1 if rules are wrong."""
    command, *rest = arguments or [""]
    if command in ("-h", "--help", "help") or "-h" in rest or "--help" in rest:
        print(USAGE, end="")
        return 0
    if command in ("check", "try"):
        try:
            return (_check if command == "check" else _try)(rest)
        except BrokenPipeError:
            # Whoever reads has seen enough; Python would complain again at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
    raise Failure(f"rules: got {command!r}, allowed: try, check", code=2)


def _try(arguments: Sequence[str]) -> int:
    parser = _Parser(add_help=False, prog="penumbra rules try")
    parser.add_argument("line", nargs="?", default="")
    parser.add_argument("--tool", default="Bash")
    parser.add_argument("--mode", choices=[mode.value for mode in Mode if mode is not Mode.DISABLED])
    parser.add_argument("--lossless", action="store_true")
    parser.add_argument("--rules")
    given = parser.parse_args(list(arguments))
    settings = _settings()
    for problem in _use(settings.rules if given.rules is None else given.rules):
        print(f"penumbra: left out: {one_line(problem)}", file=sys.stderr)
    from penumbra.cli import rules_trial

    if sys.stdin.isatty():
        print("penumbra: reading the output from the terminal, up to Ctrl-D", file=sys.stderr)
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    mode = Mode(given.mode or (Mode.STANDARD if settings.mode is Mode.DISABLED else settings.mode))
    policy = rules_trial.policy_of(settings, mode, lossy=not given.lossless)
    for line in "\n".join(rules_trial.report(given.tool, given.line, text, policy)).split("\n"):
        # What a terminal would obey is shown, not done.
        print("\t".join(map(one_line, line.split("\t"))) if sys.stdout.isatty() else line)
    return 0


def _check(arguments: Sequence[str]) -> int:
    parser = _Parser(add_help=False, prog="penumbra rules check")
    parser.add_argument("folder", nargs="?")
    given = parser.parse_args(list(arguments))
    folder = _settings().rules if given.folder is None else given.folder
    wrong = [*(() if given.folder else _of_ours()), *_use(folder)]
    for problem in wrong:
        print(one_line(problem))
    if not wrong:
        place = given.folder or user_rules.folder_of(_settings().rules) or "no folder of yours"
        print(f"All is well: {'' if given.folder else 'our rules, and '}{place}.")
    return 1 if wrong else 0


def _settings() -> Any:
    from penumbra.config.settings import SettingsError, config_path, load

    try:
        return load({}, os.environ, config_path("", os.environ))
    except SettingsError as error:
        raise Failure(str(error), code=2) from None


def _use(setting: str) -> list[str]:
    try:
        return user_rules.use(user_rules.folder_of(setting))
    except RuleError as error:
        raise Failure(f"rules: {error}", code=2) from None


def _of_ours() -> Iterator[str]:
    """What is wrong with our own rules, in the order of their names."""
    from penumbra.rule_examples import failing

    user_rules.use(None)
    contents: dict[str, Any] = {}
    for path in sorted(Path(rules.directory()).rglob("*.yaml")):
        name = path.relative_to(rules.directory()).as_posix()
        try:
            content = rules.parse(path, name)
            told = list(problems(schema_of(name), content)) or list(broken_patterns(schema_of(name), content))
        except RuleError as error:
            yield str(error)
            continue
        yield from (f"{name}: {problem}" for problem in told)
        if not told:
            contents[name] = content
    yield from map(str, failing(contents))
