"""`penumbra secrets` shows which parts of a text would be replaced, by which rules, and why."""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from penumbra import rules
from penumbra.cli.command import Failure, Parser, action, piped_text, print_left_out, secret_rules, use_rules
from penumbra.cli.command import settings as read_settings
from penumbra.config.settings import Settings, database_path, shared_place
from penumbra.errors import counted, one_line
from penumbra.redaction import RedactionError, placeholder
from penumbra.redaction.redactor import Redactor, Scan
from penumbra.redaction.rule import Rule
from penumbra.redaction.span import Rank
from penumbra.rule_schemas.schema import entries
from penumbra.rule_schemas.secret_rules import SecretRule
from penumbra.store.key_file import existing_key

USAGE = """\
usage: penumbra secrets try [--from PATH OR COMMAND LINE] [--text] < text

  try     print what would be replaced in a text, by which rule and why; exit code 0

  --from   the path or the command line of the text, which may show what kind of text it is
  --text   print only the redacted text

Settings, rules of your own and penumbra_secrets_allow count as in the proxy.

Example:
  cat .env | penumbra secrets try --from .env
"""
_WHY = {
    "name": "follows a telling name",
    "column": "is in a column with a telling head",
    "prefixed": "a short prefix and a long random tail",
    "lone": "a random line of its own, where secrets are kept",
    "printed": "printed by a command that prints a secret",
}
"""Reasons for secrets that no rule file describes, by the first word of the rule's id."""


def main(arguments: Sequence[str]) -> int:
    """Print the replacements and return 0. Raises Failure."""
    _, rest = action("secrets", arguments, ("try",))
    parser = Parser("secrets try")
    parser.add_argument("--from", dest="hint", default="", metavar="PATH OR COMMAND LINE")
    parser.add_argument("--text", action="store_true")
    options = parser.read(rest)
    settings = read_settings()
    key = _key(settings)
    redactor, known = _redactor(settings, key or secrets.token_bytes(32))
    text = piped_text("text")
    try:
        scan = redactor.scan(text, options.hint)
    except RedactionError as error:
        raise Failure(f"secrets: {error}") from None
    if options.text:
        sys.stdout.write(scan.text)
        return 0
    for line in _report(scan, known, _files(), is_lasting=key is not None):
        print(one_line(line))
    return 0


def _key(settings: Settings) -> bytes | None:
    """Return the proxy's key; None if there is none yet. This command never makes a key."""
    shared = shared_place(settings)
    path = database_path(settings)
    return shared.installation_key() if shared else existing_key(path.with_suffix(".key") if path else None)


def _redactor(settings: Settings, key: bytes) -> tuple[Redactor, Mapping[str, Rule]]:
    """Return a redactor like the proxy's, and the rules by id. Raises Failure."""
    print_left_out(use_rules(settings.rules))
    in_force, allowed = secret_rules(settings)
    redactor = Redactor(key, in_force, limit=settings.redaction_max_bytes, allowed=allowed)
    return redactor, {rule.id: rule for rule in in_force}


def _files() -> dict[str, str]:
    """Return the file of each rule, by the rule's id. If two files have the rule, the first file counts."""
    files: dict[str, str] = {}
    for file in rules.load_folder("secrets"):
        listed, _ = entries(SecretRule, file.content, "rules", "id", file.name)
        name = f"{file.name}, of your folder" if file.is_users else f"rules/{file.name}"
        for rule in listed:
            files.setdefault(rule.id, name)
    return files


def _report(
    scan: Scan, known: Mapping[str, Rule], files: Mapping[str, str], *, is_lasting: bool
) -> Iterator[str]:
    """Yield one line for each placeholder, with its place in the redacted text and without the secret.
    `is_lasting` is true if a proxy makes the same placeholders."""
    counts: Counter[str] = Counter()
    for number, line in enumerate(scan.text.split("\n"), 1):
        for match in placeholder.PATTERN.finditer(line):
            rule = scan.rules.get(match[0])
            if rule is None:
                continue  # The text already contained this placeholder.
            counts[rule] += 1
            size = len(scan.values[match[0]])
            yield f"line {number}: {match[0]} for {size:,} characters, by {rule}: {_why(rule, known)}" + (
                f" ({files[rule]})" if rule in files else ""
            )
    if not counts:
        yield "Nothing would be replaced."
        return
    by_rule = ", ".join(f"{rule} {count:,}" for rule, count in sorted(counts.items()))
    yield f"{counted(counts.total(), 'secret')}: {by_rule}"
    by_id = "id:… (the end of its placeholder), " if is_lasting else ""
    yield f"To leave one alone: penumbra_secrets_allow={by_id}rule:… or path:…, as in docs/options.md"
    if not is_lasting:
        yield "The ends of placeholders are this trial's own: they last once a proxy has made its key."


def _why(identifier: str, known: Mapping[str, Rule]) -> str:
    rule = known.get(identifier)
    if rule is None:
        return _WHY.get(identifier.split("-")[0], "is at a place for secrets")
    if rule.rank is Rank.TOKEN:
        return "has this form"
    return "is at a place for it"
