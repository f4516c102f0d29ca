"""Names of a fleet's clusters, as used in configuration keys, environment variables and HTTP paths."""

from __future__ import annotations

import re
from typing import Final

#: Configuration key that holds a cluster's name. Set internally; no file can set it.
CLUSTER_NAME: Final = "aclog.cluster.name"
#: Name of the only cluster of a process that has no fleet, and of the settings of a fleet's process.
DEFAULT_CLUSTER: Final = ""
#: Path prefix before a cluster's name.
CLUSTERS_PATH: Final = "/clusters/"

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_cluster_name(text: str) -> bool:
    """Whether a text is a valid cluster name: it has no character with a meaning in paths."""
    return _NAME.fullmatch(text) is not None
