"""Every setting, in one frozen dataclass, and where each value may come from.

Order of precedence: request > mitmproxy option > environment > YAML file > default. Requests are
`overrides.py`'s business; the other four are resolved here, knob by knob, from the table in `knobs.py`. Every
value arrives as text (or as a YAML scalar) and is parsed by its knob, so that a bad one always
gives the same one-line error: key, value, what is allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penumbra import errors
from penumbra.compress.result import Mode, Policy
from penumbra.config import strategy_check, yaml_file
from penumbra.config.options import KNOBS, OUTSIDE_STRATEGIES
from penumbra.config.parsers import SettingsError as SettingsError
from penumbra.config.parsers import meant
from penumbra.config.tool_compaction import ToolCompaction
from penumbra.config.yaml_file import Api as Api
from penumbra.config.yaml_file import Provider as Provider
from penumbra.redaction import MAX_BYTES


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
    request_budget: float = 5.0
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
    tool_compaction: ToolCompaction = field(default_factory=ToolCompaction)
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
    unknown_paths: str = "redact"
    allow_redaction_off: bool = False
    restore_secrets: str = "off"
    blank_flows: str = "off"
    gitleaks_config: str = ""
    gitleaks_only: bool = False
    rules: str = ""
    hosts: tuple[str, ...] = ()
    filter: str = ""
    intercept: str = "llm"
    threads: str = "pass"
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

    @property
    def restores_secrets(self) -> bool:
        """Whether values are put back into edits."""
        return self.restore_secrets == "edits" and self.redact_secrets

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


VARIABLE = "PENUMBRA_"
"""What our environment variables begin with; the name of an option follows."""
_FILE_VARIABLE = f"{VARIABLE}CONFIG"
_LONGEST_LINE = 2_000
"""Characters of an error; a list of all settings fits."""


def config_path(option: str, environment: Mapping[str, str] = os.environ) -> str:
    """The YAML file: what the option `penumbra_config` names, else what PENUMBRA_CONFIG names."""
    return option or environment.get(_FILE_VARIABLE, "").strip()


def load(options: Mapping[str, str], environment: Mapping[str, str], config: str = "") -> Settings:
    """Settings from mitmproxy options (unset: empty text), environment and YAML file.

    `options` maps knob names to text. Raises SettingsError for anything that can't be read, and for
    a strategy that lacks what it needs; what the environment put into the file is not shown.
    """
    variables = yaml_file.Variables(environment)
    try:
        return _load(options, environment, config, variables)
    except SettingsError as error:
        line = errors.one_line(variables.hide(str(error)))
        raise SettingsError(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…") from None


def _load(
    options: Mapping[str, str],
    environment: Mapping[str, str],
    config: str,
    variables: yaml_file.Variables,
) -> Settings:
    values: dict[str, Any] = {}
    if config:
        for knob, key, value in yaml_file.read(Path(os.path.expanduser(config)), variables, values):
            values[knob.name] = knob.read(key, value)
    for name in unknown_variables(environment):
        if near := meant(name.removeprefix(VARIABLE), _VARIABLES):
            raise SettingsError(f"{name}: unknown variable, did you mean {VARIABLE}{near}?")
    for knob in KNOBS:
        for name in reversed((f"{VARIABLE}{knob.name.upper()}", *knob.environment)):
            if environment.get(name, "").strip():
                values[knob.name] = knob.read(name, environment[name])
        if options.get(knob.name, "") != "":
            values[knob.name] = knob.read(knob.option, options[knob.name])
    settings = Settings(**values)
    _check_paths(settings, environment)
    if settings.mode is not Mode.DISABLED and (lacking := strategy_check.missing(settings)):
        raise SettingsError(lacking)
    return settings


def _check_paths(settings: Settings, environment: Mapping[str, str]) -> None:
    """A home that is not known would make a folder of the name `~`."""
    path = database_path(settings, environment)
    if path is not None and str(path).startswith("~"):
        raise SettingsError(
            f"penumbra_database: no home folder is known for {str(path)!r}: name a file, or set HOME"
        )


_VARIABLES = ("CONFIG", *(knob.name.upper() for knob in KNOBS))
_OF_OTHERS = re.compile(r"TEST_\w+|SERVICE_\w+|PORT|PORT_\w+")
"""Those of our tests, and those that containers get for a neighbour of this name."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and are none."""
    return sorted(
        name
        for name in environment
        if name.startswith(VARIABLE)
        and (rest := name.removeprefix(VARIABLE)) not in _VARIABLES
        and not _OF_OTHERS.fullmatch(rest)
    )


def database_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the database lies; None for `memory`."""
    if settings.database in ("memory", ":memory:"):
        return None
    if settings.database:
        return Path(os.path.expanduser(settings.database))
    state = environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "penumbra" / "penumbra.sqlite"
