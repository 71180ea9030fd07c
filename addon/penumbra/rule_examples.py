"""Runs the examples in rule files by the rules in force: of commands, secrets, tools and providers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penumbra.apis import recognise
from penumbra.compress.calls.classify import classify
from penumbra.compress.families import examples as command_examples
from penumbra.redaction import rule as secret_rule
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.rule_schemas.command_rules import CommandFile
from penumbra.rule_schemas.providers import Providers, RequestExample
from penumbra.rule_schemas.schema import convert
from penumbra.rule_schemas.secret_rules import SecretFile, SecretRule
from penumbra.rule_schemas.tool_rules import Tools
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

_KEY = b"examples"
_SPLIT = "¦"
"""Parts a secret, so that no file holds a whole one."""
_MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)


class Failure(NamedTuple):
    """An example that does not hold."""

    file: str
    rule: str
    """The family or the secret's id; empty in files of another kind."""
    problem: str
    """Which example, and what came out."""

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}: {self.problem}" if self.rule else f"{self.file}: {self.problem}"


def failing(contents: Mapping[str, Any]) -> Iterator[Failure]:
    """The examples in files (content by name, as their schemas allow) that do not hold."""
    for name, content in contents.items():
        if name.startswith("commands/"):
            yield from _commands(name, convert(CommandFile, content, name))
        elif name == "tools.yaml":
            yield from _tools(convert(Tools, content, name))
        elif name == "providers.yaml":
            yield from _providers(convert(Providers, content, name).examples)
    secrets = {name: content for name, content in contents.items() if name.rpartition("/")[0] == "secrets"}
    if secrets:
        yield from _secrets(secrets)


def _commands(name: str, file: CommandFile) -> Iterator[Failure]:
    for line, family in file.calls.items():
        got = command_examples.call_of(line).family
        if got != (family or ""):
            problem = f"calls: {line!r} falls to {got or 'no family'}, the file says {family or 'to none'}"
            yield Failure(name, family or "", problem)
    for number, example in enumerate(file.examples):
        for problem in command_examples.problems(example):
            yield Failure(name, example.family, f"examples[{number}].{problem}")


def _secrets(contents: Mapping[str, Any]) -> Iterator[Failure]:
    together = Redactor(_KEY)
    for name, content in contents.items():
        file = convert(SecretFile, content, name)
        for rule in file.rules:
            alone = Redactor(_KEY, [secret_rule.of(rule, file.label)])
            for problem in _of_secret(rule, together, alone):
                yield Failure(name, rule.id, problem)


def _tools(file: Tools) -> Iterator[Failure]:
    for number, example in enumerate(file.examples):
        got = classify(example.tool, example.arguments).category
        if got != example.category:
            problem = f"examples[{number}]: {example.tool} is {got}, the example says {example.category}"
            yield Failure("tools.yaml", "", problem)


def _providers(examples: Iterable[RequestExample]) -> Iterator[Failure]:
    for number, example in enumerate(examples):
        got = _recognised(example)
        if got != example.api:
            problem = f"examples[{number}].is: got {got or 'null'}, the example says {example.api or 'null'}"
            yield Failure("providers.yaml", "", problem)


def _recognised(example: RequestExample) -> str | None:
    """The API that a request is taken for."""
    if not recognise.is_llm_host(example.host):
        return None
    api = recognise.by_request_line(example.method, example.path)
    try:
        return api.id if api is not None and api.fits(Document(example.body.encode())) else None
    except NotJson:
        return None


def plain(example: str) -> str:
    """The text of an example, without its marks."""
    return example.replace(_SPLIT, "").replace("⟦", "").replace("⟧", "")


def _of_secret(rule: SecretRule, redactor: Redactor, alone: Redactor) -> Iterator[str]:
    """One line, which begins with the key, for each example that does not hold.

    `redactor` works by all rules, `alone` by this one.
    """
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
