"""This module has one table of all options: name, type, default, allowed values, help, and possible sources.
The table is the dataclass `Settings`. Each field made by `row` is an option. The table determines mitmproxy's
help, the keys of the YAML file, the names of environment variables and the members of
`_forge.tool_output_compression` in a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from penumbra.compress.result import Mode, Policy
from penumbra.config.parsers import (
    DURATION,
    FLAG,
    FOLDER,
    HOSTS,
    MODE,
    NAMES,
    PAGE_PLACE,
    RATIO,
    SECRETS_ALLOW,
    STORE,
    STRATEGY,
    STRATEGY_ASKED,
    TEXT,
    TOOL_COMPACTION,
    PagePlace,
    Parser,
    SettingsError,
    ToolCompaction,
    choice,
    shown,
    size,
)
from penumbra.redaction import MAX_BYTES


@dataclass(frozen=True, slots=True)
class Provider:
    """A `Provider` is an entry of `providers` in the YAML file. The provider's model can shorten results."""

    auth: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class CompressionService:
    """A `CompressionService` is a service that shortens results: `pipes.tool_output.api` in the YAML file."""

    endpoint: str = ""
    api_key: str = field(default="", repr=False)
    model: str = ""
    timeout: float = 30.0
    """Longest time in seconds for one call, and for all results of a request together."""
    query_agnostic: bool = False
    """True if the service does not receive the user's question."""


PREFIX = "penumbra_"
"""Prefix of the options' names in mitmproxy."""
VARIABLE = "PENUMBRA_"
"""Prefix of the environment variables' names."""
_ROW = "penumbra"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Row(Generic[T]):
    """A `_Row` is a row of the table, without its name."""

    parser: Parser[T]
    help: str
    group: str
    """Title of the group that begins with this row; empty if the row continues the group above."""
    environment: tuple[str, ...]
    """Further names of the environment variable. The name PENUMBRA_<NAME> takes precedence over them."""
    per_request: bool
    """True if a request may set the option, in `_forge.tool_output_compression`."""


def row(
    default: T,
    parser: Parser[T],
    help: str,
    *,
    group: str = "",
    environment: tuple[str, ...] = (),
    per_request: bool = False,
) -> T:
    """Return the dataclass field that declares an option in `Settings`. `_Row` describes the arguments."""
    made = _Row(parser, help, group, environment, per_request)
    return field(default=default, metadata={_ROW: made})


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """An `Option` is a row of the table, with its name."""

    name: str
    default: T
    row: _Row[T]

    @property
    def full_name(self) -> str:
        return f"{PREFIX}{self.name}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the option's names in the environment. Earlier names take precedence."""
        return (f"{VARIABLE}{self.name.upper()}", *self.row.environment)

    @property
    def description(self) -> str:
        """Return the option's help with its default."""
        default = self.row.parser.write(self.default)
        return f"{self.row.help} Default: {default}." if default else self.row.help

    def read(self, key: str, value: Any) -> T:
        """Return the parsed value. Raises SettingsError, which names `key`."""
        return read_value(self.row.parser, key, value)


def read_value(parser: Parser[T], key: str, value: Any) -> T:
    """Return a parsed value. Raises SettingsError, which names `key`, the value and the allowed values."""
    try:
        return parser.read(value)
    except SettingsError as error:
        # Errors show no keys and no addresses that may contain a password.
        is_hidden = parser is STORE or key.lower().endswith(("api_key", "store_key"))
        got = "(hidden)" if is_hidden else shown(value)
        raise SettingsError(f"{key}: got {got}, allowed: {error}") from None


def options_of(table: type) -> tuple[Option[Any], ...]:
    rows = [member for member in fields(table) if _ROW in member.metadata]
    return tuple(Option(member.name, member.default, member.metadata[_ROW]) for member in rows)


