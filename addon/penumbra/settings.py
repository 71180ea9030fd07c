"""Every knob, in one frozen dataclass, and where each value may come from.

Order of precedence: request > mitmproxy option > environment > YAML file > default. Requests are
`overrides.py`'s business; the other four are resolved here, knob by knob, from one table. Every
value arrives as text (or as a YAML scalar) and is parsed by its knob, so that a bad one always
gives the same one-line error: key, value, what is allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from penumbra.history.superseded import Parameters
from penumbra.readers import (
    SettingsError as SettingsError,
)
from penumbra.readers import (
    read_choice,
    read_duration,
    read_flag,
    read_method,
    read_mode,
    read_names,
    read_parameters,
    read_ratio,
    read_size,
    read_text,
    read_time_limit,
)
from penumbra.redaction import MAX_BYTES
from penumbra.strategies import check
from penumbra.text.result import Mode, Policy

MAX_OUTPUT_BYTES_LIMIT = 1_048_576
OUTSIDE_STRATEGIES = ("simple", "api", "external_provider")
CHAINS = tuple(f"pipeline+{name}" for name in OUTSIDE_STRATEGIES)
AVAILABLE_STRATEGIES = ("pipeline", "passthrough", *OUTSIDE_STRATEGIES, *CHAINS)


@dataclass(frozen=True, slots=True)
class Provider:
    """An entry of the YAML file's `providers`: whom to ask for a summary."""

    auth: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class Api:
    """The YAML file's `pipes.tool_output.api`: a service that shortens results."""

    endpoint: str = ""
    api_key: str = field(default="", repr=False)
    model: str = ""
    timeout: float = 30.0
    """Seconds."""
    query_agnostic: bool = False
    """The service is not told what the user wants to know."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator decided. Sizes are UTF-8 bytes unless the name says otherwise."""

    mode: Mode = Mode.STANDARD
    method: str = "auto"
    strategy: str = "pipeline"
    fallback_strategy: str = "pipeline"
    strategy_deadline: float = 15.0
    """Seconds that a request waits for all answers of its strategy."""
    chain_bytes: int = 8_192
    cost_check: bool = True
    allow_captured_credentials: bool = False
    provider: str = ""
    providers: Mapping[str, Provider] = field(default_factory=dict)
    api: Api = field(default_factory=Api)
    min_bytes: int = 512
    max_bytes: int = 65_536
    max_output_bytes: int = 65_536
    stage_budget: float = 2.0
    target_ratio: float | None = None
    lossy: str = "auto"
    enable_expand_context: bool = True
    include_expand_hint: bool = True
    skip_tools: frozenset[str] = frozenset()
    dedup: bool = True
    session_id: str = ""
    """Set by requests only: results may also be duplicates of earlier requests of this session."""
    adopt: str = "auto"
    supersede: str = "idle"
    tool_compaction: Parameters = field(default_factory=Parameters)
    aggregate_budget_bytes: int = 0
    """Of all results of a request together; 0: no limit."""
    budget_window_share: float | None = None
    """The same as a part of the model's window, where that is known."""
    compaction_budget_bytes: int = 0
    """Of the messages of a request for a summary, where nothing of it is cached; 0: by the window."""
    bound_thinking: str = "keep"
    recover: str = "auto"
    context_guard: str = "on"
    redact_secrets: bool = True
    redact_scope: str = "results"
    redaction_failure: str = "refuse"
    redaction_max_bytes: int = MAX_BYTES
    allow_redaction_off: bool = False
    restore_secrets: str = "off"
    blank_flows: str = "off"
    gitleaks_config: str = ""
    gitleaks_only: bool = False
    hosts: tuple[str, ...] = ()
    filter: str = ""
    intercept: str = "llm"
    threads: str = "auto"
    websocket: str = "rewrite"
    aws_signing: str = "off"
    database: str = ""
    database_max_bytes: int = 512 * 1024 * 1024
    ledger_ttl: float = 30 * 86_400.0
    originals_ttl: float = 86_400.0
    events: str = ""
    max_body_bytes: int = 128 * 1024 * 1024
    offload_bytes: int = 32 * 1024

    @property
    def outside(self) -> str:
        """The strategy that is asked beside the pipeline or instead of it; empty if there is none."""
        name = self.strategy.removeprefix("pipeline+")
        return name if name in OUTSIDE_STRATEGIES else ""

    @property
    def must_search(self) -> bool:
        """Whether what can't be searched for secrets is not sent."""
        return self.redact_secrets and self.redaction_failure != "pass"

    def policy(self, *, can_expand: bool) -> Policy:
        """The part of the settings that decides about forwarded bytes."""
        mode = self.mode if self.strategy.startswith("pipeline") else Mode.DISABLED
        return Policy(
            mode=mode,
            method=self.method,
            lossy=self.lossy == "on" or (self.lossy == "auto" and can_expand),
            min_bytes=self.min_bytes,
            max_output_bytes=self.max_output_bytes,
            target_ratio=self.target_ratio,
        )


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
        return f"penumbra_{self.name}"

    def read(self, key: str, value: Any) -> Any:
        """The parsed value. Raises SettingsError that names `key`."""
        try:
            return self.parse(value)
        except SettingsError as error:
            # A key is not shown, whatever shape it has.
            got = "(hidden)" if key.endswith("api_key") else repr(value)
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
        "Results above this size are cut around their critical lines; files that are read, above half of it "
        "where the rest can be asked for.",
        _pipe("max_output_bytes"),
    ),
    Knob(
        "stage_budget",
        read_time_limit,
        "Processor time for the stages of one result, after which the others are passed over; 0: any.",
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
        "Results that a later call has made useless become shadows: idle (after a pause that outlives the "
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
    Knob("hosts", read_names, "Further hosts of LLM APIs (globs allowed), separated by commas."),
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
_BY_NAME = {knob.name: knob for knob in KNOBS}


def load(options: Mapping[str, str], environment: Mapping[str, str], config: str = "") -> Settings:
    """Settings from mitmproxy options (unset: empty text), environment and YAML file.

    `options` maps knob names to text. Raises SettingsError for anything that can't be read, and for
    a strategy that lacks what it needs.
    """
    values: dict[str, Any] = {}
    if config:
        for knob, key, value in _from_file(Path(config).expanduser(), environment, values):
            values[knob.name] = knob.read(key, value)
    for knob in KNOBS:
        for name in reversed((f"PENUMBRA_{knob.name.upper()}", *knob.environment)):
            if environment.get(name, "").strip():
                values[knob.name] = knob.read(name, environment[name])
        if options.get(knob.name, "") != "":
            values[knob.name] = knob.read(knob.option, options[knob.name])
    settings = Settings(**values)
    if settings.mode is not Mode.DISABLED and (lacking := check.missing(settings)):
        raise SettingsError(lacking)
    return settings


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,99})(?::-([^}]{0,999}))?\}")


