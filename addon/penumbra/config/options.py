"""Every knob: its name, how its value is read, and where it may come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penumbra.config.parsers import (
    SettingsError,
    meant,
    read_choice,
    read_duration,
    read_flag,
    read_hosts,
    read_method,
    read_mode,
    read_names,
    read_parameters,
    read_ratio,
    read_size,
    read_text,
    read_time_limit,
    shown,
)
from penumbra.errors import one_line

PREFIX = "penumbra_"
"""What the names of our options begin with."""
CONFIG_OPTION = f"{PREFIX}config"
MAX_OUTPUT_BYTES_LIMIT = 1_048_576
OUTSIDE_STRATEGIES = ("simple", "api", "external_provider")
CHAINS = tuple(f"pipeline+{name}" for name in OUTSIDE_STRATEGIES)
AVAILABLE_STRATEGIES = ("pipeline", "passthrough", *OUTSIDE_STRATEGIES, *CHAINS)


def _read_strategy(value: Any) -> str:
    """One name, or a chain: names joined by `+`, or a list."""
    parts = [read_text(part) for part in value] if isinstance(value, list) else read_text(value).split("+")
    return read_choice(*AVAILABLE_STRATEGIES)("+".join(part.strip() for part in parts))


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: how it is spelled in each source, and how its value is read."""

    name: str
    parse: Callable[[Any], Any]
    help: str
    yaml: tuple[str, ...] = ()
    """Path in the YAML file; empty: `penumbra.<name>`."""
    environment: tuple[str, ...] = ()
    """Names beside PENUMBRA_<NAME>, after it in precedence."""

    @property
    def option(self) -> str:
        """Name of the mitmproxy option."""
        return f"{PREFIX}{self.name}"

    def read(self, key: str, value: Any) -> Any:
        """The parsed value. Raises SettingsError that names `key`."""
        try:
            return self.parse(value)
        except SettingsError as error:
            # A key is not shown, whatever shape it has.
            got = "(hidden)" if key.endswith("api_key") else shown(value)
            raise SettingsError(f"{key}: got {got}, allowed: {error}") from None


def _pipe(key: str) -> tuple[str, ...]:
    return ("pipes", "tool_output", key)


