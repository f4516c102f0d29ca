"""Names of the clusters of a fleet: in keys, in variables, and in the paths by which they are asked. Pure."""

from __future__ import annotations

import re
from typing import Final

#: Key of the configuration of one cluster of a fleet: its name. No file can set it.
CLUSTER_NAME: Final = "aclog.cluster.name"
#: Before a cluster's name, in a path.
CLUSTERS_PATH: Final = "/clusters/"

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_cluster_name(text: str) -> bool:
    """Whether a cluster may be called so: nothing in it means anything in a path."""
    return _NAME.fullmatch(text) is not None
