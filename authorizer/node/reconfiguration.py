"""Settings of a running node, changed whole or not at all (KIP-504: Reconfigurable).

- ``reload`` (SIGHUP): what the file says now, under the environment and the flags of the start. What runs
  then is what a restart would run.
- ``put`` (``PUT /v1/config``): values over all of these. They are written nowhere: the next reload, or a
  restart, ends them.
- All of it is checked before any of it is taken. A value that is not allowed refuses all, and so does a new
  value of a key that is not dynamic.
- What has changed is in the log with its old and its new value, secrets hidden.
- A fleet has the process's settings and those of each cluster. One reload is of all of them, whole or not at
  all; a put is of one cluster, and of keys that may be each cluster's own.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from authorizer.api.errors import ConfigError, RestartNeededError
from authorizer.api.secret_keys import HIDDEN, is_secret
from authorizer.configuration.clusters import cluster_key, is_cluster_key, is_per_cluster
from authorizer.configuration.keys.key import CLIENT_PREFIXES
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    CONSOLE_LISTENERS,
    EARLY_START_LISTENERS,
    LISTENER_PREFIX,
    LISTENERS,
)
from authorizer.configuration.keys.table import BY_NAME, KEYS
from authorizer.configuration.load import CONFIG_FLAG, Config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from authorizer.configuration.load import ConfigInputs

log = structlog.get_logger(__name__)

DYNAMIC_KEYS: Final = tuple(key.name for key in KEYS if key.is_dynamic)
#: Attributes of Config that several keys determine.
_EFFECTIVE_VALUES: Final = {
    LISTENERS: "listeners",
    ACLOG_LISTENERS: "listeners",
    EARLY_START_LISTENERS: "early_start_listeners",
    CONSOLE_LISTENERS: "console_listeners",
}


class Change(NamedTuple):
    """A key's new value, as it would be written in a file; None: unset. Secrets are hidden."""

    name: str
    old: str | None
    new: str | None