_HUGE = 1 << 40
KNOBS: tuple[Knob, ...] = (
    Knob(
        "mode",
        read_mode,
        "How much is done to tool results: disabled, safe, standard or aggressive.",
        _pipe("mode"),
        ("FORGE_TOOL_OUTPUT_COMPRESSION",),
    ),
    Knob(
        "method",
        read_method,
        "Dictionary method of the aggressive mode: lzw, repair or auto.",
        _pipe("method"),
        ("FORGE_TOOL_OUTPUT_COMPRESSION_METHOD",),
    ),
    Knob(
        "strategy",
        _read_strategy,
        "Who shortens a result; `pipeline+...`: the pipeline first, then whoever is asked.",
        _pipe("strategy"),
    ),
    Knob(
        "fallback_strategy",
        read_choice("passthrough", "pipeline", "simple"),
        "Who shortens a result when the strategy fails or takes too long.",
        _pipe("fallback_strategy"),
    ),
    Knob(
        "strategy_deadline", read_duration, "How long a request waits for its strategy, all results together."
    ),
    Knob(
        "chain_bytes", read_size(0, _HUGE), "In a chain, smaller results of the pipeline are sent to nobody."
    ),
    Knob("cost_check", read_flag, "Ask a strategy only where that is expected to cost less than it saves."),
    Knob(
        "allow_captured_credentials",
        read_flag,
        "Let external_provider spend the credential of the client whose result it is (auth: oauth).",
    ),
    Knob("provider", read_text, "Entry of `providers` that external_provider asks.", _pipe("provider")),
    Knob(
        "min_bytes",
        read_size(0, _HUGE),
        "Results up to this size get the safe stages only.",
        _pipe("min_bytes"),
    ),
    Knob(
        "max_bytes",
        read_size(1, _HUGE),
        "Results above this size are not sent to a strategy.",
        _pipe("max_bytes"),
    ),
    Knob(
        "max_output_bytes",
        read_size(1, MAX_OUTPUT_BYTES_LIMIT),
        "Results above this size are cut around their critical lines; files that are read, above 15/32 of it "
        "where the rest can be asked for.",
        _pipe("max_output_bytes"),
    ),
    Knob(
        "stage_budget",
        read_time_limit,
        "Processor time for the stages of one result, after which the others are passed over; 0: any.",
    ),
    Knob(
        "request_budget",
        read_time_limit,
        "Processor time for one request's new results, after which the others are only redacted; 0: any.",
    ),
    Knob(
        "target_ratio",
        read_ratio,
        "Largest part of its original that a result may be, down to 1,000 bytes; not of files that are read.",
        _pipe("target_ratio"),
    ),
    Knob(
        "lossy",
        read_choice("auto", "on", "off"),
        "Stages that leave something out: on, off, or auto (where the model can ask for the original).",
    ),
    Knob(
        "enable_expand_context",
        read_flag,
        "Let the model ask for the original of a shortened result.",
        _pipe("enable_expand_context"),
    ),
    Knob(
        "include_expand_hint",
        read_flag,
        "Add one line to a shortened result that tells how to ask.",
        _pipe("include_expand_hint"),
    ),
    Knob(
        "skip_tools",
        lambda value: frozenset(read_names(value)),
        "Categories or names of tools whose results are redacted only, separated by commas.",
        _pipe("skip_tools"),
    ),
    Knob("dedup", read_flag, "Replace a result that stands earlier in the same request by a reference."),
    Knob(
        "adopt",
        read_choice("auto", "raw", "compress"),
        "Results that the provider has already seen without Penumbra: auto, raw or compress.",
    ),
    Knob(
        "supersede",
        read_choice("idle", "priced", "off"),
        "Results that a later call has made useless become references: idle (after a pause that outlives the "
        "provider's cache), priced (also where the price model says that it pays) or off.",
    ),
    Knob(
        "tool_compaction",
        read_parameters,
        "What counts as the same call: inputTrimBytes, outputTrimBytes, excludedTools, toolIdentifierFields, "
        "toolOnly, compactArguments, staleReads.",
    ),
    Knob(
        "aggregate_budget_bytes",
        read_size(0, _HUGE),
        "Size that all results of a request may have together; 0: any.",
    ),
    Knob(
        "budget_window_share",
        read_ratio,
        "Part of the model's window that all results of a request may have together.",
    ),
    Knob(
        "compaction_budget_bytes",
        read_size(0, _HUGE),
        "Size that the messages of a request for a summary may have where nothing of it is cached; 0: half "
        "of the model's window, and 120k at least. Elsewhere only what would not fit is left out.",
    ),
    Knob(
        "bound_thinking",
        read_choice("keep", "drop"),
        "Whether a rewrite may cost reasoning that is bound to its prefix: keep or drop.",
    ),
    Knob(
        "recover",
        read_choice("auto", "off"),
        "Send a request that was refused as too large again with smaller results: auto or off.",
    ),
    Knob(
        "context_guard",
        read_choice("on", "off"),
        "Once a refusal has shown that less fits than the client believes, tell it its input tokens in parts "
        "of what it believes in, so that it compacts in time: on or off.",
    ),
    Knob("redact_secrets", read_flag, "Take secrets out of tool results."),
    Knob(
        "redact_scope",
        read_choice("results", "all"),
        "Where secrets are searched for: results (of tools), or all (also system and user text, and the "
        "arguments of calls).",
    ),
    Knob(
        "redaction_failure",
        read_choice("refuse", "mask", "pass"),
        "What becomes of what can't be searched for secrets: refuse the request, mask the text (a body that "
        "can't be read is refused), or let it pass as it is.",
    ),
    Knob("redaction_max_bytes", read_size(1, _HUGE), "Texts above this size can't be searched for secrets."),
    Knob(
        "unknown_paths",
        read_choice("redact", "pass", "refuse"),
        "Requests to LLM hosts at paths that are not known, where they carry results of tools or secrets: "
        "redact (their texts are searched), pass or refuse; a warning each time a path is new.",
    ),
    Knob("allow_redaction_off", read_flag, "Let a request switch redaction off."),
    Knob(
        "restore_secrets",
        read_choice("off", "edits"),
        "Whether the client gets the value where the model writes its placeholder: off, or edits (in calls "
        "that edit the very file that the value was read from).",
    ),
    Knob(
        "blank_flows",
        read_choice("off", "secrets", "all"),
        "Flows whose bodies mitmproxy keeps no longer than they travel: off, secrets (those of requests that "
        "were redacted or refused) or all (that Penumbra handles).",
    ),
    Knob("gitleaks_config", read_text, "A gitleaks.toml whose rules are searched for beside ours."),
    Knob("gitleaks_only", read_flag, "The rules of gitleaks_config come instead of ours."),
    Knob(
        "rules",
        read_text,
        "Folder of your own rules, beside ours; off: none; default: penumbra/rules in the user's "
        "configuration folder. Read at the start, and when this option changes.",
    ),
    Knob("hosts", read_hosts, "Further hosts of LLM APIs (globs allowed), separated by commas."),
    Knob("filter", read_text, "mitmproxy filter expression: only matching flows are touched."),
    Knob(
        "intercept",
        read_choice("llm", "all"),
        "TLS connections to decrypt: llm (known hosts only, the rest is tunnelled) or all.",
    ),
    Knob(
        "threads",
        read_choice("auto", "pass", "refuse"),
        "Conversations that Anthropic holds as message threads: pass them, refuse them so that the client "
        "sends its whole history, or auto (refuse where the client is known to go on).",
    ),
    Knob(
        "websocket",
        read_choice("rewrite", "downgrade", "pass"),
        "Responses over WebSocket: rewrite (frame by frame), downgrade (refused, after which clients use "
        "HTTP) or pass.",
    ),
    Knob(
        "aws_signing",
        read_choice("off", "environment"),
        "Signed requests to Amazon Bedrock: off (left alone) or environment (signed anew, with the keys of "
        "the AWS_* variables).",
    ),
    Knob(
        "database",
        read_text,
        "SQLite file for decisions; `memory` for none; default: the user's state folder.",
    ),
    Knob(
        "database_max_bytes",
        read_size(1024 * 1024, _HUGE),
        "Size at which the oldest entries leave the database.",
    ),
    Knob("ledger_ttl", read_duration, "How long decisions are remembered after their last use."),
    Knob("originals_ttl", read_duration, "How long originals are kept after their last use."),
    Knob("events", read_text, "File to append one JSON line per changed request to, without any content."),
    Knob(
        "max_body_bytes",
        read_size(1024, _HUGE),
        "Decoded request bodies above this size are not read, and so can't be searched for secrets.",
    ),
    Knob(
        "offload_bytes",
        read_size(0, _HUGE),
        "Bodies above this size are worked on outside of the event loop.",
    ),
)

