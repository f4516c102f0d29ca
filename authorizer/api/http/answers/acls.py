"""Answers about ACLs and changes of ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from authorizer.api.acl_json import content_texts
from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import api_error
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_from_name
from records.entries import AccessControlEntryRecord
from records.ids import uuid_from_string, uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.api.errors import ApiError
    from records.columns.acl_table import AppliedAcl as AppliedAclRow


class StateAnswer(msgspec.Struct, frozen=True):
    """Base of answers about one state."""

    offset: int
    end_offset: int


class Acl(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An ACL. A code without a name is its number."""

    id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> Acl:
        return Acl(uuid_to_string(record.id), *content_texts(record.content))

    def record(self) -> AccessControlEntryRecord:
        """The record of the ACL. ValueError: a member has no valid value."""
        return AccessControlEntryRecord(
            uuid_from_string(self.id),
            code_from_name(ResourceType, self.resource_type),
            self.resource_name,
            code_from_name(PatternType, self.pattern_type),
            self.principal,
            self.host,
            code_from_name(AclOperation, self.operation),
            code_from_name(AclPermissionType, self.permission_type),
        )


class AppliedAcl(Acl, frozen=True, rename="camel", gc=False):
    """An ACL and the record that wrote it.

    Attributes:
        offset: of the record; null for an ACL from a checkpoint.
        timestamp: of the record, in milliseconds since 1970.
    """

    offset: int | None
    timestamp: int

    @classmethod
    def of_row(cls, acl: AppliedAclRow) -> Self:
        record = acl.record
        return cls(uuid_to_string(record.id), *content_texts(record.content), acl.offset, acl.timestamp_ms)

    def row(self) -> AppliedAclRow:
        """The row. ValueError: a member has no valid value."""
        from records.columns.acl_table import AppliedAcl as Row  # noqa: PLC0415 - numpy, which few users need

        return Row(self.record(), self.offset, self.timestamp)


class AclList(StateAnswer, frozen=True):
    """ACLs that match a filter."""

    acls: list[Acl]


class SingleAcl(StateAnswer, frozen=True):
    """One ACL."""

    acl: AppliedAcl


class ItemError(msgspec.Struct, frozen=True):
    """Why an item was refused: the name and code of Kafka's exception, and its message."""

    name: str
    code: str
    message: str

    @classmethod
    def of(cls, error: ApiError) -> Self:
        return cls(error.kafka_name, error.code_name, str(error))

    def value(self) -> ApiError:
        return api_error(self.name, self.message)


class CreationResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result for one new ACL.

    Attributes:
        created: false if an equal ACL is in force already; absent if the ACL was refused.
    """

    created: bool | None = None
    acl: Acl | None = None
    error: ItemError | None = None

    @classmethod
    def of(cls, result: AclCreateResult) -> Self:
        if result.exception is not None:
            return cls(error=ItemError.of(result.exception))
        return cls(False) if result.record is None else cls(True, Acl.of(result.record))

    def value(self) -> AclCreateResult:
        """The result. ValueError: the answer has none."""
        if self.error is not None:
            return AclCreateResult(self.error.value())
        if self.created is None or (self.created and self.acl is None):
            raise ValueError("a result for a new ACL without `created`, `acl` or `error`")
        return AclCreateResult(record=None if self.acl is None else self.acl.record())


class DeletionResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result for one filter: the removed ACLs; absent if the filter was refused."""

    deleted: list[Acl] | None = None
    error: ItemError | None = None

    @classmethod
    def of(cls, result: AclDeleteResult) -> Self:
        if result.exception is not None:
            return cls(error=ItemError.of(result.exception))
        return cls([*map(Acl.of, result.removed)])

    def value(self) -> AclDeleteResult:
        """The result. ValueError: the answer has none."""
        if self.error is not None:
            return AclDeleteResult(exception=self.error.value())
        if self.deleted is None:
            raise ValueError("a result for a filter without `deleted` or `error`")
        records = [acl.record() for acl in self.deleted]
        return AclDeleteResult(tuple(AclBindingDeleteResult(each.binding(), record=each) for each in records))


class PlanOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result for a plan. The lists are empty if the whole plan was in force already.

    Attributes:
        acl_count: the ACLs that were in force before.
    """

    acl_count: int | None = None
    removed: list[Acl] | None = None
    added: list[Acl] | None = None
    error: ItemError | None = None


class CreationResults(StateAnswer, frozen=True):
    """A result for each ACL, in order; ``offset`` serves as ``min_offset`` to read the change."""

    results: list[CreationResult]

    @classmethod
    def of(cls, results: Iterable[AclCreateResult], end_offset: int) -> Self:
        """The answer for results that are visible at an end offset."""
        return cls(end_offset, end_offset, [*map(CreationResult.of, results)])


class DeletionResults(StateAnswer, frozen=True):
    """A result for each filter, in order; ``offset`` as in CreationResults."""

    results: list[DeletionResult]

    @classmethod
    def of(cls, results: Iterable[AclDeleteResult], end_offset: int) -> Self:
        return cls(end_offset, end_offset, [*map(DeletionResult.of, results)])


class PlanOutcomes(StateAnswer, frozen=True):
    """The result for the plan; ``offset`` as in CreationResults."""

    results: list[PlanOutcome]


class AclChange(msgspec.Struct, frozen=True):
    """Data of the event ``change`` of ``/v1/changes``."""

    offset: int
    removed: list[Acl]
    added: list[Acl]