def _substitute(value: Any, environment: Mapping[str, str]) -> Any:
    """`${NAME}` and `${NAME:-default}` in every text of a value; an unset name is empty, as in a shell."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: environment.get(match[1], "") or match[2] or "", value)
    if isinstance(value, list):
        return [_substitute(item, environment) for item in value]
    if isinstance(value, dict):
        return {key: _substitute(item, environment) for key, item in value.items()}
    return value


def _from_file(
    path: Path, environment: Mapping[str, str], values: dict[str, Any]
) -> Iterator[tuple[Knob, str, Any]]:
    """The knobs that the file sets; `providers` and `api` go into `values` at once."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise SettingsError(f"penumbra_config: got {str(path)!r}: {reason}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"penumbra_config: {str(path)!r} is no YAML{line}") from None
    document = _mapping("penumbra_config", _substitute({} if document is None else document, environment))
    if "providers" in document:
        entries = _mapping("providers", document["providers"])
        values["providers"] = {
            str(name): _record(Provider, f"providers.{name}", entry) for name, entry in entries.items()
        }
    pipe = dict(_mapping("pipes.tool_output", _mapping("pipes", document.get("pipes")).get("tool_output")))
    if "api" in pipe:
        values["api"] = _record(Api, "pipes.tool_output.api", pipe.pop("api"))
    enabled = _switch("pipes.tool_output.enabled", pipe.pop("enabled", True))
    yield from _section("pipes.tool_output", pipe, {knob.yaml[-1]: knob for knob in KNOBS if knob.yaml})
    own = _mapping("penumbra", document.get("penumbra"))
    yield from _section("penumbra", own, {knob.name: knob for knob in KNOBS})
    if not enabled:
        yield _BY_NAME["mode"], "pipes.tool_output.enabled", "disabled"


def _section(
    prefix: str, section: Mapping[str, Any], knobs: Mapping[str, Knob]
) -> Iterator[tuple[Knob, str, Any]]:
    for key, value in section.items():
        if key not in knobs:
            raise SettingsError(f"{prefix}.{key}: unknown key, allowed: {', '.join(sorted(knobs))}")
        if value is not None and value != "":
            yield knobs[key], f"{prefix}.{key}", value


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(f"{key}: got {value!r}, allowed: a mapping")
    return value


def _switch(key: str, value: Any) -> bool:
    return bool(Knob("enabled", read_flag, "").read(key, value))


_Record = TypeVar("_Record", Provider, Api)
_RECORD_PARSERS: dict[str, Callable[[Any], Any]] = {"timeout": read_duration, "query_agnostic": read_flag}


def _record(kind: type[_Record], key: str, value: Any) -> _Record:
    known = {item.name for item in fields(kind)}
    found: dict[str, Any] = {}
    for name, item in _mapping(key, value).items():
        if name not in known:
            raise SettingsError(f"{key}.{name}: unknown key, allowed: {', '.join(sorted(known))}")
        parse = _RECORD_PARSERS.get(name, read_text)
        found[name] = Knob(name, parse, "").read(f"{key}.{name}", item)
    return kind(**found)


def database_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the database lies; None for `memory`."""
    if settings.database == "memory":
        return None
    if settings.database:
        return Path(settings.database).expanduser()
    state = environment.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "penumbra" / "penumbra.sqlite"
