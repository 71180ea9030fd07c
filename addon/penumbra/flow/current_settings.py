"""This module keeps the current settings and their engine. Settings come from mitmproxy's options, the
environment and the watched YAML file.

At its beginning, a request gets a handle on the current settings and engine. The request uses these until its
end, even if the settings change. A replaced engine closes when its last handle ends.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from mitmproxy import ctx, flowfilter, http

from penumbra import short_texts, user_rules
from penumbra.config.options import OPTIONS
from penumbra.config.settings import (
    CONFIG_OPTION,
    Settings,
    SettingsError,
    config_path,
    load,
    remarks,
    retired_options,
    unknown_options,
    unknown_variables,
    unprefixed_options,
)
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import EngineSettings
from penumbra.errors import one_line
from penumbra.metrics.amounts import ExternalMetrics
from penumbra.redaction import RuleError, ruleset


@dataclass(eq=False)
class _SharedEngine:
    """A `_SharedEngine` is an engine and the number of its handles."""

    engine: Engine
    handles: int = 0
    is_retired: bool = False


# These engines belong to the process and not to the addon: a reload of the script makes a new addon while
# responses continue.
_DRAINING: set[_SharedEngine] = set()
"""Engines that were replaced and still have handles."""


class EngineHandle:
    """An `EngineHandle` has the settings and the engine of one request, from its beginning to its end."""

    def __init__(self, shared: _SharedEngine, settings: Settings) -> None:
        self._shared: _SharedEngine | None = shared
        self.engine = shared.engine
        self.settings = settings
        shared.handles += 1

    def __enter__(self) -> EngineHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def share(self) -> EngineHandle:
        """Return another handle on the same engine, for work that may take longer."""
        if self._shared is None:
            raise ValueError("the handle has ended")
        return EngineHandle(self._shared, self.settings)

    def end(self) -> None:
        """End the handle. A second call does nothing."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.handles -= 1
            if shared.is_retired:
                _close_unused(shared)


class Engines:
    """An `Engines` keeps the current engine. All methods run on the event loop."""

    def __init__(self, metrics: ExternalMetrics, listening: Callable[[], Collection[int]]) -> None:
        self._metrics = metrics
        self._listening = listening
        self.current: _SharedEngine | None = None

    def handle(self, settings: Settings, made_with: EngineSettings) -> EngineHandle:
        """Return a handle on the engine for these settings. Changed settings make a new engine."""
        if self.current is None or self.current.engine.settings != made_with:
            self.current = self._replaced(self.current, made_with)
        return EngineHandle(self.current, settings)

    def _replaced(self, old: _SharedEngine | None, made_with: EngineSettings) -> _SharedEngine:
        """Return a new engine, with the old engine's database if the place of the database has not
        changed."""
        same = old is not None and old.engine.settings.database == made_with.database
        database = old.engine.database if old is not None and same else None
        shares = old is not None and old.engine.settings.shared == made_with.shared
        shared = old.engine.shared if old is not None and shares else None
        engine = Engine(made_with, self._metrics, self._listening, database, shared)
        if old is not None:
            _retire(old)
        return _SharedEngine(engine)

    def forget(self) -> None:
        """Delete all content in the current engine's database and memories."""
        if (old := self.current) is not None:
            old.engine.forget()
            short_texts.forget()
            # All other memories end with the engine.
            self.current = self._replaced(old, old.engine.settings)

    def close(self, *, at_once: bool) -> None:
        """Close each engine when no request uses it. With `at_once`, close all engines now."""
        if self.current is not None:
            _retire(self.current)
            self.current = None
        while at_once and _DRAINING:
            _DRAINING.pop().engine.close()


def _retire(shared: _SharedEngine) -> None:
    shared.is_retired = True
    _DRAINING.add(shared)
    _close_unused(shared)


def _close_unused(shared: _SharedEngine) -> None:
    if not shared.handles and shared in _DRAINING:
        _DRAINING.discard(shared)
        shared.engine.close()


_log = logging.getLogger(__name__)


class CurrentSettings:
    """A `CurrentSettings` keeps the settings and their rules. A change replaces all of them, or none."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.made_with = EngineSettings.of(self.settings)
        """The part of the settings that makes an engine."""
        self._filter: flowfilter.TFilter | None = None
        self._rules: str | None = None
        """The setting that names the current folder of the user's rules; None before the first read."""
        self._file_state: tuple[int, int] | None = None
        self._logged: set[str] = set()

    def report_unknown(self) -> None:
        """Log unknown and retired options, and unknown environment variables."""
        names = ctx.options.deferred
        for line in unknown_options(names) + unprefixed_options(names, ctx.options.keys()):
            _log.error(line)
        for line in retired_options(names):
            _log.warning(line)
        for name in unknown_variables(os.environ):
            _log.warning(f"{name}: Penumbra reads no variable of this name.")

    def read(self) -> None:
        """Read everything again. On failure, the current settings stay and SettingsError is raised."""
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
            if line not in self._logged:
                self._logged.add(line)
                _log.warning(f"Penumbra: {line}")

    def read_changed_file(self) -> bool:
        """Read everything again if the YAML file has changed. A bad file changes nothing."""
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
        """Return whether the operator's filter lets Penumbra handle the flow."""
        return self._filter is None or bool(flowfilter.match(self._filter, flow))

    def _use_rules(self, settings: Settings, loaded: ruleset.Loaded | None) -> None:
        """Use the user's folder of rules, if the entries of `penumbra_secrets_allow` fit these rules. Raises
        SettingsError."""
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
        """Read the user's folder of rules if the settings name another folder. Raises SettingsError."""
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
        """Return the rules of the user's gitleaks.toml. The file is read again only if its settings have
        changed. Raises SettingsError."""
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
