"""The settings in force: mitmproxy's options, the environment, and the YAML file, which is watched."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from mitmproxy import ctx, flowfilter, http

from penumbra import user_rules
from penumbra.config.options import OPTIONS
from penumbra.config.settings import (
    CONFIG_OPTION,
    Settings,
    SettingsError,
    config_path,
    load,
    remarks,
    unknown_options,
    unknown_variables,
    unprefixed_options,
)
from penumbra.conversation.engine_settings import EngineSettings
from penumbra.errors import one_line
from penumbra.redaction import RuleError, ruleset

_log = logging.getLogger(__name__)


class CurrentSettings:
    """State: the settings, and what was read for them. Frozen parts are replaced together or not at all."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.made_with = EngineSettings.of(self.settings)
        """What an engine for them is made with."""
        self._filter: flowfilter.TFilter | None = None
        self._rules: str | None = None
        """The setting by which the user's folder of rules was read."""
        self._file_state: tuple[int, int] | None = None
        self._told: set[str] = set()

    def report_unknown(self) -> None:
        """A misspelt option would otherwise be ignored for ever."""
        names = ctx.options.deferred
        for line in unknown_options(names) + unprefixed_options(names, ctx.options.keys()):
            _log.error(line)
        for name in unknown_variables(os.environ):
            _log.warning(f"{name}: Penumbra reads no variable of this name.")

    def read(self) -> None:
        """Read everything anew. Raises SettingsError, and then all stays as it was."""
        options = {option.name: getattr(ctx.options, option.full_name) for option in OPTIONS}
        self._file_state = _state_of_file()
        settings = load(options, os.environ, _path())
        rules = self._user_rules(settings)
        try:
            chosen = flowfilter.parse(settings.filter) if settings.filter else None
        except ValueError as error:
            raise SettingsError(
                f"penumbra_filter: got {settings.filter!r}, allowed: a mitmproxy filter expression ({error})"
            ) from None
        self._use_rules(settings, rules)
        made_with = EngineSettings.of(settings, rules)
        self.settings = settings.untouched() if settings.pause else settings
        self.made_with, self._filter = made_with, chosen
        for line in remarks(settings):
            if line not in self._told:
                self._told.add(line)
                _log.warning(f"Penumbra: {line}")

    def read_changed_file(self) -> bool:
        """Read everything again if the YAML file has changed; a bad one leaves everything as it was."""
        path = _path()
        if not path or _state_of_file() == self._file_state:
            return False
        try:
            self.read()
        except SettingsError as error:
            _log.warning(f"Penumbra keeps its settings: {error}")
            return False
        _log.info(f"Penumbra has read {path} again.")
        return True

    def select(self, flow: http.HTTPFlow) -> bool:
        """Whether the operator's filter lets the flow be ours."""
        return self._filter is None or bool(flowfilter.match(self._filter, flow))

    def _use_rules(self, settings: Settings, loaded: ruleset.Loaded | None) -> None:
        """Put the user's folder of rules in force, if what is allowed fits them."""
        before = self._rules
        self._use_folder(settings)
        try:
            if any(entry.startswith("rule:") for entry in settings.secrets_allow):
                ruleset.allowed(settings.secrets_allow, ruleset.rules(loaded, only=settings.gitleaks_only))
        except RuleError as error:
            if self._rules != before:
                self._use_folder(self.settings)
            raise SettingsError(str(error)) from None

    def _use_folder(self, settings: Settings) -> None:
        """Read the user's folder of rules again where the settings name another one."""
        if settings.rules == self._rules:
            return
        try:
            folder = user_rules.folder_of(settings.rules)
        except RuleError as error:
            raise SettingsError(f"penumbra_rules: {error}") from None
        for problem in user_rules.use(folder):
            _log.warning(f"penumbra_rules: left out: {one_line(problem)}")
        self._rules = settings.rules

    def _user_rules(self, settings: Settings) -> ruleset.Loaded | None:
        """What the user's gitleaks.toml holds; read again only where the settings name another one."""
        now = self.settings
        if (settings.gitleaks_config, settings.gitleaks_only) == (now.gitleaks_config, now.gitleaks_only):
            return self.made_with.user_rules
        try:
            loaded = ruleset.user_rules(settings.gitleaks_config, only=settings.gitleaks_only)
        except RuleError as error:
            raise SettingsError(str(error)) from None
        for warning in loaded.warnings if loaded else ():
            _log.warning(f"penumbra_gitleaks_config: {warning}")
        return loaded


def _path() -> str:
    return config_path(getattr(ctx.options, CONFIG_OPTION))


def _state_of_file() -> tuple[int, int] | None:
    path = _path()
    try:
        state = Path(os.path.expanduser(path)).stat() if path else None
    except OSError:
        return None
    return (state.st_mtime_ns, state.st_size) if state else None
