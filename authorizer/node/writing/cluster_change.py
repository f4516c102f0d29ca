"""Creations and removals of ACLs by requests to a Kafka cluster, whose controller assigns the ids.

Each item has Kafka's own result. Items that the protocol cannot encode, and those that Kafka refuses by
closing the connection (codes without a name), are refused here with Kafka's message. The others are sent in
one request, which the controller writes as one batch.

Only the log has the ids, so the answers are computed from the ACLs in force before and after: by `answers`,
once everything below the end offset of `write` is replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import ApiError, kafka_error
from authorizer.engine.acl_validation import validate_binding, validate_filter
from records.entries import AccessControlEntryRecord, AclContent, AclRecord
from records.errors import LogReadOnlyError
from records.ids import binding_uuid, content_uuid
from records.log.cluster_writer import AclFilterContent, ClusterWriter, Refusal, Removal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from authorizer.node.writing.acl_control import FindAcl
    from records.acl import AclBinding, AclBindingFilter
    from records.log.base import MetadataLog
    from snapshot.image import AclsImage


class ClusterCreation:
    """A creation of bindings; ``records``: empty, because they are unknown before their replay."""

    records: Final[tuple[AclRecord, ...]] = ()

    def __init__(self, find: FindAcl, bindings: Sequence[AclBinding]) -> None:
        """``find``: returns an ACL in force before the request."""
        self._refused = [_refused(validate_binding, binding) for binding in bindings]
        self._contents = [
            AccessControlEntryRecord.from_binding(binding_uuid(binding), binding).content
            for binding, error in zip(bindings, self._refused, strict=True)
            if error is None
        ]
        self._existing = {content for content in self._contents if find(content) is not None}
        self._refusals: Sequence[Refusal | None] = ()

    def write(self, log: MetadataLog) -> int | None:
        """Send one request; return the end offset of its records, None if there is nothing to send."""
        if not self._contents:
            return None
        end_offset, self._refusals = writer_of(log).create(self._contents)
        return end_offset

    def answers(self, find: FindAcl, image: AclsImage) -> list[AclCreateResult]:
        """Return a result for each binding, by the ACLs in force once the records are replayed."""
        outcomes = iter(zip(self._contents, self._refusals, strict=True))
        results = []
        for error in self._refused:
            if error is not None:
                results.append(AclCreateResult(error))
                continue
            content, refusal = next(outcomes)
            if refusal is not None:
                results.append(AclCreateResult(kafka_error(*refusal)))
            elif content in self._existing:
                results.append(AclCreateResult())
            else:
                self._existing.add(content)  # a repeated binding is one ACL
                results.append(AclCreateResult(record=find(content)))
        return results


class ClusterDeletion:
    """A removal of the ACLs that match filters.

    ``records``: empty, because they are unknown before their replay.
    """

    records: Final[tuple[AclRecord, ...]] = ()

    def __init__(self, acls: Iterable[AccessControlEntryRecord], filters: Sequence[AclBindingFilter]) -> None:
        """``acls``: all ACLs in force before the request; read again for the answers."""
        self._acls = acls
        self._refused = [_refused(validate_filter, each) for each in filters]
        self._filters = [
            _filter_content(each) for each, error in zip(filters, self._refused, strict=True) if error is None
        ]
        self._outcomes: Sequence[Refusal | list[Removal]] = ()

    def write(self, log: MetadataLog) -> int | None:
        """As in ClusterCreation. Raises as ClusterWriter.delete."""
        if not self._filters:
            return None
        end_offset, self._outcomes = writer_of(log).delete(self._filters)
        return end_offset

    def answers(self, find: FindAcl, image: AclsImage) -> list[AclDeleteResult]:
        """Return a result for each filter. An ACL that was created and removed meanwhile has no record."""
        removed = {
            removal.acl
            for outcome in self._outcomes
            if not isinstance(outcome, Refusal)
            for removal in outcome
        }
        names = {content[1] for content in removed}
        records = {
            record.content: record
            for record in (self._acls if removed else ())
            if record.resource_name in names and record.content in removed
        }
        outcomes = iter(self._outcomes)
        return [
            AclDeleteResult(exception=error) if error is not None else _delete_result(next(outcomes), records)
            for error in self._refused
        ]


def writer_of(log: MetadataLog) -> ClusterWriter:
    """Return the log's cluster writer. Raises LogReadOnlyError if it has none."""
    writer = log.cluster_writer
    if writer is None:
        raise LogReadOnlyError(f"{log.url}: its cluster is not asked to write")
    return writer


def _refused(validate: object, item: object) -> ApiError | None:
    try:
        validate(item)  # type: ignore[operator]
    except ApiError as error:
        return error
    return None


def _filter_content(acl_filter: AclBindingFilter) -> AclFilterContent:
    pattern, entry = acl_filter.pattern_filter, acl_filter.entry_filter
    return (
        int(pattern.resource_type),
        pattern.name,
        int(pattern.pattern_type),
        entry.principal,
        entry.host,
        int(entry.operation),
        int(entry.permission_type),
    )


def _delete_result(
    outcome: Refusal | list[Removal], records: dict[AclContent, AccessControlEntryRecord]
) -> AclDeleteResult:
    if isinstance(outcome, Refusal):
        return AclDeleteResult(exception=kafka_error(*outcome))
    return AclDeleteResult(
        tuple(
            AclBindingDeleteResult(
                AccessControlEntryRecord(content_uuid(removal.acl), *removal.acl).binding(),
                None if removal.refusal is None else kafka_error(*removal.refusal),
                records.get(removal.acl) if removal.refusal is None else None,
            )
            for removal in outcome
        )
    )
