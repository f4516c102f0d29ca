"""kraft://HOST:PORT[,...]: a cluster's metadata log, followed as an observer of its quorum.

    url           addresses of controllers           leadership  which controller to ask
    session       requests to the current leader (in Kafka's protocol: records.log.protocol)
    replica       buffered batches, and which of them are committed
    writer        ACL changes by the active controller
    log           QuorumLog, the MetadataLog made of these

The quorum stores nothing about an observer: it reads as replica -1, and appends nothing. Committed: below the
high watermark that the leader reports.
"""

from __future__ import annotations

from records.log.quorum.log import QuorumLog

__all__ = ["QuorumLog"]
