"""This module reads the user's own rules, from a folder with the same files as Penumbra's.

    commands/*.yaml  secrets/*.yaml  tools.yaml  providers.yaml  shell.yaml

A user's rule replaces Penumbra's rule of the same name. Other entries of a file come before Penumbra's.
Everything is checked: keys and values by the schemas, patterns by RE2, and examples by a run. A command or
secret rule with an error is left out. Other files with an error are left out. Each error gives one line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from penumbra import rules
from penumbra.apis import recognise
from penumbra.compress.calls.classify import classify
from penumbra.compress.families import examples as command_examples
from penumbra.redaction import rule as secret_rule
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.rule_schemas import RuleError, schema_of
from penumbra.rule_schemas.command_rules import CommandExample, CommandFile, FamilyRule
from penumbra.rule_schemas.providers import Providers, RequestExample
from penumbra.rule_schemas.schema import broken_patterns, convert, problems
from penumbra.rule_schemas.secret_rules import SecretFile, SecretRule
from penumbra.rule_schemas.tool_rules import ToolRules
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

KEYS: Mapping[str, tuple[str, ...]] = {
    "tools.yaml": (
        *("agents", "mcp_prefixes", "mcp", "verbs", "families", "synonyms", "arguments", "examples"),
    ),
    "providers.yaml": ("apis", "providers", "local", "errors", "examples"),
    "shell.yaml": (
        *("names", "versioned", "wrappers", "options", "silent", "brief", "edits", "echoes"),
        *("each_line", "filters", "reads", "read_values"),
    ),
}
"""Names of files that are merged with Penumbra's, and the keys that each file may have."""
_FOLDERS = ("commands", "secrets")
NONE = "off"
"""The value of the setting for no folder at all."""


