"""describe://HOST:PORT[,...][/DIR]: a cluster's ACLs, polled from its brokers.

    url          addresses of the brokers, and the directory of the stored polls
    poll_store   the aclog-managed directory log that stores the polls
    log          PolledLog, the MetadataLog made of these; it polls in Kafka's protocol (records.log.protocol)

Describe on the cluster is the only right it needs. A broker returns the complete set of ACLs. The differences
to the set before are appended as one batch, so there are offsets, a history and a digest as in any log.
"""

from __future__ import annotations

from records.log.polled.log import PolledLog

__all__ = ["PolledLog"]
