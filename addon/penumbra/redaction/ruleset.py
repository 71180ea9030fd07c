"""The rules in force: ours, a user's gitleaks.toml beside them, or the user's alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from penumbra.redaction import RuleError, gitleaks, rule
from penumbra.redaction.allowed import Allowed
from penumbra.redaction.gitleaks import Loaded
from penumbra.redaction.names import Names
from penumbra.redaction.rule import Rule, read

_FINDERS = (
    *("cookie", "dotted-token", "encoded-secret", "kubernetes-secret", "login-list"),
    *(
        "lone-credential",
        "prefixed-token",
        "printed-credential",
        "printed-secret",
        "private-key",
        "user-list",
    ),
)
_BY_NAME = ("column", "member", "name", "record")
"""What code finds counts under these ids, behind a name's kind: `name-password`."""


def user_rules(path: str, *, only: bool) -> Loaded | None:
    """What the file holds; None without a path. `only`: its rules come instead of ours.

    Raises RuleError with one line, which names the setting.
    """
    if not path:
        if only:
            raise RuleError("penumbra_gitleaks_only: got True, allowed: only with penumbra_gitleaks_config")
        return None
    try:
        loaded = gitleaks.load(Path(path).expanduser().read_text(encoding="utf-8"), path)
    except OSError as error:
        raise RuleError(f"penumbra_gitleaks_config: got {path!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RuleError(f"penumbra_gitleaks_config: got {path!r}: not UTF-8 text") from None
    except RuleError as error:
        raise RuleError(f"penumbra_gitleaks_config: {error}".replace("\n", " ")) from None
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise RuleError(f"penumbra_gitleaks_config: {path}: a value of the wrong type") from None
    if only and not loaded.rules:
        raise RuleError(f"penumbra_gitleaks_config: {path}: no usable rule, and ours are switched off")
    return loaded


def rules(loaded: Loaded | None, *, only: bool) -> tuple[Rule, ...]:
    """All rules, given what `user_rules` read. Raises RuleError."""
    ours = rule.read()
    return tuple(gitleaks.merged(ours, loaded, instead=only)) if loaded is not None else ours


def allowed(entries: Iterable[str], in_force: Iterable[Rule]) -> Allowed:
    """What `penumbra_secrets_allow` leaves alone. Raises RuleError, in one line, where it names no rule."""
    entries = tuple(entries)
    made = Allowed.of(entries)
    if not made.rules:
        return made
    known = sorted({rule.id for rule in in_force} | _ids_of_finders())
    for said in made.rules:
        if not any(made.names(said, identifier) for identifier in known):
            near = get_close_matches(said, known, 1)
            hint = f", did you mean rule:{near[0]}?" if near else ""
            raise RuleError(
                f"penumbra_secrets_allow: got 'rule:{said}', allowed: the id of a rule, as "
                f"`penumbra secrets try` names it, globs allowed{hint}"
            )
    return made


def in_words(kind: str) -> str:
    """Return a kind of secret as people read it, such as `password (login at address)`."""
    found_by, _, rest = kind.partition("-")
    words = (rest if rest and found_by in _BY_NAME else kind).replace("-", " ")
    noun = _labels().get(kind, "").replace("-", " ")
    return f"{noun} ({words})" if noun and noun.split()[-1] not in words.split() else words


@cache
def _labels() -> Mapping[str, str]:
    return {rule.id: rule.label for rule in read()}


def _ids_of_finders() -> set[str]:
    labels = Names().labels()
    return {*_FINDERS, *(f"{place}-{label}" for place in _BY_NAME for label in labels)}
