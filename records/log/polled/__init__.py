"""describe://HOST:PORT[,...][/DIR]: a cluster's ACLs, asked of its brokers again and again.

    url     where the brokers are, and where what they answer is kept
    kept    the log of aclog's own that it is kept in
    log     PolledLog, the MetadataLog made of these; it is asked in Kafka's protocol (records.log.wire)

Describe on the cluster is all that it takes. The answer of a broker is the whole set: what differs from the
answer before is appended as one batch, so there are offsets, a past and a digest as in any log.
"""

from __future__ import annotations

from records.log.polled.log import PolledLog

__all__ = ["PolledLog"]