def folder_of(setting: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder that a setting names. For an empty setting, return the folder in the user's
    configuration folder; None if there is no such folder. Raises RuleError for a folder that does not
    exist."""
    if setting == NONE:
        return None
    if setting:
        folder = Path(os.path.expanduser(setting))
        if not folder.is_dir():
            raise RuleError(f"got {setting!r}, allowed: a folder of rules, or {NONE}")
        return folder
    configuration = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    folder = Path(configuration) / "penumbra" / "rules"
    return folder if folder.is_dir() else None


def use(folder: Path | None) -> list[str]:
    """Use Penumbra's rules and the rules of this folder, instead of an earlier folder. With None, use only
    Penumbra's. Return one line for each part that was left out. Caches of values derived from rules are
    emptied. A `Redactor` keeps the rules that it was made with."""
    if folder is None:
        rules.add({})
        return []

    read = read_folder(folder)
    rules.add(read.contents)
    for _ in range(_ROUNDS):
        failures = list(failing(read.contents))
        for failure in failures:
            read.problems.append(str(failure))
            _leave_out(read.contents, failure.file, failure.rule)
        if not failures:
            break
        rules.add(read.contents)
    return [f"{folder}/{problem}" for problem in read.problems]


_ROUNDS = 5
"""The greatest number of times that the examples are run. A run leaves out the rules that failed before, so
rules that need a failed rule can fail in the next run."""


def _leave_out(contents: dict[str, Any], file: str, rule: str) -> None:
    """Remove a rule and its examples from a file, or the whole file if the file has no named rules."""
    content = contents.get(file, {})
    for key, named_by in (("families", "name"), ("rules", "id"), ("examples", "family")):
        if key in content and rule:
            content[key] = [entry for entry in content[key] if entry.get(named_by) != rule]
    if "calls" in content:
        calls = content["calls"].items()
        content["calls"] = {line: family for line, family in calls if (family or "") != rule}
    if file in KEYS:
        contents.pop(file, None)


@dataclass(slots=True)
class UserRules:
    contents: dict[str, Any] = field(default_factory=dict)
    """The valid part of each file, by the name of the file."""
    problems: list[str] = field(default_factory=list)
    """A line with file, rule, key and reason for each part that is left out."""


def read_folder(folder: Path) -> UserRules:
    """Return the content of a folder without running its examples. Wrong content raises no error."""
    read = UserRules()
    for path in sorted((*folder.rglob("*.yaml"), *folder.rglob("*.yml"))):
        name = path.relative_to(folder).as_posix()
        parent = name.rpartition("/")[0]
        if name not in KEYS and not (parent in _FOLDERS and name.endswith(".yaml")):
            allowed = ", ".join((*(f"{kind}/*.yaml" for kind in _FOLDERS), *KEYS))
            read.problems.append(f"{name}: no file of this name is read, allowed: {allowed}")
            continue
        try:
            content = rules.parse(path, name)
        except RuleError as error:
            read.problems.append(str(error))
            continue
        if parent in _FOLDERS:
            _add_rules(read, parent, name, content)
        elif content is not None:
            _add_joined(read, name, content)
    return read


def _add_joined(read: UserRules, name: str, content: Any) -> None:
    """Add a file that is merged with Penumbra's, if it has no error."""
    wrong = list(problems(schema_of(name), content))
    if not wrong:
        wrong = list(broken_patterns(schema_of(name), content))
        allowed = ", ".join(KEYS[name])
        wrong += [f"{key}: not read here, allowed: {allowed}" for key in content if key not in KEYS[name]]
        wrong += list(_unknown_formats(content)) if name == "providers.yaml" else []
    read.problems += [f"{name}: {problem}" for problem in wrong]
    if not wrong:
        read.contents[name] = content


def _unknown_formats(content: Mapping[str, Any]) -> Iterator[str]:
    from penumbra.apis.formats import REQUESTS

    named = [(f"apis.{name}.format", api["format"]) for name, api in content.get("apis", {}).items()]
    named += [(f"errors.{name}", shape) for name, shape in content.get("errors", {}).items()]
    for key, value in named:
        if value not in REQUESTS:
            yield f"{key}: got {value!r}, allowed: {', '.join(REQUESTS)}"


def _add_rules(read: UserRules, kind: str, name: str, content: Any) -> None:
    """Add the rules of a file that have no error."""
    whole, entry, key, named_by = (
        (CommandFile, FamilyRule, "families", "name")
        if kind == "commands"
        else (SecretFile, SecretRule, "rules", "id")
    )
    lists = (key, "examples")
    if not isinstance(content, dict) or not all(isinstance(content.get(part, []), list) for part in lists):
        read.problems.append(f"{name}: got something else, allowed: a mapping with a list {key}")
        return
    frame = {**content, **{part: [] for part in lists if part in content}}
    wrong = [f"{name}: {problem}" for problem in problems(whole, frame)]
    # The file of each rule that is used, by the rule's name.
    places = {
        rule[named_by]: file
        for file, other in read.contents.items()
        if file.startswith(f"{kind}/")
        for rule in other[key]
    }
    good: list[Any] = []
    left_out: set[str] = set()
    for rule in content.get(key, ()):
        title = str(rule.get(named_by, "?")) if isinstance(rule, dict) else "?"
        found = list(problems(entry, rule)) or list(broken_patterns(entry, rule))
        found = found or list(_unusable(rule, str(content.get("label", ""))))
        if not found and title in places:
            found = [f"{named_by}: {title} is defined in {places[title]} already"]
        wrong += [f"{name}: {title}: {problem}" for problem in found]
        if found:
            left_out.add(title)
            continue
        good.append(rule)
        places[title] = name
    used = {**content, key: good}
    if "examples" in content:
        used["examples"] = []
        for number, example in enumerate(content["examples"]):
            found = list(problems(CommandExample, example))
            wrong += [f"{name}: examples[{number}].{problem}" for problem in found]
            used["examples"] += [] if found else [example]
    read.problems += wrong
    if not list(problems(whole, frame)):
        read.contents[name] = used
        for title in left_out - places.keys():
            # The examples of a rule that was left out would fail, too.
            _leave_out(read.contents, name, title)


def _unusable(entry: Mapping[str, Any], label: str) -> Iterator[str]:
    """Yield problems that the schema can't find: groups that are missing in a pattern, or a missing label."""
    from penumbra.compress.families.family import Family
    from penumbra.compress.families.patterns import LinearPattern
    from penumbra.redaction import rule as secret_rule

    if "regex" in entry:
        rule = secret_rule.of(convert(SecretRule, entry, ""), label)
        if not rule.label:
            yield "label: missing, allowed: a text, here or at the top of the file"
        if rule.group > rule.pattern.groups:
            yield f"group: got {rule.group}, allowed: a group of the pattern, which has {rule.pattern.groups}"
        return
    try:
        Family.of(convert(FamilyRule, entry, ""), LinearPattern)
    except ValueError as error:
        yield str(error)


# The examples in rule files are run with the current rules.
_KEY = b"examples"
_SPLIT = "¦"
"""A mark that is written within each secret of an example, so that no file contains a whole secret."""
_MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)


