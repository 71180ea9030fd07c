"""`penumbra rules` tries rules on the output of a command, and checks rule files."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from penumbra import rules, user_rules
from penumbra.cli.command import Parser, action, piped_text, print_left_out, use_rules, word_of
from penumbra.cli.command import settings as read_settings
from penumbra.compress import pipeline
from penumbra.compress.calls.classify import Call, classify, printing_parts
from penumbra.compress.calls.command_match import family_of
from penumbra.compress.calls.envelope import Envelope
from penumbra.compress.calls.family_rules import families
from penumbra.compress.calls.tools import hint, tool_rules
from penumbra.compress.families import shorten as family_steps
from penumbra.compress.families.family import family
from penumbra.compress.result import Loss, Mode, Policy, ToolOutput
from penumbra.compress.size import line_count, size
from penumbra.compress.stage import Trial
from penumbra.compress.token_estimate import estimate
from penumbra.config.settings import Settings
from penumbra.errors import one_line
from penumbra.expand import reference
from penumbra.redaction import default
from penumbra.rule_schemas import RuleError, has_schema, schema_of
from penumbra.rule_schemas.schema import broken_patterns, problems

_LOOKS = ("command_family", "all others")
"""The names of stages whose input is also the input of a command family."""
_LOST = {
    Loss.NONE: "nothing was lost",
    Loss.REVERSIBLE: "the text itself says how to restore it",
    Loss.LOSSY: "something was left out",
}


def policy_of(settings: Settings, mode: Mode, *, lossy: bool) -> Policy:
    """Return the policy that follows from the settings. With `lossy`, lines may be left out."""
    return Policy(
        mode=mode,
        lossy=lossy,
        min_bytes=settings.min_bytes,
        max_output_bytes=settings.max_output_bytes,
        target_ratio=settings.target_ratio,
        overhead=f"<<<SHADOW:{reference.SAMPLE}>>>\n" if lossy else "",
    )


def report(tool: str, line: str, text: str, policy: Policy) -> Iterator[str]:
    arguments = {tool_rules().arguments.command[0]: line}
    call = classify(tool, arguments)
    trials: list[Trial] = []
    output = ToolOutput(text, tool, arguments, "call")
    # The proxy searches with the same hint, which it derives from the call.
    redact = partial(default().redact, hint=hint(arguments))
    result = pipeline.shorten(output, policy, redact, lambda _: reference.SAMPLE, trace=trials.append)
    left_out = "may be left out" if policy.lossy else "may not be left out"
    yield from _labelled("call", f"{tool}: {line}" if line else tool)
    yield from _labelled("category", call.category)
    # A command family gets the text without terminal control sequences.
    seen = next((trial.before for trial in trials if trial.stage in _LOOKS), result.original)
    yield from _labelled("family", _family(call, Envelope.of(seen).body))
    yield from _labelled("text", f"{_measure(text)}, {line_count(text):,} lines")
    yield from _labelled("mode", f"{policy.mode}; lines {left_out}")
    yield ""
    yield from _stages(trials)
    yield ""
    share = f"{100 * size(result.text) / max(1, size(text)):.0f}% of it"
    yield from _labelled("result", f"{_measure(result.text)}, {share}; {_LOST[result.loss]}")
    yield ""
    yield result.text.removesuffix("\n")
    if call.family in families():
        yield ""
        yield from _labelled("", "An example for the rule's file, without secrets; read it first:")
        yield ""
        yield _example(line or tool, call, seen, lossy=policy.lossy)
    elif call.command and not call.mixed and not any(part.read for part in call.parts):
        yield ""
        yield from _labelled("", "A family to begin with, as docs/rules.md describes it:")
        yield ""
        yield _beginning(line, call, seen)


def _width() -> int:
    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 140))


def _labelled(label: str, words: str) -> list[str]:
    indent = f"{label:<10}" if label else ""
    return textwrap.wrap(
        one_line(words),
        _width(),
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_on_hyphens=False,
    ) or [label]


def _measure(text: str) -> str:
    return f"{size(text):,} bytes, about {estimate(text):,} tokens"


def _family(call: Call, body: str) -> str:
    """Return the family's name, and the reason if the family does nothing."""
    named = families().get(call.family)
    if named is None:
        return f"none: {_why_none(call)}"
    whose = "yours" if named.is_users else "ours"
    chosen = family(call.family)
    objection = "its rule can't be used" if chosen is None else chosen.objection(body)
    if not objection and call.selected and not named.rule.selected:
        objection = "its lines passed a filter, and the rule does not say `selected`"
    if not objection and not named.rule.steps:
        objection = "it has no steps"
    if not objection:
        return f"{call.family} ({whose})"
    others = f"; tried by their shape: {', '.join(named.rule.fallback)}" if named.rule.fallback else ""
    return f"{call.family} ({whose}), which does nothing here: {objection}{others}"


def _why_none(call: Call) -> str:
    printing = printing_parts(call.parts)
    if any(part.read for part in printing):
        return "the command shows a file, which the model may quote later"
    if call.mixed:
        names = [family_of(part.argv) or "none" for part in printing]
        return f"commands of several families printed it ({', '.join(names)})"
    if call.command:
        return f"no rule matches `{' '.join(call.command)[:200]}`"
    return "the call runs no command that prints something"


