"""Schema of the files of `rules/secrets`, which describe the forms of secrets and the words beside them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from penumbra.rule_schemas.schema import Regex, Size, Strict

Anchor = Annotated[str, Meta(min_length=3)]


class SecretExamples(Strict, frozen=True):
    """Texts with and without secrets. `¦` is removed first, so that no file contains a whole secret."""

    match: tuple[str, ...] = ()
    """Texts in which the part in `⟦ ⟧` must be replaced, and nothing else."""
    no_match: tuple[str, ...] = ()
    """Texts in which nothing may be replaced."""


class SecretRule(Strict, frozen=True):
    """One form of secret."""

    id: str
    """Unique; a rule of this id in the user's folder replaces Penumbra's."""
    regex: Regex
    """The secret, or, with a group for the secret, its surroundings. `{LINE}` in it matches the end of a line
    with the prefix that tools put before the next line (numbers, times, signs of a diff); a pattern with it
    begins at an anchor or says `before`."""
    anchors: tuple[Anchor, ...] = ()
    """Texts of which every match contains one (any case, three characters at least): the pattern is tried
    only there. Without them it is tried on the whole text."""
    label: Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,39}$")] | None = None
    """Kind of secret, as the placeholder names it; without it, the file's."""
    beside: tuple[Anchor, ...] = ()
    """Instead of anchors, for secrets without a prefix: parts (any case) of a name of a key, token or the
    like before the secret: `ACME_API_KEY=…`."""
    kind: Literal["token", "structure"] = "token"
    """`token`: the value alone shows that it is a secret; `structure`: its surroundings do."""
    group: Size | None = None
    """The group that holds the secret; 0: the whole match. Without it, the first group if there is one."""
    before: Size = 0
    """Bytes before an anchor where the match may begin; 0: at the anchor."""
    window: Size = 600
    """Bytes from the anchor's beginning on that the match may use."""
    least: Size | None = None
    """No effect; accepted because older rules have it."""
    boundary: bool = True
    """True if the secret must not begin or end within a word."""
    exact: bool = False
    """True if no character of the secret's alphabet follows it."""
    mixed: bool = False
    """True if the secret holds capitals, small letters and digits."""
    sure: bool = True
    """True if the value is replaced in all other places, too."""
    entropy: Annotated[float, Meta(ge=0)] = 0.0
    """Least Shannon entropy, bits per character."""
    digits: Size = 0
    """Least number of digits."""
    value: Literal["password", "told", "opaque", "certain", "given", "login", "basic"] | None = None
    """A further test of the value: `password`, `told` (a password within a sentence), `opaque` (random),
    `certain` (too random to be anything else), `given` (no placeholder or reference), `login` (`given`, and
    not the user's name repeated on this machine: `guest:guest@localhost`), `basic` (base64 of
    `user:password`)."""
    checksum: Literal["crc32-base62"] | None = None
    """A match with a right checksum is a secret in any surroundings, and ends there. `crc32-base62`: the last
    six of the 36 characters after the prefix's `_` are the checksum of the others."""
    examples: SecretExamples = field(default_factory=SecretExamples)
    """The tests of the rule."""


class SecretFile(Strict, frozen=True):
    """A file of `rules/secrets`."""

    rules: tuple[SecretRule, ...]
    """The rules."""
    label: str = ""
    """Label of the rules that name none."""
