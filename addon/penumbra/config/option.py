"""What an option is: its row in the table of settings, its names, and how its value is read."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from penumbra.config.parsers import STORE, Parser, SettingsError, shown

PREFIX = "penumbra_"
"""What the names of our options begin with."""
VARIABLE = "PENUMBRA_"
"""What our environment variables begin with; the name of an option follows."""
_ROW = "penumbra"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Row(Generic[T]):
    """What a row says beside its name."""

    parser: Parser[T]
    help: str
    group: str
    """Title of the group that begins with this row; empty: it belongs to the one above."""
    pipe: bool
    """In the YAML file it stands under `pipes.tool_output`; it may always stand under `penumbra`."""
    environment: tuple[str, ...]
    """Names beside PENUMBRA_<NAME>, after it in precedence."""
    per_request: bool
    """A request may set it, in `_forge.tool_output_compression`."""


def row(
    default: T,
    parser: Parser[T],
    help: str,
    *,
    group: str = "",
    pipe: bool = False,
    environment: tuple[str, ...] = (),
    per_request: bool = False,
) -> T:
    """An option, as the value of a field of `Settings`; see `_Row`."""
    made = _Row(parser, help, group, pipe, environment, per_request)
    return field(default=default, metadata={_ROW: made})


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """A row of the table."""

    name: str
    default: T
    row: _Row[T]

    @property
    def full_name(self) -> str:
        """As mitmproxy knows it."""
        return f"{PREFIX}{self.name}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Its names in the environment; an earlier one counts before a later one."""
        return (f"{VARIABLE}{self.name.upper()}", *self.row.environment)

    @property
    def place(self) -> str:
        """Its place in the YAML file."""
        return f"pipes.tool_output.{self.name}" if self.row.pipe else f"penumbra.{self.name}"

    @property
    def description(self) -> str:
        """Its help, and the default that is in force where nothing is said."""
        default = self.row.parser.write(self.default)
        return f"{self.row.help} Default: {default}." if default else self.row.help

    def read(self, key: str, value: Any) -> T:
        """The parsed value. Raises SettingsError that names `key`."""
        return read_value(self.row.parser, key, value)


def read_value(parser: Parser[T], key: str, value: Any) -> T:
    """A parsed value. Raises SettingsError that names `key`, the value and what is allowed."""
    try:
        return parser.read(value)
    except SettingsError as error:
        # A key is not shown, whatever shape it has, nor where a password may stand.
        is_hidden = parser is STORE or key.lower().endswith(("api_key", "store_key"))
        got = "(hidden)" if is_hidden else shown(value)
        raise SettingsError(f"{key}: got {got}, allowed: {error}") from None


def options_of(table: type) -> tuple[Option[Any], ...]:
    """The rows of a table, in its order."""
    rows = [member for member in fields(table) if _ROW in member.metadata]
    return tuple(Option(member.name, member.default, member.metadata[_ROW]) for member in rows)
