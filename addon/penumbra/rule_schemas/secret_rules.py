"""Schema of the files of `rules/secrets`, which describe forms of secrets and the words beside secrets."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from penumbra.rule_schemas.schema import Regex, Size, Strict

Anchor = Annotated[str, Meta(min_length=3)]


class SecretExamples(Strict, frozen=True):
    """A `SecretExamples` has texts with and without secrets. The sign `¦` within each secret is removed
    before the test, so that no file contains a whole secret."""

    match: tuple[str, ...] = ()
    """Texts in which the part in `⟦ ⟧` must be replaced, and nothing else."""
    no_match: tuple[str, ...] = ()
    """Texts in which nothing may be replaced."""


class SecretRule(Strict, frozen=True):
    """A kind of secret that a pattern recognises."""

    id: str
    """A unique id. A rule in the user's folder replaces Penumbra's rule with the same id."""
    regex: Regex
    """A pattern for the secret. If the pattern also matches text around the secret, a group marks the secret.
    `{LINE}` matches the end of a line and the prefix that tools write before the next line (numbers, times,
    signs of a diff). A pattern with `{LINE}` must begin at an anchor or have `before`."""
    anchors: tuple[Anchor, ...] = ()
    """Texts of at least three characters. Upper and lower case are not distinguished. Every match contains an
    anchor, and the pattern is tried only around anchors. Without anchors, the pattern searches the whole
    text."""
    label: Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,39}$")] | None = None
    """The kind of secret that placeholders name; by default the label of the file."""
    beside: tuple[Anchor, ...] = ()
    """For secrets that begin with no known prefix: parts of their names, such as `acme` for `ACME_API_KEY=…`,
    in upper or lower case. The name must also contain a word such as key or token. A rule with `beside` needs
    no anchors."""
    kind: Literal["token", "structure"] = "token"
    """`token` if the value shows that it is a secret, `structure` if only its surroundings show it."""
    group: Size | None = None
    """The number of the group that marks the secret, or 0 for the whole match. By default the first group, if
    there is one."""
    before: Size = 0
    """The greatest number of bytes between the beginning of a match and its anchor."""
    window: Size = 600
    """The greatest number of bytes from the beginning of the anchor to the end of the match."""
    least: Size | None = None
    """A key without effect, which older rules have."""
    boundary: bool = True
    """True if the secret must not begin within a word or be part of longer base64 data."""
    exact: bool = False
    """True if no word character may follow the secret."""
    mixed: bool = False
    """True if the secret must have capitals, small letters and digits."""
    sure: bool = True
    """True if the value is a secret in all other places, too."""
    entropy: Annotated[float, Meta(ge=0)] = 0.0
    """The smallest Shannon entropy of the secret, in bits per character."""
    digits: Size = 0
    """The smallest number of digits in the secret."""
    value: Literal["password", "told", "opaque", "certain", "given", "login", "basic"] | None = None
    """A further test that the value must pass. `password`: a text that can be a password. `told`: a word that
    can be a password within a sentence. `opaque`: random. `certain`: too random to be anything but a secret.
    `given`: neither a placeholder nor a reference. `login`: as `given`, but neither equal to the user's name
    before a local host (`guest:guest@localhost`) nor an example made of words such as `pass`. `basic`: base64
    of `user:password`."""
    checksum: Literal["crc32-base62"] | None = None
    """The kind of checksum in the secret. A value with a valid checksum is a secret in any surroundings and
    ends after the checksum. `crc32-base62`: the last six of the 36 characters after the prefix's `_` are the
    checksum of the first 30."""
    examples: SecretExamples = field(default_factory=SecretExamples)
    """Texts with and without secrets, which the tests check."""


class SecretFile(Strict, frozen=True):
    """A file of `rules/secrets`."""

    rules: tuple[SecretRule, ...]
    label: str = ""
    """The label of rules that have no `label`."""
