"""Brokers: a cluster's brokers, any of which is asked for what takes Describe on the cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from records.errors import LogError, LogUnreachableError
from records.log.protocol import requests, responses
from records.log.protocol.answers import NO_ERROR, ClusterLevels
from records.log.protocol.connection import FRAME_BYTES_MAX, Connection
from records.log.protocol.failure import Failure

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from records.entries import SupportedLevels
    from records.log.bootstrap_servers import Address
    from records.log.protocol.answers import DescribedAcls
    from records.log.protocol.responses import Answering
    from records.log.protocol.settings import ProtocolSettings

#: A million ACLs are some 100 MB, which the broker puts together first.
_ACLS_WAIT_S: Final = 60.0
_ACLS_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024 - 1

#: How long a broker that does not answer is taken for what it was. A restart with another release is shorter.
_SILENT_S: Final = 600.0

_WRONG_LISTENER: Final = "mismatched_endpoint_type"

_T = TypeVar("_T")


class Brokers:
    """One thread asks; ``abort`` is for any.

    The broker that answered is asked again as long as it answers: another one may be behind it.

    Attributes:
        cluster_id: as given, or of the first broker that answered; None before. All are asked for it.
    """

    def __init__(
        self,
        url: str,
        servers: Sequence[Address],
        settings: ProtocolSettings,
        closing: threading.Event,
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Ask nobody yet.

        Args:
            url: for errors.
            servers: whom to ask, in this order.
            settings: how; they may name the cluster.
            closing: when it is set nobody is asked any more.
            cluster_id: which cluster is meant; None: that which the settings name, or any.
        """
        self.cluster_id = cluster_id or settings.cluster_id
        self._servers = servers
        self._settings = settings
        self._closing = closing
        self._failure = Failure(url, settings.principal)
        self._connection: Connection | None = None
        self._asked_once: Connection | None = None
        # By broker id, when each last said what it supports, or was first asked in vain.
        self._answered_s: dict[int, float] = {}

    def acls(self, known: bytes = b"") -> DescribedAcls:
        """All that the cluster has, as one broker has replayed them.

        ``known``: the digest of an answer that need not be read again.

        Raises:
            LogUnreachableError: no broker answers, or none with what was asked for.
            LogRefusedError: one does not let us in, or not ask that; the text names the right.
            LogNotFoundError: one is of another cluster.
            LogError: one has no authorizer, is too old, or is no broker.
        """
        return self._ask(
            requests.describe_acls(),
            responses.describe_acls(known),
            "the ACLs",
            wait_s=_ACLS_WAIT_S,
            bytes_max=_ACLS_BYTES_MAX,
        )

    def committed(self) -> tuple[int, int]:
        """The epoch of the quorum's leader, and one past the last offset that it knows to be committed.

        Raises as ``acls``; LogUnreachableError too where there is no leader that knows it.
        """
        doing = "how far the metadata log is committed"
        epoch, end = self._ask(requests.describe_quorum(), responses.DESCRIBE_QUORUM, doing)
        if end < 0:
            raise self._failure.uncommitted()
        return epoch, end

    def levels(self, known: Mapping[int, SupportedLevels]) -> ClusterLevels:
        """Which metadata.version the cluster has, and what each broker's binary supports.

        Each broker is asked for itself, where the cluster says that it listens. One that does not answer is
        for a while taken as ``known`` from earlier; where one is not known, none is.

        Raises as ``acls``.
        """
        asked = requests.describe_cluster(requests.BROKERS)
        nodes = self._ask(asked, responses.DESCRIBE_BROKERS, "the brokers")
        api = self._ask(requests.api_versions(), responses.API_VERSIONS_AGAIN, "metadata.version")
        brokers: dict[int, SupportedLevels] = {}
        for node_id, address in nodes.items():
            # If there is one alone, it is the one that has answered.
            supported = api.supported if len(nodes) == 1 else self._supported(address)
            now_s = time.monotonic()
            if supported is not None:
                self._answered_s[node_id] = now_s
            elif now_s - self._answered_s.setdefault(node_id, now_s) < _SILENT_S:
                supported = known.get(node_id)
            if supported is None:
                return ClusterLevels(api.metadata_version, {})
            brokers[node_id] = supported
        return ClusterLevels(api.metadata_version, brokers)

    def _supported(self, address: Address) -> SupportedLevels | None:
        """What the binary of the broker there supports; None if it does not answer or does not say."""
        if self._closing.is_set():
            raise self._failure.closed()
        try:
            connection = self._asked_once = Connection(address, self._settings, self._failure)
        except LogError:
            return None
        connection.abort()
        return connection.api.supported

    def abort(self) -> None:
        """End the connections. Idempotent, from any thread."""
        for connection in (self._connection, self._asked_once):
            if connection is not None:
                connection.abort()

    def _ask(
        self,
        request: Any,
        answering: Answering[tuple[str, _T]],
        doing: str,
        *,
        wait_s: float = 0,
        bytes_max: int = FRAME_BYTES_MAX,
    ) -> _T:
        """Ask on the connection that there is, and else the brokers in turn."""
        kept = self._connection
        trouble: LogUnreachableError | None = None
        for address in (*([] if kept is None else [kept.address]), *self._servers):
            try:
                connection = self._connection
                if connection is None:
                    connection = self._connected(address)
                elif wait_s:
                    self._identify(connection)  # one that hangs is known sooner than by the long question
                self._require(connection, request, answering)
                error, answer = connection.ask(request, answering, wait_s=wait_s, bytes_max=bytes_max)
                self._check(error, address, doing)
            except LogUnreachableError as caught:
                trouble = caught
                self._drop()
            except BaseException:
                self._drop()
                raise
            else:
                return answer
            if self._closing.is_set():
                break
        raise trouble or self._failure.closed()

    def _connected(self, address: Address) -> Connection:
        if self._closing.is_set():
            raise self._failure.closed()
        connection = self._connection = Connection(address, self._settings, self._failure)
        if self._closing.is_set():  # `abort` did not see it
            raise self._failure.closed()
        self._identify(connection)
        return connection

    def _identify(self, connection: Connection) -> None:
        """See that it answers, and for the cluster that is meant."""
        address, request = connection.address, requests.describe_cluster(requests.BROKERS)
        self._require(connection, request, responses.DESCRIBE_CLUSTER)
        described = connection.ask(request, responses.DESCRIBE_CLUSTER)
        self._check(described.error, address, "the cluster's id")
        if self.cluster_id not in (None, described.cluster_id):
            raise self._failure.another_cluster(address, self.cluster_id)
        self.cluster_id = described.cluster_id

    def _require(self, connection: Connection, request: Any, answering: Answering[Any]) -> None:
        version = request.__version__
        low, high = connection.versions.get(request.__api_key__, (0, -1))
        if not low <= version <= high:
            raise self._failure.unspoken(connection.address, f"{answering.name} {version}")

    def _check(self, error: str, address: Address, doing: str) -> None:
        if error == _WRONG_LISTENER:
            raise self._failure.not_a_broker(address)
        if error != NO_ERROR:
            raise self._failure.of_broker(error, address, doing)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