_GROUPS = {
    "mode": "What is done to tool results",
    "strategy": "Others who shorten",
    "min_bytes": "Sizes, and what may be left out",
    "adopt": "Long sessions",
    "redact_secrets": "Secrets",
    "rules": "Which traffic, and what is known of it",
    "database": "What is kept, and limits",
}
"""Of the table above: the knob with which a group begins, and its title."""


def groups() -> dict[str, list[Knob]]:
    """The knobs by the title of their group, all in the table's order."""
    found: dict[str, list[Knob]] = {}
    members: list[Knob] = []
    for knob in KNOBS:
        if knob.name in _GROUPS:
            members = found.setdefault(_GROUPS[knob.name], [])
        members.append(knob)
    return found


def unprefixed_options(names: Iterable[str]) -> list[str]:
    """One line for each name of an option that is ours but for its beginning."""
    known = {knob.name for knob in KNOBS}
    return [
        f"{name}: mitmproxy has no such option, did you mean {PREFIX}{name}?"
        for name in names
        if name in known
    ]


def unknown_options(names: Iterable[str]) -> list[str]:
    """One line for each name of an option that should be ours and is not."""
    known = ["config", *(knob.name for knob in KNOBS)]
    lines = []
    for name in names:
        if name.startswith(PREFIX.rstrip("_")):
            near = meant(name.removeprefix(PREFIX), known)
            hint = f"did you mean {PREFIX}{near}?" if near else "`penumbra run --help` names all"
            lines.append(f"{one_line(name)}: unknown option, {hint}")
    return lines