def _stages(trials: list[Trial]) -> Iterator[str]:
    """Yield the outcome of each stage, in order. Stages without effect come last, grouped by reason."""
    idle: dict[str, list[str]] = {}
    for trial in trials:
        if trial.after is None:
            names = idle.setdefault(trial.reason, [])
            names += [trial.stage] if trial.stage not in names else []
            continue
        metrics = (
            f"{size(trial.before):,} → {size(trial.after):,} bytes, "
            f"{estimate(trial.before):,} → {estimate(trial.after):,} tokens"
        )
        verdict = f"not kept: {trial.reason}" if trial.reason else "kept"
        row = f"{trial.stage:<17} {metrics}: {verdict}"
        yield from textwrap.wrap(row, _width(), subsequent_indent=" " * 4, drop_whitespace=True)
    for reason, names in idle.items():
        yield from textwrap.wrap(f"{reason}: {', '.join(names)}", _width(), subsequent_indent=" " * 4)


def _example(call_line: str, call: Call, text: str, *, lossy: bool) -> str:
    """Return YAML for the list `examples` in a file of command rules."""
    shortened = family_steps.apply(text, call, lossy=lossy)
    example: dict[str, Any] = {"family": call.family, "call": call_line}
    if lossy:
        example["lossy"] = True
    if shortened is not None:
        example["loss"] = shortened.loss.name.lower()
        if shortened.family != call.family:
            example["as"] = shortened.family
    example["text"] = text
    example["gives"] = None if shortened is None else shortened.text
    return textwrap.indent(as_yaml([example]), "  ")


def _beginning(line: str, call: Call, text: str) -> str:
    """Return YAML for a new file of command rules. The family in it matches the command and has no steps."""
    program, *words = call.command
    operands = [word for word in words if not word.startswith("-")][:1]
    match = [program, *(word for word in operands if re.fullmatch(r"[a-z][a-z-]{1,20}", word))]
    families = [{"name": program, "what": "One sentence about it.", "match": [" ".join(match)], "steps": []}]
    example = {"family": program, "call": line, "lossy": True, "text": text, "gives": None}
    return as_yaml({"families": families, "examples": [example]})


class _Dumper(yaml.SafeDumper):
    """A `_Dumper` writes texts of several lines as YAML blocks, if YAML can represent them as blocks."""

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        # PyYAML would quote texts with tabs and trailing blanks, which are frequent in outputs of commands.
        analysis.allow_block = "\n" in scalar and all(sign in "\n\t" or sign.isprintable() for sign in scalar)
        return analysis


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=None if text.isprintable() else "|"
    ),
)


def as_yaml(value: Any) -> str:
    """Return a part of a rule file as YAML. The order of keys stays."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100_000)


USAGE = """\
usage: penumbra rules try [COMMAND LINE] [--tool NAME] [--mode MODE] [--lossless] [--rules FOLDER] < output
       penumbra rules check [FOLDER]

  try     print the family of a command's output, the effect of each stage, the result, and an
          example for the rule's file
  check   test rules against their schemas and examples: Penumbra's and those of your folder, or
          those of FOLDER; exit code 0 if all is well, 1 if not

  --tool NAME      the tool that was called (default: Bash)
  --mode MODE      safe, standard or aggressive (default: as set)
  --lossless       leave nothing out, as for a model that can't ask for the original
  --rules FOLDER   use this folder of rules instead of yours

Example:
  bazel test //... 2>&1 | penumbra rules try 'bazel test //...'
"""


def main(arguments: Sequence[str]) -> int:
    """Run the action and return the exit code. `check` returns 1 if a rule is wrong."""
    asked, rest = action("rules", arguments, ("try", "check"))
    return (_check if asked == "check" else _try)(rest)


def _try(arguments: Sequence[str]) -> int:
    parser = Parser("rules try")
    parser.add_argument("line", nargs="?", default="")
    parser.add_argument("--tool", default="Bash")
    parser.add_argument("--mode", type=word_of(*(mode for mode in Mode if mode is not Mode.DISABLED)))
    parser.add_argument("--lossless", action="store_true")
    parser.add_argument("--rules")
    options = parser.read(arguments)
    settings = read_settings()
    print_left_out(use_rules(settings.rules if options.rules is None else options.rules))

    text = piped_text("output")
    mode = Mode(options.mode or (Mode.STANDARD if settings.mode is Mode.DISABLED else settings.mode))
    policy = policy_of(settings, mode, lossy=not options.lossless)
    for line in "\n".join(report(options.tool, options.line, text, policy)).split("\n"):
        # Terminal control sequences are shown as text and have no effect.
        print("\t".join(map(one_line, line.split("\t"))) if sys.stdout.isatty() else line)
    return 0


def _check(arguments: Sequence[str]) -> int:
    parser = Parser("rules check")
    parser.add_argument("folder", nargs="?")
    options = parser.read(arguments)
    folder = read_settings().rules if options.folder is None else options.folder
    if options.folder and Path(options.folder).resolve() == Path(rules.directory()).resolve():
        wrong = list(_of_ours())
    else:
        wrong = [*(() if options.folder else _of_ours()), *use_rules(folder)]
    for problem in wrong:
        print(one_line(problem))
    if not wrong:
        place = options.folder or user_rules.folder_of(read_settings().rules) or "no folder of yours"
        print(f"All is well: {'' if options.folder else 'our rules, and '}{place}.")
    return 1 if wrong else 0


def _of_ours() -> Iterator[str]:
    """Yield the problems of Penumbra's own rules, in the order of file names."""
    from penumbra.user_rules import failing

    user_rules.use(None)
    contents: dict[str, Any] = {}
    for path in sorted(Path(rules.directory()).rglob("*.yaml")):
        name = path.relative_to(rules.directory()).as_posix()
        try:
            content = rules.parse(path, name)
            kind = schema_of(name) if has_schema(name) else None
            found = (
                [] if kind is None else list(problems(kind, content)) or list(broken_patterns(kind, content))
            )
        except RuleError as error:
            yield str(error)
            continue
        yield from (f"{name}: {problem}" for problem in found)
        if not found:
            contents[name] = content
    yield from map(str, failing(contents))