@dataclass(frozen=True)
class Settings:
    """A `Settings` has the value of every option. Sizes are UTF-8 bytes unless the name has another unit.
    Times are seconds."""

    mode: Mode = row(
        Mode.STANDARD,
        MODE,
        "How far tool results are changed: disabled, safe, standard or aggressive.",
        group="What is done to tool results",
        environment=("FORGE_TOOL_OUTPUT_COMPRESSION",),
        per_request=True,
    )
    pause: bool = row(
        False,
        FLAG,
        "Change only secrets in new text. What a conversation has already sent keeps its form. `penumbra "
        "pause`, SIGUSR1 and, for one request, the header `X-Penumbra: off` do the same.",
    )
    observe: bool = row(
        False,
        FLAG,
        "Change nothing, not even secrets, and show the changes that Penumbra would make. The header "
        "`X-Penumbra: observe` does so for one request, but removes its secrets.",
    )
    strategy: str = row(
        "pipeline",
        STRATEGY,
        "The strategy that shortens results. `pipeline+...` runs the pipeline first, then the other "
        "strategy.",
        group="External compressors",
    )
    fallback_strategy: str = row(
        "pipeline",
        choice("passthrough", "pipeline", "simple"),
        "The strategy for results that are not sent to an external compressor, or get no answer in time.",
    )
    cost_check: bool = row(
        True, FLAG, "Call an external compressor only if the call is expected to cost less than it saves."
    )
    allow_captured_credentials: bool = row(
        False,
        FLAG,
        "Let external_provider use the credential of the client that sent the result (auth: oauth).",
    )
    provider: str = row("", TEXT, "The entry of `providers` that external_provider calls.")
    providers: Mapping[str, Provider] = field(default_factory=dict)
    """Section `providers` of the YAML file."""
    api: CompressionService = field(default_factory=CompressionService)
    """Section `pipes.tool_output.api`."""
    min_bytes: int = row(
        512,
        size(0),
        "Results up to this size are changed only by the safe stages, which here also remove needless lines "
        "around an output.",
        group="Sizes, and what may be left out",
    )
    max_bytes: int = row(65_536, size(1), "Results above this size are not sent to an external compressor.")
    max_output_bytes: int = row(
        65_536,
        size(1, 1024**2),
        "Results above this size are cut around their critical lines. Files that are read are cut "
        "above 5/8 of this size, if the model can ask for the original.",
        per_request=True,
    )
    stage_budget: float = 2.0
    """Seconds of processor time for the stages of one result. After this time, further stages are skipped. 0
    means no limit."""
    request_budget: float = 5.0
    """Seconds of processor time for a request's new results. After this time, further results are only
    redacted. 0 means no limit."""
    target_ratio: float | None = row(
        None,
        RATIO,
        "The greatest size of a shortened result, as a share of the original. 1,000 bytes are always "
        "allowed. Files that are read are exempt.",
    )
    lossy: str = row(
        "auto",
        choice("auto", "on", "off"),
        "Stages that leave something out: on, off, or auto (on if the model can ask for the original).",
    )
    enable_expand_context: bool = row(True, FLAG, "Let the model ask for the original of a shortened result.")
    expand_from: int = row(
        10 * 1024,
        size(0),
        "If the first request of a conversation has at least this size, the model can ask for "
        "originals from the start. Smaller conversations get the tool later, when that pays. 0 means always "
        "from the start.",
    )
    include_expand_hint: bool = row(
        True, FLAG, "Add a line to a shortened result that explains how to ask for the original."
    )
    skip_tools: frozenset[str] = row(
        frozenset(),
        NAMES,
        "Categories or names of tools, separated by commas. The results of these tools are only redacted.",
    )
    dedup: bool = row(
        True,
        FLAG,
        "Replace a result by a reference if the request, or the history that the provider keeps, "
        "already contains it.",
        per_request=True,
    )
    retired: tuple[str, ...] = ()
    """Keys in the YAML file and the environment for options in `RETIRED`."""
    session_id: str = ""
    """A name that all requests of a session share. Only requests can set this option."""
    adopt: str = row(
        "auto",
        choice("auto", "raw", "compress"),
        "Results that the provider has already seen without Penumbra: raw (unchanged), compress, or "
        "auto (raw while the provider may have them in its cache).",
        group="Long sessions",
    )
    supersede: str = row(
        "idle",
        choice("idle", "priced", "off"),
        "When results that a later call has made useless become references: idle (after a pause "
        "longer than the provider's cache life), priced (also when the price model predicts a "
        "saving), or off.",
    )
    tool_compaction: ToolCompaction = row(
        ToolCompaction(),
        TOOL_COMPACTION,
        "Rules for calls that a later call replaces: inputTrimBytes, outputTrimBytes, excludedTools, "
        "toolIdentifierFields, toolOnly, compactArguments, staleReads.",
    )
    aggregate_budget_bytes: int = row(
        0, size(0), "The greatest size of all results of a request together. 0 means no limit."
    )
    bound_thinking: str = row(
        "keep",
        choice("keep", "drop"),
        "Thinking that a rewrite would make invalid: keep (such a rewrite is not made), or drop (if "
        "the client lets the provider drop it).",
    )
    recover: str = row(
        "auto",
        choice("auto", "off"),
        "Send a request again, with smaller results, if it was refused as too large: auto or off.",
    )
    context_guard: str = row(
        "on",
        choice("on", "off"),
        "After a refusal has shown a smaller window than the client assumes, scale the client's input "
        "tokens up to that window, so that the client compacts in time: on or off.",
    )
    redact_secrets: bool = row(
        True, FLAG, "Remove secrets from tool results.", group="Secrets", per_request=True
    )
    redact_scope: str = row(
        "results",
        choice("results", "all"),
        "Where secrets are searched for: results (of tools), or all (also system and user text, and "
        "the arguments of calls).",
    )
    redaction_failure: str = row(
        "refuse",
        choice("refuse", "mask", "pass"),
        "If a text can't be searched for secrets: refuse the request, mask the text (an unreadable "
        "body is refused), or pass the text.",
    )
    redaction_max_bytes: int = row(MAX_BYTES, size(1), "Texts above this size can't be searched for secrets.")
    unknown_paths: str = row(
        "redact",
        choice("redact", "pass", "refuse"),
        "Requests to unknown paths of LLM hosts, if they contain results of tools or secrets: redact, "
        "pass or refuse. The log has one warning for each path.",
    )
    allow_redaction_off: bool = row(False, FLAG, "Let a request switch redaction off.")
    restore_secrets: str = row(
        "off",
        choice("off", "edits"),
        "Whether the client gets the secret where the model writes its placeholder: off, or edits (in "
        "calls that edit the file from which the secret was read).",
    )
    blank_flows: str = row(
        "off",
        choice("off", "secrets", "all"),
        "Flows whose bodies mitmproxy drops at their end: off (none), secrets (those of requests that "
        "were redacted or refused), or all (those that Penumbra handles).",
    )
    secrets_allow: tuple[str, ...] = row(
        (),
        SECRETS_ALLOW,
        "Harmless texts, separated by commas: id:… (of a placeholder), sha256:… (of a value), value:… "
        "(a pattern), rule:… (globs allowed), path:… (of files, globs allowed).",
    )
    gitleaks_config: str = row("", TEXT, "A gitleaks.toml whose rules are used in addition to Penumbra's.")
    gitleaks_only: bool = row(False, FLAG, "Use the rules of gitleaks_config instead of most of Penumbra's.")
    rules: str = row(
        "",
        FOLDER,
        "The folder of your own rules, used in addition to Penumbra's; off for none. By default, "
        "penumbra/rules in the user's configuration folder. Read at the start, and when this option "
        "changes.",
        group="Which traffic, and what is known of it",
    )
    hosts: tuple[str, ...] = row((), HOSTS, "Further hosts of LLM APIs (globs allowed), separated by commas.")
    filter: str = row("", TEXT, "A mitmproxy filter expression. Penumbra handles only flows that match.")
    intercept: str = row(
        "llm",
        choice("llm", "all"),
        "TLS connections that are decrypted: llm (those to known LLM hosts) or all.",
    )
    threads: str = row(
        "pass",
        choice("auto", "pass", "refuse"),
        "Conversations whose history Anthropic keeps (message threads): pass, refuse (so that the "
        "client sends its whole history), or auto (refuse if the client is known to continue).",
    )
    websocket: str = row(
        "rewrite",
        choice("rewrite", "downgrade", "pass"),
        "The Responses API over WebSocket: rewrite (frame by frame), downgrade (refuse, so that "
        "clients use HTTP) or pass.",
    )
    aws_signing: str = row(
        "off",
        choice("off", "environment"),
        "Signed requests to Amazon Bedrock: off (unchanged), or environment (signed again with the "
        "keys of the AWS_* variables).",
    )
    database: str = row(
        "",
        TEXT,
        "The SQLite file of the store; `memory` for none. By default, a file in the user's state folder.",
        group="What is kept, and limits",
    )
    database_max_bytes: int = row(
        512 * 1024**2, size(1024**2), "The size above which the oldest rows are deleted from the database."
    )
    store: str = row(
        "",
        STORE,
        "A Redis or Valkey that several proxies share instead of the file: redis://, rediss:// or "
        "unix://, with a percent-encoded password. Needs the extra `redis`.",
    )
    store_key: str = row(
        "",
        TEXT,
        "The key of the shared store, equal on all proxies: 64 hexadecimal digits, or a file with them.",
    )
    store_away: str = row(
        "go_on",
        choice("go_on", "refuse"),
        "Requests while the shared store can't be reached, or the database's disk hangs: go_on (from "
        "memory; new results are only redacted), or refuse (with status 503, so that the next try may "
        "reach another proxy).",
    )
    ledger_ttl: float = row(30 * 86_400.0, DURATION, "How long decisions are stored after their last use.")
    originals_ttl: float = row(
        30 * 86_400.0,
        DURATION,
        "How long originals that later requests don't contain are stored after their last use. Other "
        "originals are stored for a day at most.",
    )
    events: str = row(
        "",
        TEXT,
        "A file that gets one line of JSON for each request with results, each expansion and each "
        "recovery, without content.",
    )
    max_body_bytes: int = row(
        64 * 1024**2,
        size(1024),
        "Decoded request bodies above this size are not read, so they can't be searched for secrets.",
    )
    offload_bytes: int = 32 * 1024
    """Bodies with more new bytes than this are handled outside of the event loop."""
    page: PagePlace = row(
        PagePlace(),
        PAGE_PLACE,
        "The page with the figures: off, proxy (http://penumbra.local/ through the proxy), a port of "
        "this machine, or HOST:PORT. `penumbra page` prints the link.",
        group="What is shown",
    )
    page_originals: str = row(
        "off",
        choice("off", "on"),
        "Whether the page, the view in mitmproxy and `penumbra.expand` show originals, without "
        "secrets: off, or on (the latest, in memory).",
    )
    traces: str = row(
        "off",
        choice("off", "on"),
        "Spans of LLM calls for OpenTelemetry, without content: off, or on (sent as the OTEL_* "
        "variables say). Needs the extra `otel`.",
    )

    @property
    def external_strategy(self) -> str:
        """Return the strategy that runs after the pipeline or instead of it; empty if there is none."""
        name = self.strategy.removeprefix("pipeline+")
        return name if name in STRATEGY_ASKED else ""

    def untouched(self) -> Settings:
        """Return settings by which new results are only redacted. Results that were already shortened keep
        their forms, and hidden exchanges stay. Otherwise the provider would refuse the model's thinking
        blocks."""
        return replace(
            self,
            pause=True,
            mode=Mode.DISABLED,
            dedup=False,
            enable_expand_context=False,
            supersede="off",
            tool_compaction=replace(self.tool_compaction, arguments=False),
            aggregate_budget_bytes=0,
            context_guard="off",
            threads="pass",
        )

    def recomputable(self) -> Settings:
        """Return settings with which the request alone, without earlier decisions, determines the forms of
        its results."""
        return replace(
            self,
            strategy="pipeline" if self.external_strategy else self.strategy,
            supersede="off",
            tool_compaction=replace(self.tool_compaction, arguments=False),
            aggregate_budget_bytes=0,
            request_budget=0.0,
            stage_budget=0.0,
        )

    @cached_property
    def shortens(self) -> bool:
        """Return whether results may be shortened."""
        return self.mode is not Mode.DISABLED and self.strategy != "passthrough"

    @cached_property
    def rewrites_history(self) -> bool:
        """Return whether earlier results may be shortened even if the provider accepts them unchanged."""
        return self.shortens and self.mode is not Mode.SAFE

    @cached_property
    def must_search(self) -> bool:
        """Return whether a request that can't be searched for secrets is not sent."""
        return self.redact_secrets and self.redaction_failure != "pass"

    @cached_property
    def restores_secrets(self) -> bool:
        """Return whether placeholders in the model's edits of files are replaced by the secrets."""
        return self.restore_secrets == "edits" and self.redact_secrets

    def policy(self, *, can_expand: bool) -> Policy:
        """Return the part of the settings on which the form of a result depends."""
        is_off = not self.shortens or (
            not self.strategy.startswith("pipeline") and self.fallback_strategy == "passthrough"
        )
        mode = Mode.DISABLED if is_off else self.mode
        return Policy(
            mode=mode,
            lossy=self.lossy == "on" or (self.lossy == "auto" and can_expand),
            min_bytes=self.min_bytes,
            max_output_bytes=self.max_output_bytes,
            target_ratio=self.target_ratio,
        )


