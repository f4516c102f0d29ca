"""Keys of one cluster of a fleet; ``aclog.clusters`` names the clusters.

``aclog.cluster.NAME.KEY`` is KEY for one cluster, without a leading ``aclog.`` as in variables:
``aclog.cluster.eu.log.url``, ``aclog.cluster.eu.super.users``, ``aclog.cluster.eu.kafka.sasl.password``. It
wins over KEY, which holds for all clusters; only the log's URL has no common value. Keys of the process, such
as listeners, cannot be set per cluster.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.key import ACLOG_PREFIX, CLIENT_PREFIX, variable_of
from authorizer.configuration.keys.names import CLUSTERS, LOG_URL
from authorizer.configuration.keys.table import BY_NAME, KEYS

CLUSTER_PREFIX: Final = "aclog.cluster."

_CLUSTER_KEY: Final = re.compile(re.escape(CLUSTER_PREFIX) + r"([^.]*)\.(.+)")
_PER_CLUSTER: Final = {key.name.removeprefix(ACLOG_PREFIX): key.name for key in KEYS if key.is_per_cluster}
_CLIENT: Final = CLIENT_PREFIX.removeprefix(ACLOG_PREFIX)


class ClusterKey(NamedTuple):
    """A cluster and the name of the key that it sets."""

    cluster: str
    name: str


def cluster_key(cluster: str, name: str) -> str:
    """Return the key that sets ``name`` for one cluster."""
    return f"{CLUSTER_PREFIX}{cluster}.{name.removeprefix(ACLOG_PREFIX)}"


def parse_cluster_key(written: str) -> ClusterKey | None:
    """Parse a key of one cluster; None for other keys, and for one that cannot be set per cluster."""
    matched = _CLUSTER_KEY.fullmatch(written)
    name = None if matched is None else _full_name(matched[2])
    return None if matched is None or name is None else ClusterKey(matched[1], name)


def require_cluster_key(written: str, text: str, clusters: Iterable[str]) -> None:
    """Raise ConfigError for a key that begins as one of a cluster's but is invalid."""
    matched = _CLUSTER_KEY.fullmatch(written)
    name, short = (matched[1], matched[2]) if matched else ("", "")
    if name not in clusters:
        known = ", ".join(clusters) or "none"
        raise ConfigError(
            written, text, f"{CLUSTER_PREFIX}NAME.KEY, of a NAME in {CLUSTERS}; they are {known}"
        )
    if _full_name(short) is not None:
        return
    if short in BY_NAME or ACLOG_PREFIX + short in BY_NAME:
        raise ConfigError(written, text, "this key is the process's, and the same for all clusters")
    similar = difflib.get_close_matches(short, _PER_CLUSTER, n=1)
    hint = f"did you mean `{similar[0]}`?" if similar else f"they are {', '.join(_PER_CLUSTER)}, {_CLIENT}*"
    raise ConfigError(written, text, f"a cluster has no such key; {hint}")


def cluster_key_of_variable(variable: str, clusters: Iterable[str]) -> str | None:
    """Return the cluster's key that an environment variable sets, if any."""
    for cluster in sorted(clusters, key=len, reverse=True):
        prefix = variable_of(f"{CLUSTER_PREFIX}{cluster}.")
        if variable.startswith(prefix):
            rest = variable.removeprefix(prefix)
            for short in _PER_CLUSTER:
                if rest == _capitals(short):
                    return cluster_key(cluster, short)
            client = _capitals(_CLIENT)
            if rest.startswith(client):
                return cluster_key(cluster, _CLIENT + rest.removeprefix(client).lower().replace("_", "."))
    return None


def texts_of_cluster(texts: Mapping[str, Mapping[str, str]], cluster: str) -> dict[str, dict[str, str]]:
    """Return one cluster's keys and texts, by source; a later source wins.

    A cluster's own key wins over the same key for all clusters, whatever their sources.
    """
    general = {
        source: {name: text for name, text in each.items() if not is_cluster_key(name) and name != LOG_URL}
        for source, each in texts.items()
    }
    for source, each in texts.items():
        for written, text in each.items():
            key = parse_cluster_key(written)
            if key is not None and key.cluster == cluster:
                for other_texts in general.values():
                    other_texts.pop(key.name, None)
                general[source][key.name] = text
    return general


def is_cluster_key(written: str) -> bool:
    """Whether a key begins as one of a cluster's."""
    return written.startswith(CLUSTER_PREFIX)


def is_per_cluster(name: str) -> bool:
    """Whether a key, by its name without a cluster, can be set per cluster."""
    key = BY_NAME.get(name)
    return name.startswith(CLIENT_PREFIX) if key is None else key.is_per_cluster


def _full_name(short: str) -> str | None:
    if short in _PER_CLUSTER:
        return _PER_CLUSTER[short]
    is_client = short.startswith(_CLIENT) and short != _CLIENT and ACLOG_PREFIX + short not in BY_NAME
    return ACLOG_PREFIX + short if is_client else None


def _capitals(name: str) -> str:
    return name.upper().replace(".", "_")
