"""Creations and removals of ACLs that a Kafka cluster carries out: its controller decides, and makes the ids.

Each item has Kafka's own result. What its protocol cannot carry, and what Kafka refuses by ending the
connection (codes without a name), is refused here, with Kafka's message; the others are asked for all the
same, in one request, which the controller writes as one batch.

Ids are in the log alone, so the answers are made of what is in force before and after: `write`, and once
everything below the end offset that it returned is replayed, `answers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import ApiError, kafka_error
from authorizer.engine.acl_validation import validate_binding, validate_filter
from records.entries import AccessControlEntryRecord
from records.errors import LogReadOnlyError
from records.ids import binding_uuid, content_uuid
from records.log.cluster_writer import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from authorizer.node.writing.acl_control import FindAcl
    from records.acl import AclBinding, AclBindingFilter
    from records.entries import AclContent, AclRecord
    from records.log.base import MetadataLog
    from records.log.cluster_writer import AclFilterContent, ClusterWriter, Removal
    from snapshot.image import AclsImage


class ClusterCreation:
    """Bindings to be created.

    Attributes:
        records: none that are known before they are replayed.
    """

    records: Final[tuple[AclRecord, ...]] = ()

    def __init__(self, find: FindAcl, bindings: Sequence[AclBinding]) -> None:
        """``find``: in what is in force before."""
        self._refused = [_refused(validate_binding, binding) for binding in bindings]
        self._contents = [
            AccessControlEntryRecord.from_binding(binding_uuid(binding), binding).content
            for binding, error in zip(bindings, self._refused, strict=True)
            if error is None
        ]
        self._there = {content for content in self._contents if find(content) is not None}
        self._refusals: Sequence[Refusal | None] = ()

    def write(self, log: MetadataLog) -> int | None:
        """One request; the end offset below which its records are, None if there is nothing to ask for.

        Raises:
            LogError: as ClusterWriter.create.
        """
        if not self._contents:
            return None
        end_offset, self._refusals = writer_of(log).create(self._contents)
        return end_offset

    def answers(self, find: FindAcl, image: AclsImage) -> list[AclCreateResult]:
        """One result for each binding, by what is in force once it is written and replayed."""
        answered = iter(zip(self._contents, self._refusals, strict=True))
        results = []
        for error in self._refused:
            if error is not None:
                results.append(AclCreateResult(error))
                continue
            content, refusal = next(answered)
            if refusal is not None:
                results.append(AclCreateResult(kafka_error(*refusal)))
            elif content in self._there:
                results.append(AclCreateResult())
            else:
                self._there.add(content)  # twice in one request is one ACL
                results.append(AclCreateResult(record=find(content)))
        return results


class ClusterDeletion:
    """Filters whose ACLs are to go.

    Attributes:
        records: none that are known before they are replayed.
    """

    records: Final[tuple[AclRecord, ...]] = ()

    def __init__(self, acls: Iterable[AccessControlEntryRecord], filters: Sequence[AclBindingFilter]) -> None:
        """``acls``: all that are in force before, read again afterwards."""
        self._acls = acls
        self._refused = [_refused(validate_filter, each) for each in filters]
        self._filters = [
            _filter_content(each) for each, error in zip(filters, self._refused, strict=True) if error is None
        ]
        self._found: Sequence[Refusal | list[Removal]] = ()

    def write(self, log: MetadataLog) -> int | None:
        """As ClusterCreation. Raises as ClusterWriter.delete."""
        if not self._filters:
            return None
        end_offset, self._found = writer_of(log).delete(self._filters)
        return end_offset

    def answers(self, find: FindAcl, image: AclsImage) -> list[AclDeleteResult]:
        """One result for each filter. An ACL that came and went meanwhile has no record."""
        gone = {removal.acl for found in self._found if not isinstance(found, Refusal) for removal in found}
        names = {content[1] for content in gone}
        records = {
            record.content: record
            for record in (self._acls if gone else ())
            if record.resource_name in names and record.content in gone
        }
        answered = iter(self._found)
        return [
            AclDeleteResult(exception=error) if error is not None else _delete_result(next(answered), records)
            for error in self._refused
        ]


def writer_of(log: MetadataLog) -> ClusterWriter:
    """Of a log that has one. LogReadOnlyError: this one has not."""
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
    found: Refusal | list[Removal], records: dict[AclContent, AccessControlEntryRecord]
) -> AclDeleteResult:
    if isinstance(found, Refusal):
        return AclDeleteResult(exception=kafka_error(*found))
    return AclDeleteResult(
        tuple(
            AclBindingDeleteResult(
                AccessControlEntryRecord(content_uuid(removal.acl), *removal.acl).binding(),
                None if removal.refusal is None else kafka_error(*removal.refusal),
                records.get(removal.acl) if removal.refusal is None else None,
            )
            for removal in found
        )
    )
