"""How far the directory of a live broker or controller is committed, as its cluster says (KIP-595).

The files do not record it. Any broker does, with Describe on the cluster: the leader's epoch and the quorum's
high watermark. The leader's log begins like this directory if the last batch here is of the leader's epoch,
for two logs with the same offset in the same epoch are the same up to there. Only then its high watermark
means these records: what an older leader wrote at the same offsets may be something else.

Asked only while there is something in the files that is not known to be committed, so an idle cluster is not.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from records.errors import LogNotFoundError, LogUnreachableError
from records.log.bootstrap_servers import BOOTSTRAP, parse_bootstrap_servers
from records.log.protocol.brokers import Brokers
from records.log.protocol.settings import PREFIX, protocol_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Between two questions at least: what is written here is committed within about one fetch of a follower.
_PAUSE_S: Final = 0.01


class CommittedEnd:
    """One thread asks at a time; ``close`` is for any."""

    def __init__(self, url: str, cluster_id: str, client: Mapping[str, str]) -> None:
        """Ask nobody yet.

        Args:
            url: of the log, for errors.
            cluster_id: of the log; brokers of another cluster are refused.
            client: ``aclog.kafka.*`` without that prefix, ``bootstrap.servers`` among them.

        Raises:
            LogError: a setting makes no sense, or names another cluster.
        """
        self._url = url
        servers = client[BOOTSTRAP]
        settings = protocol_settings({key: client[key] for key in client if key != BOOTSTRAP})
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
        self._known = 0
        self._not_before_s = 0.0

    def below(self, end_offset: int, epoch: int, certain_end: int) -> int:
        """How much of a log is committed that ends at ``end_offset`` with a batch of ``epoch``.

        ``certain_end``: so much of it is anyway, as the files show.

        Raises:
            LogError: as Brokers.committed.
            LogUnreachableError: also where the files and the quorum's leader are of two epochs.
        """
        if end_offset < self._known:  # what was committed is gone: another log is in its place
            self._known, self._not_before_s = 0, 0.0
        self._known = max(self._known, certain_end)
        if end_offset > self._known and time.monotonic() >= self._not_before_s:
            leader_epoch, committed = self._brokers.committed()
            if epoch != leader_epoch:
                raise LogUnreachableError(
                    f"{self._url}: what is committed from offset {self._known} on is not known: the log ends "
                    f"in epoch {epoch} here, and the quorum's leader is of epoch {leader_epoch}; the log "
                    "becomes current, unless its broker is stopped"
                )
            self._known = max(self._known, min(committed, end_offset))
            self._not_before_s = time.monotonic() + _PAUSE_S
        return self._known

    def close(self) -> None:
        """End the connection, and whatever waits for an answer. Idempotent."""
        self._closing.set()
        self._brokers.abort()
