"""The rules in force: ours, a user's gitleaks.toml beside them, or the user's alone."""

from __future__ import annotations

from pathlib import Path

from penumbra.redaction import RuleError, gitleaks, rule
from penumbra.redaction.gitleaks import Loaded
from penumbra.redaction.rule import Rule


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
