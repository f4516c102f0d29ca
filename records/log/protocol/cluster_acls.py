"""ClusterAcls: changes the ACLs of a cluster by CreateAcls and DeleteAcls, which every broker accepts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import AclContent
from records.errors import EncodeError
from records.log.cluster_writer import Refusal, Removal
from records.log.protocol.brokers import Brokers
from records.log.protocol.settings import protocol_settings
from records.log.url import parse_bootstrap_servers

_FORM: Final = "HOST:PORT[,HOST:PORT...]"


class ClusterAcls:
    """Not thread-safe. Has no connection between calls. ``url``: of the log that polls these ACLs."""

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str]) -> None:
        """Check the settings; does not connect.

        Raises:
            LogError: invalid servers or settings.
        """
        self.url: Final = f"describe://{bootstrap_servers}"
        servers = parse_bootstrap_servers(self.url, bootstrap_servers, _FORM)
        self._brokers = Brokers(self.url, servers, protocol_settings(client), threading.Event())

    def cluster_id(self) -> str:
        """The id of the cluster. Raises as Brokers.acls."""
        with self._connection():
            return self._brokers.connect()

    def require_writable(self, acls: Iterable[AclContent]) -> None:
        """Raise EncodeError for a code without a name: a broker closes the connection that sends one."""
        for resource_type, name, pattern_type, principal, _, operation, permission_type in acls:
            codes = (
                ResourceType.from_code(resource_type),
                PatternType.from_code(pattern_type),
                AclOperation.from_code(operation),
                AclPermissionType.from_code(permission_type),
            )
            if any(code.is_unknown for code in codes):
                raise EncodeError(
                    f"the ACL of {principal} on `{name}` has a code unknown to this build, and cannot "
                    f"be written: {resource_type}, {pattern_type}, {operation}, {permission_type}"
                )

    def create(self, acls: Sequence[AclContent]) -> list[Refusal | None]:
        """Create ACLs by one request; ACLs in force remain. Returns one result for each, None: in force.

        Raises:
            LogRefusedError: Alter on the cluster is missing; nothing was written.
            LogUnreachableError: no broker answers; nothing was written.
            LogOutcomeUnknownError: no answer to the request.
        """
        with self._connection():
            return self._brokers.create_acls(acls)

    def delete(self, acls: Sequence[AclContent]) -> list[Refusal | list[Removal]]:
        """Remove exactly these ACLs by one request, as far as they are in force. Raises as ``create``."""
        with self._connection():
            return self._brokers.delete_acls(acls)

    @contextmanager
    def _connection(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._brokers.disconnect()
