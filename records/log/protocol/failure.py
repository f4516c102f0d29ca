"""Errors of controllers, brokers and connections in this project's terms, with the way out.

What a user must mend is a LogError (a broker's listener, a Kafka that is too old), another cluster than
before a LogNotFoundError, not being let in a LogRefusedError. All else is a LogUnreachableError: it may go
well later.
"""

from __future__ import annotations

from typing import Final

from records.errors import (
    LogAuthenticationError,
    LogError,
    LogNotFoundError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogRefusedError,
    LogUnreachableError,
)
from records.log.bootstrap_servers import Address
from records.log.listener_probe import tls_mismatch
from records.log.protocol.answers import NOT_ALLOWED
from records.log.protocol.settings import PREFIX

_SECURITY: Final = f"see {PREFIX}security.protocol, {PREFIX}sasl.* and {PREFIX}ssl.*"


class Failure:
    """Makes the errors about one cluster.

    Args:
        url: of the log.
        principal: as which it is asked.
    """

    def __init__(self, url: str, principal: str) -> None:
        self._url = url
        self._principal = principal

    def closed(self) -> LogError:
        """The callers that wait are to stop."""
        return LogError(f"{self._url}: the log is closed")

    def unreachable(self, address: Address, why: str) -> LogUnreachableError:
        """It may answer later."""
        return LogUnreachableError(f"{self._url}: {address}: {why}")

    def hung_up(self, address: Address, doing: str) -> LogUnreachableError:
        """The other side ended the connection."""
        return self.unreachable(
            address, f"the connection was closed while {doing}; if that is always so, {_SECURITY}"
        )

    def not_kafka(self, address: Address, why: str) -> LogUnreachableError:
        """What came is no answer."""
        return self.unreachable(address, f"what it sends is not an answer of Kafka's ({why}); {_SECURITY}")

    def tls(self, address: Address, why: str) -> LogAuthenticationError:
        """No TLS between us."""
        return LogAuthenticationError(f"{self._url}: {address}: TLS: {why}; {_SECURITY}")

    def tls_mismatch(self, address: Address, *, has_tls: bool) -> LogAuthenticationError | None:
        """Where one side has TLS and the other has not; None where that is not the reason."""
        why = tls_mismatch(address, has_tls=has_tls, setting=f"{PREFIX}security.protocol")
        return None if why is None else LogAuthenticationError(f"{self._url}: {why}")

    def not_authenticated(self, address: Address, why: str) -> LogAuthenticationError:
        """It does not believe who we are, or we do not believe it."""
        return LogAuthenticationError(f"{self._url}: {address}: {why}; {_SECURITY}")

    def not_a_controller(self, address: Address) -> LogError:
        """A broker's listener."""
        return LogError(
            f"{self._url}: {address} is not a controller's listener, where alone the metadata log can be "
            "followed: name the controllers' (controller.listener.names, controller.quorum.bootstrap.servers)"
        )

    def too_old(self, address: Address) -> LogError:
        """Older than 3.9."""
        return LogError(f"{self._url}: {address} runs a Kafka older than 3.9, which cannot be followed")

    def not_a_broker(self, address: Address) -> LogError:
        """A controllers' listener."""
        return LogError(
            f"{self._url}: {address} is not a broker's listener, where alone the cluster can be asked for "
            "this: name the brokers' (bootstrap.servers)"
        )

    def unspoken(self, address: Address, what: str) -> LogError:
        """A Kafka that is too old, or has no quorum."""
        return LogError(
            f"{self._url}: {address} does not speak {what}: it runs a Kafka older than 3.9, or one with "
            "ZooKeeper. What `kafka-acls.sh --list` prints is a set of ACLs, too"
        )

    def uncommitted(self) -> LogUnreachableError:
        """A leader without a majority, or none."""
        return LogUnreachableError(
            f"{self._url}: the quorum has no leader that knows what is committed: most of the controllers "
            "are away, or have just started"
        )

    def of_broker(self, error: str, address: Address, doing: str) -> LogError:
        """An error that a broker answers with, by its name in Kafka's protocol, to ``doing``."""
        if error == NOT_ALLOWED:
            return LogRefusedError(
                f"{self._url}: {address}: {self._principal} is not allowed to ask for {doing}, which takes "
                "Describe on the cluster. Grant it: kafka-acls.sh --bootstrap-server HOST:PORT --add "
                f"--allow-principal '{self._principal}' --operation Describe --cluster"
            )
        if error == "security_disabled":
            return LogError(f"{self._url}: {address}: the cluster has no authorizer, and no ACLs")
        return LogUnreachableError(f"{self._url}: {address}: {doing}: {error.upper()}")

    def nameless(self, address: Address) -> LogRefusedError:
        """It lets us follow, and does not say which cluster it is of."""
        return LogRefusedError(
            f"{self._url}: {address}: {self._principal} may follow the metadata log, but not ask which "
            f"cluster's it is, which takes Alter on the cluster. Say it: {PREFIX}cluster.id=ID, as "
            "`kafka-cluster.sh cluster-id --bootstrap-server HOST:PORT` prints it; controllers of another "
            "cluster are then refused"
        )

    def no_name_now(self, address: Address, error: str) -> LogUnreachableError:
        """It cannot say which cluster it is of, as none can that has just started."""
        return self.unreachable(
            address,
            f"it does not say which cluster's it is ({error.upper()}): it has just started, or the cluster's "
            f"metadata.version is below 3.7; if that is always so, say it: {PREFIX}cluster.id=ID",
        )

    def another_cluster(self, address: Address, cluster_id: str | None) -> LogNotFoundError:
        """Not the one that was followed."""
        return LogNotFoundError(
            f"{self._url}: {address} is of another cluster than {cluster_id}, which was found first, or "
            f"named by {PREFIX}cluster.id"
        )

    def no_leader(self, address: Address, error: str) -> LogUnreachableError:
        """It may have one soon."""
        return self.unreachable(address, f"it does not lead, and no leader could be asked ({error.upper()})")

    def of_error(self, error: str, address: Address) -> LogError:
        """An error that a controller answers with, by its name in Kafka's protocol."""
        if error == NOT_ALLOWED:
            return LogRefusedError(
                f"{self._url}: {address}: {self._principal} is not allowed to follow the metadata log, which "
                "takes ClusterAction on the cluster. Grant it: kafka-acls.sh --bootstrap-server HOST:PORT "
                f"--add --allow-principal '{self._principal}' --operation ClusterAction --cluster. Without "
                "that right: --log file:DIR/__cluster_metadata-0 on a broker's or controller's machine, or "
                "a log of aclog's own (file:DIR, kafka://HOST:PORT/TOPIC)"
            )
        return LogUnreachableError(f"{self._url}: {address}: {error.upper()}")

    def may_not_write(self, address: Address) -> LogRefusedError:
        """It lets us follow, and not change its ACLs."""
        return LogRefusedError(
            f"{self._url}: {address}: {self._principal} is not allowed to change ACLs, which takes Alter on "
            "the cluster; nothing of the request was done. Grant it: kafka-acls.sh --bootstrap-server "
            f"HOST:PORT --add --allow-principal '{self._principal}' --operation Alter --cluster"
        )

    def unanswered(self, error: LogUnreachableError, doing: str) -> LogOutcomeUnknownError:
        """A change was sent, and no answer to it came."""
        return LogOutcomeUnknownError(f"{error}; {doing} was sent, and it may be in force or come to be")

    def unseen(self, error: LogUnreachableError, doing: str) -> LogOutcomeUnknownError:
        """A change was answered, and then no controller could be asked."""
        return LogOutcomeUnknownError(f"{error}; {doing} was carried out, and cannot be seen here yet")

    def moving(self, address: Address, doing: str) -> LogUnreachableError:
        """A change was passed on."""
        return self.unreachable(address, f"it does not take {doing}, as it is not the active controller")

    def read_only(self) -> LogReadOnlyError:
        """Records are appended by the quorum's leader alone."""
        return LogReadOnlyError(
            f"{self._url}: a cluster's metadata log is written by its controllers alone. They are asked to "
            "change ACLs by `aclog acls --add` and `--remove`, `aclog apply` and `aclog log copy`"
        )
