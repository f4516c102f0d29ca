"""CommittedEnd: the committed end of the directory of a live broker or controller, by its cluster (KIP-595).

The files do not record it. Any broker reports the leader's epoch and the quorum's high watermark, to callers
with Describe on the cluster. If the last batch here has the leader's epoch, this directory is a prefix of the
leader's log, as two logs with the same offset in the same epoch are equal up to it. Only then the high
watermark applies to these records: an older leader may have written other records at the same offsets.

The cluster is asked only while the files have records that may be uncommitted, so never if it is idle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final

from records.errors import LogNotFoundError, LogUnreachableError
from records.log.client_keys import PREFIX, only
from records.log.protocol.brokers import Brokers
from records.log.protocol.settings import protocol_settings
from records.log.url import BOOTSTRAP, parse_bootstrap_servers

#: Minimum interval of queries: a record is committed within about one fetch of a follower.
_QUERY_INTERVAL_S: Final = 0.01


class CommittedEnd:
    """Not thread-safe, except ``close``."""

    def __init__(self, url: str, cluster_id: str, client: Mapping[str, str]) -> None:
        """Check the settings; does not connect.

        Raises:
            LogError: an invalid setting, or another cluster's id.
        """
        self._url = url
        servers = client[BOOTSTRAP]
        settings = protocol_settings(only(client, lambda key: key != BOOTSTRAP))
        if settings.cluster_id not in (None, cluster_id):
            raise LogNotFoundError(
                f"{url}: this log belongs to cluster {cluster_id}, not to {settings.cluster_id}"
            )
        self._closing = threading.Event()
        self._brokers = Brokers(
            url,
            parse_bootstrap_servers(f"{PREFIX}{BOOTSTRAP}={servers}", servers, "HOST:PORT[,HOST:PORT...]"),
            settings,
            self._closing,
            cluster_id=cluster_id,
        )
        self._known_end = 0
        self._next_query_s = 0.0

    def committed_end(self, end_offset: int, epoch: int, certain_end: int) -> int:
        """The committed end of a log that ends at ``end_offset`` with a batch of ``epoch``.

        ``certain_end``: the records below it are committed according to the files.

        Raises:
            LogError: as Brokers.committed.
            LogUnreachableError: also if the files and the quorum's leader have different epochs.
        """
        if end_offset < self._known_end:  # another log is in its place
            self._known_end, self._next_query_s = 0, 0.0
        self._known_end = max(self._known_end, certain_end)
        if end_offset > self._known_end and time.monotonic() >= self._next_query_s:
            leader_epoch, committed = self._brokers.committed()
            if epoch != leader_epoch:
                raise LogUnreachableError(
                    f"{self._url}: what is committed from offset {self._known_end} on is not known: the log "
                    f"ends in epoch {epoch} here, and the quorum's leader is of epoch {leader_epoch}; the "
                    "log becomes current, unless its broker is stopped"
                )
            self._known_end = max(self._known_end, min(committed, end_offset))
            self._next_query_s = time.monotonic() + _QUERY_INTERVAL_S
        return self._known_end

    def close(self) -> None:
        """Close the connection; ends a pending query. Idempotent."""
        self._closing.set()
        self._brokers.abort()
