"""kraft://HOST:PORT[,...]: a cluster's metadata log, followed as an observer of its quorum.

The quorum stores nothing about an observer: it reads as replica -1, and appends nothing. Committed: below the
high watermark that the leader reports.
"""

from __future__ import annotations

from records.log.quorum.log import QuorumLog

__all__ = ["QuorumLog"]