class Reconfiguration:
    """The settings of one node, and who takes new ones. Thread-safe.

    Attributes:
        config: as it is now.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._put: Mapping[str, str] = {}
        self._changing = threading.Lock()
        self._takers: list[Callable[[Config], None]] = []

    def add(self, take: Callable[[Config], None], begun_with: Config | None = None) -> None:
        """Call ``take`` with each new configuration, which is sound; it must not raise.

        Args:
            take: called from the thread that changes them.
            begun_with: what it has had before, if it may be late: it is called at once if that is not what
                they are now.
        """
        with self._changing:
            self._takers.append(take)
            if begun_with not in (None, self.config):
                take(self.config)

    def remove(self, take: Callable[[Config], None]) -> None:
        """No more."""
        with self._changing:
            self._takers.remove(take)

    def reload(self, by: str, clusters: Sequence[Reconfiguration] = ()) -> list[Change]:
        """Take what the file says now; what was put is forgotten.

        Args:
            by: for the log.
            clusters: those of a fleet whose process's settings these are: all or none.

        Raises:
            ConfigError: there is no file, or a value in it is not allowed. Nothing has changed then.
            RestartNeededError: a key has changed that is not dynamic. The same.
        """
        with ExitStack() as changing:
            for each in (self, *clusters):
                changing.enter_context(each._changing)  # noqa: SLF001 - of this class, as below
            inputs = self.config.inputs
            if inputs.path is None:
                raise ConfigError(CONFIG_FLAG, "", "it was started without a file, so there is none to read")
            inputs = inputs.reread()
            new = [(self, inputs.config()), *((each, each._config_of(inputs)) for each in clusters)]  # noqa: SLF001
            # All are checked before any is taken.
            found = [(each, config, _changes(each.config, config)) for each, config in new]
            for each, config, changes in found:
                each._change(config, {}, changes, by)  # noqa: SLF001
            return [change for _, _, changes in found for change in changes]

    def reload_on_hangup(self, clusters: Sequence[Reconfiguration] = ()) -> None:
        """``reload`` for a signal, whose sender reads the log."""
        try:
            self.reload("SIGHUP", clusters)
        except (ConfigError, RestartNeededError) as error:
            log.warning("settings_not_changed", by="SIGHUP", reason=str(error))
        except Exception:
            log.exception("settings_not_changed", by="SIGHUP")

    def put(self, texts: Mapping[str, str | None], by: str, *, is_trial: bool = False) -> list[Change]:
        """Set dynamic keys over everything else, None: to what they would be without ``put``.

        Args:
            texts: by key.
            by: for the log.
            is_trial: say what would change, and change nothing.

        Raises:
            ConfigError: a value is not allowed. Nothing has changed then.
            RestartNeededError: a key is not dynamic. The same.
        """
        with self._changing:
            _require_dynamic(texts, self.config)
            merged = {**self._put, **texts}
            put = {name: text for name, text in merged.items() if text is not None}
            config = self.config.inputs.config(put)
            changes = _changes(self.config, config)
            if not is_trial:
                self._change(config, put, changes, by)
            return changes

    def follow(self, inputs: ConfigInputs, put: Mapping[str, str]) -> None:
        """Take what another process, which was started with the same settings, has checked and logged."""
        with self._changing:
            self._take(inputs.config(put), put)

    def _take(self, config: Config, put: Mapping[str, str]) -> None:
        self.config, self._put = config, put
        for take in self._takers:
            take(config)

    def _config_of(self, inputs: ConfigInputs) -> Config:
        """Its cluster's, of what the file says."""
        return replace(inputs, cluster=self.config.cluster).config()

    def _change(self, config: Config, put: Mapping[str, str], changes: Sequence[Change], by: str) -> None:
        self._take(config, put)
        whose = {} if config.cluster is None else {"cluster": config.cluster}
        for change in changes:
            log.warning("setting_changed", key=change.name, old=change.old, new=change.new, by=by, **whose)
        if not changes:
            log.info("no_setting_changed", by=by, **whose)


def _changes(old: Config, new: Config) -> list[Change]:
    """What differs.

    Raises:
        RestartNeededError: a key that is not dynamic.
    """
    names = [
        name
        for name in sorted(old.properties.keys() | new.properties.keys())
        if _is_of(name, old)
        and old.properties.get(name) != new.properties.get(name)
        and _value(name, old) != _value(name, new)
    ]
    _require_dynamic(names, old)
    return [Change(name, shown_text(name, old), shown_text(name, new)) for name in names]


def _require_dynamic(names: Iterable[str], config: Config) -> None:
    """RestartNeededError: a key is not dynamic, or in a fleet no cluster's."""
    dynamic = [name for name in DYNAMIC_KEYS if _is_of(name, config)]
    if static := [name for name in names if name not in dynamic]:
        cluster = config.cluster
        shown = static if cluster is None else [cluster_key(cluster, name) for name in static]
        raise RestartNeededError(shown, dynamic)


def _is_of(name: str, config: Config) -> bool:
    """Whether a key is one of those that these settings are: in a fleet, the process's or the cluster's."""
    if not config.clusters:
        return True
    return not is_cluster_key(name) and is_per_cluster(name) is (config.cluster is not None)


def shown_text(name: str, config: Config) -> str | None:
    """A key's text, or its default; hidden where it is a secret."""
    key = BY_NAME.get(name)
    text = config.properties.get(name, key.default if key else None)
    return HIDDEN if text is not None and is_secret(name) else text


def _value(name: str, config: Config) -> object:
    """What a key means; None where aclog has no use for it: in a broker's own file."""
    key = BY_NAME.get(name)
    if key is None:
        return config.properties.get(name) if name.startswith((*CLIENT_PREFIXES, LISTENER_PREFIX)) else None
    return getattr(config, _EFFECTIVE_VALUES.get(name, key.attribute))
