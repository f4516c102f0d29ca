"""describe://HOST:PORT[,...][/DIR]: a cluster's ACLs, polled from its brokers.

Describe on the cluster is the only right it needs. A broker returns the complete set of ACLs. The differences
to the set before are appended as one batch, so there are offsets, a history and a digest as in any log.
"""

from __future__ import annotations

from records.log.polled.log import PolledLog

__all__ = ["PolledLog"]
