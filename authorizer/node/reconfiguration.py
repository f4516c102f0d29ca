"""Atomic changes of a running node's settings (KIP-504: Reconfigurable).

- ``reload`` (SIGHUP) reads the file again; the environment and the flags of the start still win. The result
  is the same as after a restart.
- ``put`` (``PUT /v1/config``) sets values over all of these. They are not stored: the next reload or restart
  drops them.
- All values are checked before any takes effect. One invalid value, or a new value of a key that is not
  dynamic, refuses the complete change.
- Each change is logged with its old and its new value; secrets are hidden.
- A fleet has settings of the process and of each cluster. A reload changes all of them atomically; a put
  changes one cluster, and only keys that can be set per cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final, NamedTuple

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
from authorizer.configuration.load import CONFIG_FLAG, Config, ConfigInputs

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
    """A key's old and new value, as texts of a file; None: unset. Secrets are hidden."""

    name: str
    old: str | None
    new: str | None


class Reconfiguration:
    """The settings of one node, and the subscribers of new settings. Thread-safe.

    ``config``: the present settings.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._put: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._subscribers: list[Callable[[Config], None]] = []

    def subscribe(self, on_change: Callable[[Config], None], known: Config | None = None) -> None:
        """Call ``on_change``, which must not raise, with each new configuration, in the changing thread.

        ``known``: the configuration that the subscriber started with; if it is outdated, ``on_change`` is
        called immediately.
        """
        with self._lock:
            self._subscribers.append(on_change)
            if known not in (None, self.config):
                on_change(self.config)

    def unsubscribe(self, on_change: Callable[[Config], None]) -> None:
        with self._lock:
            self._subscribers.remove(on_change)

    def reload(self, by: str, clusters: Sequence[Reconfiguration] = ()) -> list[Change]:
        """Apply the file's present content, and drop the values of ``put``.

        ``by`` is the originator, for the log; ``clusters`` of a fleet are changed atomically. Nothing has
        changed if it raises: ConfigError, there is no file, or a value in it is not allowed;
        RestartNeededError, a key has changed that is not dynamic.
        """
        with ExitStack() as locks:
            for each in (self, *clusters):
                locks.enter_context(each._lock)  # noqa: SLF001 - of this class, as below
            inputs = self.config.inputs
            if inputs.path is None:
                raise ConfigError(CONFIG_FLAG, "", "it was started without a file, so there is none to read")
            inputs = inputs.reread()
            new = [(self, inputs.config()), *((each, each._config_of(inputs)) for each in clusters)]  # noqa: SLF001
            # All are checked before any takes effect.
            checked = [(each, config, _changes(each.config, config)) for each, config in new]
            for each, config, changes in checked:
                each._change(config, {}, changes, by)  # noqa: SLF001
            return [change for _, _, changes in checked for change in changes]

    def reload_on_sighup(self, clusters: Sequence[Reconfiguration] = ()) -> None:
        """Reload, and log an error: the sender of a signal gets no answer."""
        try:
            self.reload("SIGHUP", clusters)
        except (ConfigError, RestartNeededError) as error:
            log.warning("settings_not_changed", by="SIGHUP", reason=str(error))
        except Exception:
            log.exception("settings_not_changed", by="SIGHUP")

    def put(self, texts: Mapping[str, str | None], by: str, *, is_trial: bool = False) -> list[Change]:
        """Set dynamic keys over all other sources; None drops the value of an earlier ``put``.

        ``is_trial``: return the changes without making them. Nothing has changed if it raises: ConfigError, a
        value is not allowed; RestartNeededError, a key is not dynamic.
        """
        with self._lock:
            _require_dynamic(texts, self.config)
            merged = {**self._put, **texts}
            put = {name: text for name, text in merged.items() if text is not None}
            config = self.config.inputs.config(put)
            changes = _changes(self.config, config)
            if not is_trial:
                self._change(config, put, changes, by)
            return changes

    def adopt(self, inputs: ConfigInputs, put: Mapping[str, str]) -> None:
        """Apply settings that another process of this sidecar has checked and logged."""
        with self._lock:
            self._apply(inputs.config(put), put)

    def _apply(self, config: Config, put: Mapping[str, str]) -> None:
        self.config, self._put = config, put
        for on_change in self._subscribers:
            on_change(config)

    def _config_of(self, inputs: ConfigInputs) -> Config:
        return replace(inputs, cluster=self.config.cluster).config()

    def _change(self, config: Config, put: Mapping[str, str], changes: Sequence[Change], by: str) -> None:
        self._apply(config, put)
        cluster = {} if config.cluster is None else {"cluster": config.cluster}
        for change in changes:
            log.warning("setting_changed", key=change.name, old=change.old, new=change.new, by=by, **cluster)
        if not changes:
            log.info("no_setting_changed", by=by, **cluster)


def _changes(old: Config, new: Config) -> list[Change]:
    names = [
        name
        for name in sorted(old.properties.keys() | new.properties.keys())
        if _is_key_of(name, old)
        and old.properties.get(name) != new.properties.get(name)
        and _value(name, old) != _value(name, new)
    ]
    _require_dynamic(names, old)
    return [Change(name, shown_text(name, old), shown_text(name, new)) for name in names]


def _require_dynamic(names: Iterable[str], config: Config) -> None:
    """Raise RestartNeededError for a key that is not dynamic, or cannot be set for this cluster."""
    dynamic = [name for name in DYNAMIC_KEYS if _is_key_of(name, config)]
    if static := [name for name in names if name not in dynamic]:
        cluster = config.cluster
        shown = static if cluster is None else [cluster_key(cluster, name) for name in static]
        raise RestartNeededError(shown, dynamic)


def _is_key_of(name: str, config: Config) -> bool:
    """Whether a key belongs to these settings: in a fleet, to the process or to the cluster."""
    if not config.clusters:
        return True
    return not is_cluster_key(name) and is_per_cluster(name) is (config.cluster is not None)


def shown_text(name: str, config: Config) -> str | None:
    """Return a key's text or its default; a secret is hidden."""
    key = BY_NAME.get(name)
    text = config.properties.get(name, key.default if key else None)
    return HIDDEN if text is not None and is_secret(name) else text


def _value(name: str, config: Config) -> object:
    """Return a key's value; None for a key that aclog does not use."""
    key = BY_NAME.get(name)
    if key is None:
        return config.properties.get(name) if name.startswith((*CLIENT_PREFIXES, LISTENER_PREFIX)) else None
    return getattr(config, _EFFECTIVE_VALUES.get(name, key.attribute))
