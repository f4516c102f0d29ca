"""Limits connections by how many files a process may have open: each connection is one."""

from __future__ import annotations

import resource
from typing import Final

import structlog

from authorizer.configuration.keys.names import MAX_CONNECTIONS

log = structlog.get_logger(__name__)

#: Files that are no connections of clients: of the log, the store, the Kafka client, other workers, the
#: console and the interpreter. And those that each cluster of a fleet adds.
_RESERVED: Final = 512
_RESERVED_PER_CLUSTER: Final = 64


def allow_connections(wanted: int, extra: int, clusters: int = 1) -> int:
    """Raise this process's limit of open files for its connections, as far as it may.

    Args:
        wanted: connections that are to be admitted.
        extra: connections beyond those, for health.
        clusters: how many the process follows.

    Returns:
        How many may be admitted, so that the other files can still be opened: ``wanted``, or fewer, with a
        warning. Never none.
    """
    reserved = _RESERVED + _RESERVED_PER_CLUSTER * (clusters - 1) + extra
    needed = wanted + reserved
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit == needed:
        return wanted
    # Where even the reserve is more than there is, the half of what there is.
    admitted = max(limit - reserved, limit // 2 - extra, 1)
    log.warning(
        "few_open_files",
        limit=limit,
        needed=needed,
        connections=admitted,
        way_out=f"raise the limit of open files to {needed} (LimitNOFILE of systemd, ulimit -n), or set "
        f"{MAX_CONNECTIONS} to {admitted}: more are not admitted",
    )
    return admitted
