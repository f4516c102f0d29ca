"""Blame: the records of a history that changed an answer.

The subject is a request, or whether an ACL is in force. Only the few related ACLs of a history are followed:
they form an index, by which `authorize` decides. If no release is configured, the rules are those of the
release that the log's brokers had registered at that offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from authorizer.api.ip_address import host_matches
from authorizer.api.kafka_version import VersionInForce
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.reason import matching_acls
from authorizer.engine.decisions.rules import Rule, acl_principals, allows, covers_operation, is_super_user
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from authorizer.engine.index.acl_index import AclIndex
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import WILDCARD
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import (
    AccessControlEntryRecord,
    BrokerRecord,
    FeatureLevelRecord,
    RemoveAccessControlEntryRecord,
)
from snapshot.columns import has_id
from snapshot.delta import AclsDelta
from snapshot.image import NOWHERE, AclsImage, restore_image
from snapshot.metadata_image import MetadataImage

if TYPE_CHECKING:
    import numpy.typing as npt

    from authorizer.api.authorizer_api import Action, RequestContext
    from authorizer.engine.decisions.decision import Decision
    from records.ids import Uuid
    from records.log_batch import LogRecord


class SubjectAnswer(NamedTuple):
    """The answer to a subject at one offset.

    Attributes:
        holds: whether the request is allowed, or the ACL in force.
        decision: the decision on a request; None for an ACL.
        by: the ACLs that cause it, each of which suffices; empty if the cause is that no ACL matches.
    """

    holds: bool
    decision: Decision | None
    by: tuple[AppliedAcl, ...]


class Subject(Protocol):
    """The request or ACL whose answer blame follows.

    ``needs_broker_records``: whether its answer depends on registrations of brokers.
    """

    @property
    def needs_broker_records(self) -> bool: ...

    def is_related(self, record: AccessControlEntryRecord) -> bool:
        """Return whether an ACL is related to the subject."""

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        """Return for each row of a table whether it is related."""

    def version(self, metadata: MetadataImage) -> VersionInForce | None:
        """Return the release whose rules apply; None: all releases give the same answer."""

    def index(self, image: AclsImage) -> AclIndex:
        """Return the index to answer from."""

    def answer(self, index: AclIndex) -> SubjectAnswer:
        """Return the answer; the index has the related ACLs, and may have more."""


@dataclass(frozen=True, slots=True)
class RequestSubject:
    """A request. See `Subject`."""

    context: RequestContext
    action: Action
    settings: AuthorizerSettings

    @property
    def needs_broker_records(self) -> bool:
        return self.settings.kafka_version is None

    @property
    def is_of_super_user(self) -> bool:
        """Whether the caller is a super user, so that no ACL matters."""
        return is_super_user(self.settings.super_names, self.context.principal)

    def is_related(self, record: AccessControlEntryRecord) -> bool:
        return (
            record.resource_type == self.action.resource_pattern.resource_type
            and self._covers(record.resource_name, is_literal=record.pattern_type == LITERAL_PATTERN)
            and self._has_principal(record.principal)
            and self._has_host(record.host)
            and (self.settings.allow_everyone or covers_operation(record, self.action.operation))
        )

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        is_literal = table.pattern_types == LITERAL_PATTERN
        literal, prefixed = (
            table.names.where(partial(self._covers, is_literal=each)) for each in (True, False)
        )
        found = np.where(is_literal, literal, prefixed)
        found &= table.resource_types == int(self.action.resource_pattern.resource_type)
        found &= table.principals.where(self._has_principal)
        found &= table.hosts.where(self._has_host)
        rows = np.flatnonzero(found)
        found[rows] = [self.is_related(record) for record in table.records(rows)]
        return found

    def version(self, metadata: MetadataImage) -> VersionInForce:
        return VersionInForce.of(self.settings.kafka_version, metadata.brokers, metadata.metadata_version)

    def index(self, image: AclsImage) -> AclIndex:
        return self.settings.index(image)

    def answer(self, index: AclIndex) -> SubjectAnswer:
        decision = decide(AuthorizerState(index, self.settings), self.context, self.action)
        by: tuple[AppliedAcl, ...] = ()
        if decision.rule is Rule.MATCHING_ACL:
            matching = matching_acls(index, self.context, self.action)
            by = tuple(acl for acl in matching if allows(acl.record) is decision.is_allowed)
        return SubjectAnswer(decision.is_allowed, decision, by)

    def _covers(self, name: str, *, is_literal: bool) -> bool:
        requested = self.action.resource_pattern.name
        return name in (requested, WILDCARD) if is_literal else requested.startswith(name)

    # With allow.everyone.if.no.acl.found any ACL that covers the name is related.

    def _has_principal(self, principal: str) -> bool:
        if self.is_of_super_user:
            return False
        return self.settings.allow_everyone or principal in acl_principals(self.context.principal)

    def _has_host(self, host: str) -> bool:
        # Networks match if no release is configured: so the ACLs that match by any release are related.
        networks = self.settings.networks.deny
        return self.settings.allow_everyone or host_matches(
            host, self.context.client_address, networks=networks
        )


@dataclass(frozen=True, slots=True)
class AclSubject:
    """An ACL, by its id or by its content. See `Subject`."""

    id: Uuid | None = None
    content: tuple[int, str, int, str, str, int, int] | None = None

    @property
    def needs_broker_records(self) -> bool:
        return False

    def is_related(self, record: AccessControlEntryRecord) -> bool:
        return record.id == self.id if self.content is None else record.content == self.content

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        if self.content is None:
            return has_id(table.ids, self.id or b"")
        resource_type, name, _, principal, *_ = self.content
        found: npt.NDArray[np.bool_] = table.resource_types == resource_type
        found &= table.names.where(name.__eq__) & table.principals.where(principal.__eq__)
        rows = np.flatnonzero(found)
        found[rows] = [self.is_related(record) for record in table.records(rows)]
        return found

    def version(self, _metadata: MetadataImage) -> None:
        return None

    def index(self, image: AclsImage) -> AclIndex:
        return AclIndex.of(image)

    def answer(self, index: AclIndex) -> SubjectAnswer:
        by = sorted(
            (acl for acl in index.image if self.is_related(acl.record)), key=lambda acl: acl.record.id
        )
        return SubjectAnswer(bool(by), None, tuple(by))


class Change(NamedTuple):
    """The effect of one record.

    Attributes:
        acl: the ACL that is in force now, or is not any more.
        replaced: the ACL that it replaced.
    """

    kind: Literal["added", "replaced", "removed"]
    offset: int
    timestamp_ms: int
    acl: AccessControlEntryRecord
    replaced: AccessControlEntryRecord | None = None


class NewRelease(NamedTuple):
    """The rules of another release apply, because brokers registered or left."""

    offset: int
    timestamp_ms: int
    version: str
    previous: str


class AnswerChange(NamedTuple):
    """A change of the answer, or of the ACLs that cause it; and the records that caused it."""

    changes: tuple[Change | NewRelease, ...]
    before: SubjectAnswer
    after: SubjectAnswer

    @property
    def is_decision_change(self) -> bool:
        """Whether the answer is another one, not the same by other ACLs."""
        return self.before.holds != self.after.holds


class DecisionTracker:
    """The answer to a subject as records of a history are applied.

    ``answer``: the answer after the last step.
    """

    def __init__(
        self,
        subject: Subject,
        acls: Collection[AppliedAcl],
        metadata: MetadataImage = MetadataImage.EMPTY,
    ) -> None:
        """Start from the related ACLs in force, and other known metadata."""
        self._subject = subject
        image = restore_image([AclTable.of(acls)], provenance=NOWHERE, metadata=metadata)
        self._index = subject.index(image)
        self.answer = subject.answer(self._index)

    @property
    def ids(self) -> Iterable[Uuid]:
        """The ids of the related ACLs in force."""
        return [acl.record.id for acl in self._index.image]

    def apply(self, records: Iterable[LogRecord]) -> AnswerChange | None:
        """Apply records that become visible together; return the change of the answer, or None."""
        image = self._index.image
        delta, metadata = AclsDelta(image), image.metadata
        changes: list[Change | NewRelease | None] = []
        for logged in records:
            match logged.record:
                case AccessControlEntryRecord() as record:
                    was = delta.get(record.id)
                    changes.append(_put(logged, record, None if was is None else was.record))
                case RemoveAccessControlEntryRecord(id=acl_id):
                    removed = delta.get(acl_id)
                    changes.append(None if removed is None else _removed(logged, removed.record))
                case (BrokerRecord() | FeatureLevelRecord()) as record:
                    before, metadata = metadata, metadata.with_record(record)
                    changes.append(self._new_release(logged, before, metadata))
            delta.replay(logged)
        image = delta.apply(NOWHERE)
        has_same_rules = self._subject.version(image.metadata) == self._subject.version(
            self._index.image.metadata
        )
        self._index = self._index.with_delta(delta, image) if has_same_rules else self._subject.index(image)
        last, self.answer = self.answer, self._subject.answer(self._index)
        if last == self.answer:
            return None
        return AnswerChange(tuple(each for each in changes if each is not None), last, self.answer)

    def _new_release(
        self, logged: LogRecord, before: MetadataImage, after: MetadataImage
    ) -> NewRelease | None:
        was, version = self._subject.version(before), self._subject.version(after)
        if was is None or version is None or was.releases == version.releases:
            return None
        return NewRelease(logged.offset, logged.timestamp_ms, version.label, was.label)


class RequestsTracker:
    """The decisions on several requests with the same settings as records of a history are applied.

    Attributes:
        allowed: for each subject, whether it is allowed after the last step.
    """

    def __init__(
        self, subjects: Sequence[RequestSubject], settings: AuthorizerSettings, index: AclIndex
    ) -> None:
        """Start from an index that has the related ACLs in force."""
        self._subjects = subjects
        self._settings = settings
        self._index = index
        state = self._state()
        self.allowed = [self._decide(state, each) for each in subjects]

    def apply(self, records: Iterable[LogRecord], affected: Collection[int]) -> list[int]:
        """Apply records that become visible together; return the subjects with another decision.

        ``affected``: numbers of the subjects to which a changed ACL is related, before or after.
        """
        delta = AclsDelta(self._index.image)
        for logged in records:
            delta.replay(logged)
        image = delta.apply(NOWHERE)
        if self._settings.version_for(image) == self._settings.version_for(self._index.image):
            self._index = self._index.with_delta(delta, image)
        else:
            self._index, affected = self._settings.index(image), range(len(self._subjects))
        state = self._state()
        changed = []
        for number in affected:
            is_allowed = self._decide(state, self._subjects[number])
            if is_allowed is not self.allowed[number]:
                self.allowed[number] = is_allowed
                changed.append(number)
        return changed

    def _state(self) -> AuthorizerState:
        return AuthorizerState(self._index, self._settings)

    @staticmethod
    def _decide(state: AuthorizerState, subject: RequestSubject) -> bool:
        return decide(state, subject.context, subject.action).is_allowed


def _put(
    logged: LogRecord, record: AccessControlEntryRecord, was: AccessControlEntryRecord | None
) -> Change | None:
    if was == record:
        return None
    return Change("added" if was is None else "replaced", logged.offset, logged.timestamp_ms, record, was)


def _removed(logged: LogRecord, removed: AccessControlEntryRecord) -> Change:
    return Change("removed", logged.offset, logged.timestamp_ms, removed)
