"""Errors of controllers, brokers and connections as LogError, with the way out.

A LogError needs a user's correction (wrong listener, Kafka too old); LogNotFoundError: another cluster than
before; LogRefusedError: access denied. All else is a LogUnreachableError: a later attempt may succeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from records.errors import (
    LogAuthenticationError,
    LogError,
    LogNotFoundError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogRefusedError,
    LogUnreachableError,
)
from records.log.client_keys import PREFIX, SECURITY_PROTOCOL
from records.log.cluster_writer import Refusal
from records.log.listener_probe import tls_mismatch
from records.log.protocol.response_values import NOT_ALLOWED
from records.log.url import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.log.protocol.settings import ProtocolSettings


class ClusterErrors:
    """Factory of the errors about one cluster."""

    def __init__(self, url: str, settings: ProtocolSettings) -> None:
        self._url = url
        self._principal = settings.principal
        self._mechanism = settings.mechanism
        self._keys = settings.keys

    def log_closed(self) -> LogError:
        """Ends the calls that wait."""
        return LogError(f"{self._url}: the log is closed")

    def unreachable(self, address: Address, why: str) -> LogUnreachableError:
        return LogUnreachableError(f"{self._url}: {address}: {why}")

    def connection_closed(self, address: Address, doing: str) -> LogUnreachableError:
        return self.unreachable(
            address, f"the connection was closed while {doing}; if this repeats, {self._keys.security()}"
        )

    def malformed_response(self, address: Address, why: str) -> LogUnreachableError:
        return self.unreachable(address, f"malformed response ({why}); {self._keys.security()}")

    def tls_failed(self, address: Address, why: str) -> LogAuthenticationError:
        return LogAuthenticationError(f"{self._url}: {address}: TLS: {why}; {self._keys.tls_advice(why)}")

    def tls_mismatch(self, address: Address, *, has_tls: bool) -> LogAuthenticationError | None:
        """The error if only one side uses TLS; None if that is not the reason."""
        why = tls_mismatch(address, has_tls=has_tls, setting=self._keys.named(SECURITY_PROTOCOL))
        return None if why is None else LogAuthenticationError(f"{self._url}: {why}")

    def login_missing(self, address: Address) -> LogAuthenticationError:
        named = self._keys.named(SECURITY_PROTOCOL)
        return LogAuthenticationError(
            f"{self._url}: {address} requires a login: set {named} to SASL_SSL or SASL_PLAINTEXT"
        )

    def no_such_mechanism(self, address: Address, why: str) -> LogAuthenticationError:
        named = self._keys.named("sasl.mechanism")
        return LogAuthenticationError(f"{self._url}: {address}: {why}; set {named} to one of them")

    def not_authenticated(self, address: Address, why: str) -> LogAuthenticationError:
        """Authentication failed, on either side."""
        advice = self._keys.login_advice(self._mechanism)
        return LogAuthenticationError(f"{self._url}: {address}: {self._mechanism}: {why}; {advice}")

    def not_a_controller(self, address: Address) -> LogError:
        return LogError(
            f"{self._url}: {address} is not a controller's listener, where alone the metadata log can be "
            "followed: name the controllers' (controller.listener.names, controller.quorum.bootstrap.servers)"
        )

    def too_old(self, address: Address) -> LogError:
        return LogError(f"{self._url}: {address} runs a Kafka older than 3.9, which cannot be followed")

    def not_a_broker(self, address: Address) -> LogError:
        return LogError(
            f"{self._url}: {address} is not a broker's listener, where alone the cluster can be asked for "
            "this: name the brokers' (bootstrap.servers)"
        )

    def unsupported_version(self, address: Address, what: str) -> LogError:
        return LogError(
            f"{self._url}: {address} does not speak {what}: it runs a Kafka older than 3.9, or one with "
            "ZooKeeper. What `kafka-acls.sh --list` prints is a set of ACLs, too"
        )

    def no_committed_end(self) -> LogUnreachableError:
        """The quorum has no leader, or one without a majority."""
        return LogUnreachableError(
            f"{self._url}: the quorum has no leader that knows what is committed: most of the controllers "
            "are away, or have just started"
        )

    def broker_error(self, error: str, address: Address, doing: str) -> LogError:
        """A broker's error, by its name in Kafka's protocol, while requesting ``doing``."""
        if error == NOT_ALLOWED:
            return LogRefusedError(
                f"{self._url}: {address}: {self._principal} is not allowed to ask for {doing}, which takes "
                "Describe on the cluster. Grant it: kafka-acls.sh --bootstrap-server HOST:PORT --add "
                f"--allow-principal '{self._principal}' --operation Describe --cluster"
            )
        if error == "security_disabled":
            return LogError(f"{self._url}: {address}: the cluster has no authorizer, and no ACLs")
        return LogUnreachableError(f"{self._url}: {address}: {doing}: {error.upper()}")

    def cluster_id_not_allowed(self, address: Address) -> LogRefusedError:
        return LogRefusedError(
            f"{self._url}: {address}: {self._principal} may follow the metadata log, but not ask which "
            f"cluster's it is, which takes Alter on the cluster. Say it: {PREFIX}cluster.id=ID, as "
            "`kafka-cluster.sh cluster-id --bootstrap-server HOST:PORT` prints it; controllers of another "
            "cluster are then refused"
        )

    def cluster_id_unavailable(self, address: Address, error: str) -> LogUnreachableError:
        """The controller does not know the cluster id yet: it has just started."""
        return self.unreachable(
            address,
            f"it does not say which cluster's it is ({error.upper()}): it has just started, or the cluster's "
            f"metadata.version is below 3.7; if that is always so, say it: {PREFIX}cluster.id=ID",
        )

    def another_cluster(self, address: Address, cluster_id: str | None) -> LogNotFoundError:
        return LogNotFoundError(
            f"{self._url}: {address} is of another cluster than {cluster_id}, which was found first, or "
            f"named by {PREFIX}cluster.id"
        )

    def no_leader(self, address: Address, error: str) -> LogUnreachableError:
        """No leader now; an election may follow."""
        return self.unreachable(address, f"it does not lead, and no leader could be asked ({error.upper()})")

    def controller_error(self, error: str, address: Address) -> LogError:
        """A controller's error, by its name in Kafka's protocol."""
        if error == NOT_ALLOWED:
            return LogRefusedError(
                f"{self._url}: {address}: {self._principal} is not allowed to follow the metadata log, which "
                "takes ClusterAction on the cluster. Grant it: kafka-acls.sh --bootstrap-server HOST:PORT "
                f"--add --allow-principal '{self._principal}' --operation ClusterAction --cluster. Without "
                "that right: --log file:DIR/__cluster_metadata-0 on a broker's or controller's machine, or "
                "a log of aclog's own (file:DIR, kafka://HOST:PORT/TOPIC)"
            )
        return LogUnreachableError(f"{self._url}: {address}: {error.upper()}")

    def alter_not_allowed(self, address: Address) -> LogRefusedError:
        return LogRefusedError(
            f"{self._url}: {address}: {self._principal} is not allowed to change ACLs, which takes Alter on "
            "the cluster; nothing of the request was done. Grant it: kafka-acls.sh --bootstrap-server "
            f"HOST:PORT --add --allow-principal '{self._principal}' --operation Alter --cluster"
        )

    def check_results(self, results: Sequence[object], items: int, address: Address, doing: str) -> None:
        """Check the response to a change of ACLs.

        Raises:
            LogRefusedError: the right to change ACLs is missing.
            LogOutcomeUnknownError: it has another number of results than the request had items.
        """
        if len(results) != items:
            malformed = self.malformed_response(address, f"{len(results)} results for {items} items")
            raise self.outcome_unknown(malformed, doing)
        if any(isinstance(result, Refusal) and result.code == NOT_ALLOWED.upper() for result in results):
            raise self.alter_not_allowed(address)

    def outcome_unknown(self, error: LogUnreachableError, doing: str) -> LogOutcomeUnknownError:
        """A change was sent, and its response is missing."""
        return LogOutcomeUnknownError(f"{error}; {doing} was sent, and it may be in force or come to be")

    def end_offset_unknown(self, error: LogUnreachableError, doing: str) -> LogOutcomeUnknownError:
        """A change was carried out, and then no controller reported the log's end."""
        return LogOutcomeUnknownError(f"{error}; {doing} was carried out, and cannot be seen here yet")

    def not_active_controller(self, address: Address, doing: str) -> LogUnreachableError:
        return self.unreachable(address, f"it does not take {doing}, as it is not the active controller")

    def read_only(self) -> LogReadOnlyError:
        """Only the quorum's leader appends records."""
        return LogReadOnlyError(
            f"{self._url}: a cluster's metadata log is written by its controllers alone. They are asked to "
            "change ACLs by `aclog acls --add` and `--remove`, `aclog apply` and `aclog log copy`"
        )
