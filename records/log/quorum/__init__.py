"""kraft://HOST:PORT[,...]: a cluster's own metadata log, followed as an observer of its quorum.

What belongs to whom, from the bytes up:

    url           where it is                        leadership  whom to ask
    session       asks the current leader (in Kafka's protocol: records.log.protocol)
    replica       what of the log is here, and what of it counts
    writer        asks the active controller to change ACLs
    log           QuorumLog, the MetadataLog made of these

Nothing of an observer is kept by the quorum: it reads as replica -1, and appends nothing. Committed: below
the high watermark, as the leader says it.
"""

from __future__ import annotations

from records.log.quorum.log import QuorumLog

__all__ = ["QuorumLog"]