OPTIONS = options_of(Settings)
RETIRED: Mapping[str, str] = {
    "method": "no mode spells dictionaries",
    "holdout": "no conversation is left alone to compare with",
    "chain_bytes": "results above 8 KB go on to the strategy",
    "stage_budget": "2 seconds of processor time for the stages of one result",
    "offload_bytes": "bodies with more than 32 KB of new bytes leave the event loop",
    "strategy_deadline": "all results of a request wait for as long as one call may take (api.timeout)",
    "calls_at_once": "10 calls at once",
    "calls_per_second": "20 calls a second",
    "compressed_ttl": "answers of a strategy are kept for a day after their last use",
    "request_budget": "5 seconds of processor time for the new results of a request",
    "budget_window_share": "aggregate_budget_bytes bounds the results of a request",
    "compaction_budget_bytes": "half of the model's window, and 120 KB at least",
    "carried_originals_ttl": "a day, or originals_ttl if that is shorter",
}
"""Options of earlier versions, each with the rule that applies now."""


def groups() -> dict[str, list[Option[Any]]]:
    """Return the options by the title of their group, in the table's order."""
    titles: dict[str, list[Option[Any]]] = {}
    members: list[Option[Any]] = []
    for option in OPTIONS:
        if option.row.group:
            members = titles.setdefault(option.row.group, [])
        members.append(option)
    return titles
