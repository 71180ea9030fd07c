"""`penumbra rules`: what the rules make of an output, and whether rules are right."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penumbra import rules, user_rules
from penumbra.cli.parser import Parser, action, piped_text, print_left_out, use_rules, word_of
from penumbra.cli.parser import settings as read_settings
from penumbra.compress.result import Mode
from penumbra.errors import one_line
from penumbra.rule_schemas import RuleError, schema_of
from penumbra.rule_schemas.schema import broken_patterns, problems

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


def main(arguments: Sequence[str]) -> int:
    """Prints what was asked for. Exit code 0, or 1 if rules are wrong."""
    asked, rest = action("rules", arguments, ("try", "check"))
    return (_check if asked == "check" else _try)(rest)


def _try(arguments: Sequence[str]) -> int:
    parser = Parser("rules try")
    parser.add_argument("line", nargs="?", default="")
    parser.add_argument("--tool", default="Bash")
    parser.add_argument("--mode", type=word_of(*(mode for mode in Mode if mode is not Mode.DISABLED)))
    parser.add_argument("--lossless", action="store_true")
    parser.add_argument("--rules")
    given = parser.read(arguments)
    settings = read_settings()
    print_left_out(use_rules(settings.rules if given.rules is None else given.rules))
    from penumbra.cli import rules_trial

    text = piped_text("output")
    mode = Mode(given.mode or (Mode.STANDARD if settings.mode is Mode.DISABLED else settings.mode))
    policy = rules_trial.policy_of(settings, mode, lossy=not given.lossless)
    for line in "\n".join(rules_trial.report(given.tool, given.line, text, policy)).split("\n"):
        # What a terminal would obey is shown, not done.
        print("\t".join(map(one_line, line.split("\t"))) if sys.stdout.isatty() else line)
    return 0


def _check(arguments: Sequence[str]) -> int:
    parser = Parser("rules check")
    parser.add_argument("folder", nargs="?")
    given = parser.read(arguments)
    folder = read_settings().rules if given.folder is None else given.folder
    if given.folder and Path(given.folder).resolve() == Path(rules.directory()).resolve():
        wrong = list(_of_ours())
    else:
        wrong = [*(() if given.folder else _of_ours()), *use_rules(folder)]
    for problem in wrong:
        print(one_line(problem))
    if not wrong:
        place = given.folder or user_rules.folder_of(read_settings().rules) or "no folder of yours"
        print(f"All is well: {'' if given.folder else 'our rules, and '}{place}.")
    return 1 if wrong else 0


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
