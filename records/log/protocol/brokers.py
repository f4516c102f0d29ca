"""Brokers: requests that any broker of a cluster answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from records.errors import LogError, LogUnreachableError
from records.log.protocol import requests, responses
from records.log.protocol.cluster_errors import ClusterErrors
from records.log.protocol.connection import FRAME_BYTES_MAX, Connection
from records.log.protocol.response_values import NO_ERROR, ClusterLevels

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from records.entries import AclContent, SupportedLevels
    from records.log.cluster_writer import AclFilterContent, Refusal, Removal
    from records.log.protocol.response_values import DescribedAcls
    from records.log.protocol.responses import DescribedQuorum, ResponseDecoder
    from records.log.protocol.settings import ProtocolSettings
    from records.log.url import Address

#: A million ACLs are some 100 MB, which the broker assembles first.
_ACLS_WAIT_S: Final = 60.0
_ACLS_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024 - 1

#: The active controller may take this long for the largest change.
_CHANGE_WAIT_S: Final = 30.0

#: How long the last known levels of a broker that does not answer are used. Restarts are shorter.
_UNREACHABLE_BROKER_TTL_S: Final = 600.0

_WRONG_LISTENER: Final = "mismatched_endpoint_type"

_T = TypeVar("_T")


class Brokers:
    """Not thread-safe, except ``abort``.

    The broker that answered first is used as long as it answers: another one may lag behind it.

    Attributes:
        cluster_id: as given, or of the first broker that answered; None before. Each connection is checked.
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
        """Send nothing yet; once ``closing`` is set, no request is sent.

        ``cluster_id``: expected id; None: that of the settings, or any.
        """
        self.cluster_id = cluster_id or settings.cluster_id
        self._servers = servers
        self._settings = settings
        self._closing = closing
        self._errors = ClusterErrors(url, settings)
        self._connection: Connection | None = None
        self._version_connection: Connection | None = None
        # By broker id: time of the last answer, or of the first failed request.
        self._last_answer_s: dict[int, float] = {}

    def connect(self) -> str:
        """Check that a broker answers; returns the cluster id. Raises as ``acls``."""
        request = requests.describe_cluster(requests.BROKER_ENDPOINTS)
        return self._send(request, responses.DESCRIBE_CLUSTER, "the cluster's id").cluster_id

    def create_acls(self, acls: Sequence[AclContent]) -> list[Refusal | None]:
        """Create ACLs; one result for each, None: it is in force.

        Raises:
            LogRefusedError: the right to change ACLs is missing; nothing was written.
            LogUnreachableError: no broker answers; nothing was written.
            LogOutcomeUnknownError: no answer to the request, which is not sent again.
            LogError: as ``acls``.
        """
        return self._change(requests.create_acls(acls), responses.CREATE_ACLS, len(acls))

    def delete_acls(self, filters: Sequence[AclFilterContent]) -> list[Refusal | list[Removal]]:
        """Remove the matching ACLs; one result for each filter. Raises as ``create_acls``."""
        return self._change(requests.delete_acls(filters), responses.DELETE_ACLS, len(filters))

    def acls(self, known: bytes = b"") -> DescribedAcls:
        """All ACLs of the cluster, as one broker has replayed them.

        ``known``: digest of a response that is not decoded again.

        Raises:
            LogUnreachableError: no broker answers this request.
            LogRefusedError: authentication failed, or a right is missing, which the text names.
            LogNotFoundError: a broker of another cluster.
            LogError: a broker without an authorizer, a Kafka that is too old, or no broker.
        """
        return self._send(
            requests.describe_acls(),
            responses.describe_acls(known),
            "the ACLs",
            wait_s=_ACLS_WAIT_S,
            bytes_max=_ACLS_BYTES_MAX,
        )

    def committed(self) -> tuple[int, int]:
        """The epoch of the quorum's leader, and its high watermark.

        Raises as ``acls``, and LogUnreachableError if no leader knows it.
        """
        quorum = self._quorum()
        if quorum.high_watermark < 0:
            raise self._errors.no_committed_end()
        return quorum.leader_epoch, quorum.high_watermark

    def controllers(self) -> tuple[Address, ...]:
        """Listeners of the controllers, where the quorum's voters name them (KIP-853). Raises as ``acls``."""
        return self._quorum().controllers

    def _quorum(self) -> DescribedQuorum:
        return self._send(
            requests.describe_quorum(), responses.DESCRIBE_QUORUM, "the end of the metadata log"
        )

    def levels(self, known: Mapping[int, SupportedLevels]) -> ClusterLevels:
        """The cluster's metadata.version, and the levels that each broker's binary supports.

        Each broker reports its own levels, at the address that the cluster names. If one does not answer,
        ``known`` is used for a while; if the levels of one are unknown, none are returned.

        Raises as ``acls``.
        """
        request = requests.describe_cluster(requests.BROKER_ENDPOINTS)
        nodes = self._send(request, responses.DESCRIBE_CLUSTER, "the brokers").nodes
        api = self._send(requests.api_versions(), responses.API_VERSIONS, "metadata.version")
        brokers: dict[int, SupportedLevels] = {}
        for node_id, address in nodes.items():
            # A single broker is the one that has answered.
            supported = api.supported if len(nodes) == 1 else self._supported(address)
            now_s = time.monotonic()
            if supported is not None:
                self._last_answer_s[node_id] = now_s
            elif now_s - self._last_answer_s.setdefault(node_id, now_s) < _UNREACHABLE_BROKER_TTL_S:
                supported = known.get(node_id)
            if supported is None:
                return ClusterLevels(api.metadata_version, {})
            brokers[node_id] = supported
        return ClusterLevels(api.metadata_version, brokers)

    def _change(self, request: Any, decoder: ResponseDecoder[list[_T]], items: int) -> list[_T]:
        """Send a change of ACLs once, to a broker that has just answered."""
        self.connect()
        connection = self._connection
        if connection is None:
            raise self._errors.log_closed()
        self._require(connection, request, decoder)
        try:
            results = connection.send(request, decoder, wait_s=_CHANGE_WAIT_S)
        except LogUnreachableError as error:
            self.disconnect()
            raise self._errors.outcome_unknown(error, decoder.name) from error
        self._errors.check_results(results, items, connection.address, decoder.name)
        return results

    def _supported(self, address: Address) -> SupportedLevels | None:
        """Levels that the binary of this broker supports; None if it does not answer or report them."""
        if self._closing.is_set():
            raise self._errors.log_closed()
        try:
            connection = self._version_connection = Connection(address, self._settings, self._errors)
        except LogError:
            return None
        connection.abort()
        return connection.api.supported

    def abort(self) -> None:
        """Close the connections. Idempotent, from any thread."""
        for connection in (self._connection, self._version_connection):
            if connection is not None:
                connection.abort()

    def _send(
        self,
        request: Any,
        decoder: ResponseDecoder[tuple[str, _T]],
        doing: str,
        *,
        wait_s: float = 0,
        bytes_max: int = FRAME_BYTES_MAX,
    ) -> _T:
        """Send a request on the open connection, or else to the brokers in turn."""
        open_connection = self._connection
        last_error: LogUnreachableError | None = None
        for address in (*([] if open_connection is None else [open_connection.address]), *self._servers):
            try:
                connection = self._connection
                if connection is None:
                    connection = self._connected(address)
                elif wait_s:
                    self._identify(connection)  # detects a hanging broker sooner than the long request
                self._require(connection, request, decoder)
                error, answer = connection.send(request, decoder, wait_s=wait_s, bytes_max=bytes_max)
                self._check(error, address, doing)
            except LogUnreachableError as caught:
                last_error = caught
                self.disconnect()
            except BaseException:
                self.disconnect()
                raise
            else:
                return answer
            if self._closing.is_set():
                break
        raise last_error or self._errors.log_closed()

    def _connected(self, address: Address) -> Connection:
        if self._closing.is_set():
            raise self._errors.log_closed()
        connection = self._connection = Connection(address, self._settings, self._errors)
        if self._closing.is_set():  # `abort` did not see it
            raise self._errors.log_closed()
        self._identify(connection)
        return connection

    def _identify(self, connection: Connection) -> None:
        """Check that the broker answers, and for the expected cluster."""
        address, request = connection.address, requests.describe_cluster(requests.BROKER_ENDPOINTS)
        self._require(connection, request, responses.DESCRIBE_CLUSTER)
        error, described = connection.send(request, responses.DESCRIBE_CLUSTER)
        self._check(error, address, "the cluster's id")
        if self.cluster_id not in (None, described.cluster_id):
            raise self._errors.another_cluster(address, self.cluster_id)
        self.cluster_id = described.cluster_id

    def _require(self, connection: Connection, request: Any, decoder: ResponseDecoder[Any]) -> None:
        version = request.__version__
        low, high = connection.versions.get(request.__api_key__, (0, -1))
        if not low <= version <= high:
            raise self._errors.unsupported_version(connection.address, f"{decoder.name} {version}")

    def _check(self, error: str, address: Address, doing: str) -> None:
        if error == _WRONG_LISTENER:
            raise self._errors.not_a_broker(address)
        if error != NO_ERROR:
            raise self._errors.broker_error(error, address, doing)

    def disconnect(self) -> None:
        """Close the connection; the next request opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
