"""How many files a process may have open: each connection is one."""

from __future__ import annotations

import resource
from typing import Final

import structlog

log = structlog.get_logger(__name__)

#: Those of the log, the snapshots, the Kafka client and the interpreter.
_OTHERS: Final = 512


def allow_connections(count: int) -> None:
    """Raise this process's limit of open files for these connections; warn where too little is allowed."""
    needed = count + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        log.warning(
            "few_open_files",
            limit=hard,
            needed=needed,
            way_out="raise the limit (LimitNOFILE of systemd, ulimit -n), or set fewer connections",
        )
        needed = hard
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
