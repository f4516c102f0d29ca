"""A fleet in a configuration: ``aclog.clusters`` names its clusters, and each has keys of its own.

``aclog.cluster.NAME.KEY`` is KEY for that cluster alone, KEY without a leading ``aclog.`` as in variables:
``aclog.cluster.eu.log.url``, ``aclog.cluster.eu.super.users``, ``aclog.cluster.eu.kafka.sasl.password``. What
a cluster has no key of its own for is as the file says it for all; only the log is always its own. Keys that
are the process's, such as listeners, are the same for all.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.key import ACLOG_PREFIX, CLIENT_PREFIX, variable_of
from authorizer.configuration.keys.names import CLUSTERS, LOG_URL
from authorizer.configuration.keys.table import BY_NAME, KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CLUSTER_PREFIX: Final = "aclog.cluster."

_CLUSTER_KEY: Final = re.compile(re.escape(CLUSTER_PREFIX) + r"([^.]*)\.(.+)")
_OF_CLUSTERS: Final = {key.name.removeprefix(ACLOG_PREFIX): key.name for key in KEYS if key.of_cluster}
_CLIENT: Final = CLIENT_PREFIX.removeprefix(ACLOG_PREFIX)


class ClusterKey(NamedTuple):
    """A key of one cluster: whose, and which one it stands for."""

    cluster: str
    name: str


def cluster_key(cluster: str, name: str) -> str:
    """How a key is written for one cluster."""
    return f"{CLUSTER_PREFIX}{cluster}.{name.removeprefix(ACLOG_PREFIX)}"


def cluster_key_of(written: str) -> ClusterKey | None:
    """What a key is that is written so; None if it is of no cluster, or may not be."""
    matched = _CLUSTER_KEY.fullmatch(written)
    name = None if matched is None else _meant(matched[2])
    return None if matched is None or name is None else ClusterKey(matched[1], name)


def require_cluster_key(written: str, text: str, clusters: Iterable[str]) -> None:
    """Raise ConfigError for a key that begins as a cluster's and is none."""
    matched = _CLUSTER_KEY.fullmatch(written)
    name, short = (matched[1], matched[2]) if matched else ("", "")
    if name not in clusters:
        named = ", ".join(clusters) or "none"
        raise ConfigError(
            written, text, f"{CLUSTER_PREFIX}NAME.KEY, of a NAME in {CLUSTERS}; they are {named}"
        )
    if _meant(short) is not None:
        return
    if short in BY_NAME or ACLOG_PREFIX + short in BY_NAME:
        raise ConfigError(written, text, "this key is the process's, and the same for all clusters")
    alike = difflib.get_close_matches(short, _OF_CLUSTERS, n=1)
    hint = f"did you mean `{alike[0]}`?" if alike else f"they are {', '.join(_OF_CLUSTERS)}, {_CLIENT}*"
    raise ConfigError(written, text, f"a cluster has no such key; {hint}")


def key_of_variable(variable: str, clusters: Iterable[str]) -> str | None:
    """The cluster's key that an environment variable sets; None if it sets none."""
    for cluster in sorted(clusters, key=len, reverse=True):
        begins = variable_of(f"{CLUSTER_PREFIX}{cluster}.")
        if variable.startswith(begins):
            rest = variable.removeprefix(begins)
            for short in _OF_CLUSTERS:
                if rest == _capitals(short):
                    return cluster_key(cluster, short)
            client = _capitals(_CLIENT)
            if rest.startswith(client):
                return cluster_key(cluster, _CLIENT + rest.removeprefix(client).lower().replace("_", "."))
    return None


def texts_of_cluster(texts: Mapping[str, Mapping[str, str]], cluster: str) -> dict[str, dict[str, str]]:
    """Keys and texts by source, in the order in which later ones win, as they are for one cluster.

    Its own win over those for all clusters, whatever their source.
    """
    general = {
        source: {name: text for name, text in each.items() if not is_clusters(name) and name != LOG_URL}
        for source, each in texts.items()
    }
    for source, each in texts.items():
        for written, text in each.items():
            key = cluster_key_of(written)
            if key is not None and key.cluster == cluster:
                for others in general.values():
                    others.pop(key.name, None)
                general[source][key.name] = text
    return general


def is_clusters(written: str) -> bool:
    """Whether a key is one cluster's."""
    return written.startswith(CLUSTER_PREFIX)


def is_of_cluster(name: str) -> bool:
    """Whether a key, by its own name, may differ from cluster to cluster."""
    key = BY_NAME.get(name)
    return name.startswith(CLIENT_PREFIX) if key is None else key.of_cluster


def _meant(short: str) -> str | None:
    if short in _OF_CLUSTERS:
        return _OF_CLUSTERS[short]
    is_client = short.startswith(_CLIENT) and short != _CLIENT and ACLOG_PREFIX + short not in BY_NAME
    return ACLOG_PREFIX + short if is_client else None


def _capitals(name: str) -> str:
    return name.upper().replace(".", "_")