class FailedExample(NamedTuple):
    """A `FailedExample` is an example with another result than the expected one."""

    file: str
    rule: str
    """The name of a command family or the id of a secret's rule; empty if there is none."""
    problem: str
    """A text with the example and its actual result."""

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}: {self.problem}" if self.rule else f"{self.file}: {self.problem}"


def failing(contents: Mapping[str, Any]) -> Iterator[FailedExample]:
    """Yield the examples that fail. `contents` has the valid contents of files by name."""
    for name, content in contents.items():
        if name.startswith("commands/"):
            yield from _commands(name, convert(CommandFile, content, name))
        elif name == "tools.yaml":
            yield from _tools(convert(ToolRules, content, name))
        elif name == "providers.yaml":
            yield from _providers(convert(Providers, content, name).examples)
    secrets = {name: content for name, content in contents.items() if name.rpartition("/")[0] == "secrets"}
    if secrets:
        yield from _secrets(secrets)


def _commands(name: str, file: CommandFile) -> Iterator[FailedExample]:
    for line, family in file.calls.items():
        got = command_examples.call_of(line).family
        if got != (family or ""):
            problem = f"calls: {line!r} falls to {got or 'no family'}, the file says {family or 'to none'}"
            yield FailedExample(name, family or "", problem)
    for number, example in enumerate(file.examples):
        for problem in command_examples.problems(example):
            yield FailedExample(name, example.family, f"examples[{number}].{problem}")


def _secrets(contents: Mapping[str, Any]) -> Iterator[FailedExample]:
    together = Redactor(_KEY)
    for name, content in contents.items():
        file = convert(SecretFile, content, name)
        for rule in file.rules:
            alone = Redactor(_KEY, [secret_rule.of(rule, file.label)])
            for problem in _of_secret(rule, together, alone):
                yield FailedExample(name, rule.id, problem)


def _tools(file: ToolRules) -> Iterator[FailedExample]:
    for number, example in enumerate(file.examples):
        got = classify(example.tool, example.arguments).category
        if got != example.category:
            problem = f"examples[{number}]: {example.tool} is {got}, the example says {example.category}"
            yield FailedExample("tools.yaml", "", problem)


def _providers(examples: Iterable[RequestExample]) -> Iterator[FailedExample]:
    for number, example in enumerate(examples):
        got = _recognised(example)
        if got != example.api:
            problem = f"examples[{number}].is: got {got or 'null'}, the example says {example.api or 'null'}"
            yield FailedExample("providers.yaml", "", problem)


def _recognised(example: RequestExample) -> str | None:
    if not recognise.is_llm_host(example.host):
        return None
    api = recognise.by_request_line(example.method, example.path)
    try:
        return api.id if api is not None and api.fits(Document(example.body.encode())) else None
    except NotJson:
        return None


def plain(example: str) -> str:
    """Return the text of an example, without its marks."""
    return example.replace(_SPLIT, "").replace("⟦", "").replace("⟧", "")


def _of_secret(rule: SecretRule, redactor: Redactor, alone: Redactor) -> Iterator[str]:
    """Yield a line, which begins with the key, for each example that fails. `redactor` uses all rules,
    `alone` only this rule."""
    for number, example in enumerate(rule.examples.match):
        key = f"examples.match[{number}]"
        redacted = redactor.redact(plain(example)).text
        wanted = _MARKED.sub("⟦⟧", example.replace(_SPLIT, ""))
        if not _MARKED.search(example):
            yield f"{key}: nothing in it is marked by ⟦ ⟧"
        elif PATTERN.sub("⟦⟧", redacted) != wanted:
            yield f"{key}: got {PATTERN.sub('⟦⟧', redacted)!r}, the example says {wanted!r}"
        elif not alone.redact(plain(example)).counts.get(rule.id):
            yield f"{key}: another rule takes it out, this one does not"
    for number, example in enumerate(rule.examples.no_match):
        redacted = redactor.redact(plain(example)).text
        if redacted != plain(example):
            yield f"examples.no_match[{number}]: got {redacted!r}, the example says that it stays"
