"""Short constructors of ACLs and requests, and an authorizer without a log, for unit tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from authorizer.api.audit_levels import OFF
from authorizer.api.authorizer_api import Action, AuthorizationResult, Authorizer, RequestContext
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.listing import list_acls
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.acl import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, MetadataRecord
from records.ids import Uuid
from records.log_batch import LogRecord
from records.principal import parse_kafka_principal
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance

READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP

_ids = count(1)


def topic(name: str) -> ResourcePattern:
    return ResourcePattern(TOPIC, name, PatternType.LITERAL)


def group(name: str) -> ResourcePattern:
    return ResourcePattern(GROUP, name, PatternType.LITERAL)


def topics(prefix: str) -> ResourcePattern:
    """Every topic that starts with ``prefix``."""
    return ResourcePattern(TOPIC, prefix, PatternType.PREFIXED)


def allow(
    principal: str, operation: int, pattern: ResourcePattern, host: str = "*"
) -> AccessControlEntryRecord:
    return _acl(principal, operation, pattern, host, AclPermissionType.ALLOW)


def deny(
    principal: str, operation: int, pattern: ResourcePattern, host: str = "*"
) -> AccessControlEntryRecord:
    return _acl(principal, operation, pattern, host, AclPermissionType.DENY)


def _acl(
    principal: str, operation: int, pattern: ResourcePattern, host: str, permission: AclPermissionType
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        Uuid(next(_ids).to_bytes(16)),
        int(pattern.resource_type),
        pattern.name,
        int(pattern.pattern_type),
        principal,
        host,
        operation,
        int(permission),
    )


class Fed:
    """A StandardAuthorizer and a publisher that feeds it without a log."""

    def __init__(
        self, *acls: MetadataRecord, ready: bool = True, audit: AuditLog | None = None, **config: str
    ) -> None:
        """``config``: Kafka's keys with underscores for dots."""
        self.authorizer = StandardAuthorizer(audit=audit or AuditLog(OFF))
        self.authorizer.configure({key.replace("_", "."): value for key, value in config.items()})
        self.image = AclsImage.EMPTY
        self.publish(*acls)
        if ready:
            self.authorizer.on_ready()

    def publish(self, *records: MetadataRecord) -> None:
        """One batch."""
        delta = AclsDelta(self.image)
        self._publish(delta, records)

    def reload(self, *records: MetadataRecord) -> None:
        """Publish a snapshot that replaces the state."""
        self._publish(AclsDelta(AclsImage.EMPTY), records)

    def _publish(self, delta: AclsDelta, records: Iterable[MetadataRecord]) -> None:
        offset = self.image.provenance.end_offset
        for record in records:
            delta.replay(LogRecord(offset, 1_000 + offset, record))
            offset += 1
        self.image = delta.apply(Provenance(offset, 0, 1_000 + offset))
        self.authorizer.on_update(delta, self.image, None)  # type: ignore[arg-type] # the authorizer ignores it

    def allows(
        self, principal: str, operation: AclOperation, pattern: ResourcePattern, host: str = "10.0.0.1"
    ) -> bool:
        return may(self.authorizer, principal, operation, pattern, host)

    def applied(self, acl_filter: AclBindingFilter) -> Iterator[AppliedAcl]:
        """The ACLs that match, with ids, offsets, and codes without a name."""
        return list_acls(self.authorizer.state.index, acl_filter).acls()


def may(
    authorizer: Authorizer,
    principal: str,
    operation: AclOperation,
    pattern: ResourcePattern,
    host: str = "10.0.0.1",
) -> bool:
    (result,) = authorizer.authorize(context(principal, host), [Action(operation, pattern)])
    return result is AuthorizationResult.ALLOWED


def context(principal: str = "User:a", host: str = "10.0.0.1") -> RequestContext:
    return RequestContext(parse_kafka_principal(principal), host)
