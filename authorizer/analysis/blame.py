"""Blame: the records of a history that changed an answer.

The subject is a request, or an ACL: is it in force? Few ACLs of a history are related to it, and only these
are followed. They form an index of their own, decided by the usual decider. If no release is configured, the
rules are those of the release that the log's brokers had registered at that offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from authorizer.api.ip_network import host_matches
from authorizer.api.kafka_version import VersionInForce
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.reason import matching_acls
from authorizer.engine.decisions.rules import Rule, acl_principals, allows, covers_operation, is_super_user
from authorizer.engine.decisions.state import AuthorizerState
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
from snapshot.image import NOWHERE
from snapshot.metadata_image import MetadataImage
from snapshot.restore import restore_image

if TYPE_CHECKING:
    import numpy.typing as npt

    from authorizer.api.authorizer_api import Action, RequestContext
    from authorizer.engine.decisions.decision import Decision
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.columns.text_column import TextColumn
    from records.ids import Uuid
    from records.log_batch import LogRecord
    from snapshot.image import AclsImage


class SubjectAnswer(NamedTuple):
    """The answer to a subject at one offset.

    Attributes:
        holds: allowed; for an ACL: in force.
        decision: for a request.
        by: the ACLs that cause it, each of which suffices; empty if the lack of ACLs does.
    """

    holds: bool
    decision: Decision | None
    by: tuple[AppliedAcl, ...]


class Subject(Protocol):
    """What blame follows through a history.

    Attributes:
        wants_brokers: whether registrations of brokers are related to it.
    """

    @property
    def wants_brokers(self) -> bool: ...

    def is_wanted(self, record: AccessControlEntryRecord) -> bool:
        """Return whether an ACL is related to it."""

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        """Return the same for each row of a table."""

    def version(self, metadata: MetadataImage) -> VersionInForce | None:
        """Return the release whose rules are followed; None: any release gives the same answer."""

    def index(self, image: AclsImage) -> AclIndex:
        """Return the index to answer from."""

    def answer(self, index: AclIndex) -> SubjectAnswer:
        """Return the answer from the related ACLs; the index may have others, too."""


@dataclass(frozen=True, slots=True)
class RequestSubject:
    """A request. See `Subject`."""

    context: RequestContext
    action: Action
    settings: AuthorizerSettings

    @property
    def wants_brokers(self) -> bool:
        return self.settings.kafka_version is None

    @property
    def is_of_super_user(self) -> bool:
        """Whether no ACL is related to it."""
        return is_super_user(self.settings.super_names, self.context.principal)

    def is_wanted(self, record: AccessControlEntryRecord) -> bool:
        return (
            record.resource_type == self.action.resource_pattern.resource_type
            and self._covers(record.resource_name, is_literal=record.pattern_type == LITERAL_PATTERN)
            and self._is_whose(record.principal)
            and self._is_from(record.host)
            and (self.settings.allow_everyone or covers_operation(record, self.action.operation))
        )

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        is_literal = table.pattern_types == LITERAL_PATTERN
        literal, prefixed = (
            _where(table.names, [self._covers(name, is_literal=each) for name in table.names.texts])
            for each in (True, False)
        )
        found = np.where(is_literal, literal, prefixed)
        found &= table.resource_types == int(self.action.resource_pattern.resource_type)
        found &= _where(table.principals, [self._is_whose(text) for text in table.principals.texts])
        found &= _where(table.hosts, [self._is_from(text) for text in table.hosts.texts])
        rows = np.flatnonzero(found)
        found[rows] = [self.is_wanted(record) for record in table.records(rows)]
        return found

    def version(self, metadata: MetadataImage) -> VersionInForce:
        return VersionInForce.of(self.settings.kafka_version, metadata.brokers, metadata.metadata_version)

    def index(self, image: AclsImage) -> AclIndex:
        return self.settings.index(image)

    def answer(self, index: AclIndex) -> SubjectAnswer:
        state = AuthorizerState(index, self.settings, is_ready=True, not_ready_reason="")
        decision = decide(state, self.context, self.action)
        by: tuple[AppliedAcl, ...] = ()
        if decision.rule is Rule.MATCHING_ACL:
            matching = matching_acls(index, self.context, self.action)
            by = tuple(acl for acl in matching if allows(acl.record) is decision.is_allowed)
        return SubjectAnswer(decision.is_allowed, decision, by)

    def _covers(self, name: str, *, is_literal: bool) -> bool:
        asked = self.action.resource_pattern.name
        return name in (asked, WILDCARD) if is_literal else asked.startswith(name)

    # With allow.everyone.if.no.acl.found any ACL that covers the name is related.

    def _is_whose(self, principal: str) -> bool:
        if self.is_of_super_user:
            return False
        return self.settings.allow_everyone or principal in acl_principals(self.context.principal)

    def _is_from(self, host: str) -> bool:
        # Where no release is configured, networks match: that takes in what any release matches.
        networks = self.settings.networks.deny
        return self.settings.allow_everyone or host_matches(
            host, self.context.client_address, networks=networks
        )


def _where(column: TextColumn, is_wanted: list[bool]) -> npt.NDArray[np.bool_]:
    """For each row whether its text is wanted."""
    return np.array(is_wanted, np.bool_)[column.codes]


@dataclass(frozen=True, slots=True)
class AclSubject:
    """An ACL, by its id or by its content. See `Subject`."""

    id: Uuid | None = None
    content: tuple[int, str, int, str, str, int, int] | None = None

    @property
    def wants_brokers(self) -> bool:
        return False

    def is_wanted(self, record: AccessControlEntryRecord) -> bool:
        return record.id == self.id if self.content is None else record.content == self.content

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        if self.content is None:
            return has_id(table.ids, self.id or b"")
        resource_type, name, _, principal, *_ = self.content
        found: npt.NDArray[np.bool_] = table.resource_types == resource_type
        found &= _where(table.names, [text == name for text in table.names.texts])
        found &= _where(table.principals, [text == principal for text in table.principals.texts])
        rows = np.flatnonzero(found)
        found[rows] = [self.is_wanted(record) for record in table.records(rows)]
        return found

    def version(self, _metadata: MetadataImage) -> None:
        return None

    def index(self, image: AclsImage) -> AclIndex:
        return AclIndex.of(image)

    def answer(self, index: AclIndex) -> SubjectAnswer:
        by = sorted((acl for acl in index.image if self.is_wanted(acl.record)), key=lambda acl: acl.record.id)
        return SubjectAnswer(bool(by), None, tuple(by))


class Change(NamedTuple):
    """The effect of one record.

    Attributes:
        offset: of the record.
        timestamp_ms: of the record, since the epoch; negative if it has none.
        acl: now in force, or no longer.
        was: the replaced ACL.
    """

    kind: Literal["added", "replaced", "removed"]
    offset: int
    timestamp_ms: int
    acl: AccessControlEntryRecord
    was: AccessControlEntryRecord | None = None


class NewRelease(NamedTuple):
    """The rules of another release are followed, because brokers registered or left.

    Attributes:
        offset, timestamp_ms: as in `Change`.
        version, was: as VersionInForce.label.
    """

    offset: int
    timestamp_ms: int
    version: str
    was: str


class AnswerChange(NamedTuple):
    """A change of the answer, or of the ACLs that cause it; and the records that caused it."""

    changes: tuple[Change | NewRelease, ...]
    before: SubjectAnswer
    after: SubjectAnswer

    @property
    def flips(self) -> bool:
        """Whether it is another answer, and not the same one by another ACL."""
        return self.before.holds != self.after.holds


class DecisionTracker:
    """The answer to a subject as records of a history are applied.

    Attributes:
        answer: after the last step.
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

    def after(self, records: Iterable[LogRecord]) -> AnswerChange | None:
        """Take records that become visible at once; None if nothing is answered otherwise."""
        image = self._index.image
        delta, metadata = AclsDelta(image), image.metadata
        changes: list[Change | NewRelease | None] = []
        for logged in records:
            match logged.record:
                case AccessControlEntryRecord() as record:
                    was = delta.get(record.id)
                    changes.append(_put(logged, record, None if was is None else was.record))
                case RemoveAccessControlEntryRecord(id=acl_id):
                    gone = delta.get(acl_id)
                    changes.append(None if gone is None else _removed(logged, gone.record))
                case (BrokerRecord() | FeatureLevelRecord()) as record:
                    before, metadata = metadata, metadata.with_record(record)
                    changes.append(self._new_release(logged, before, metadata))
            delta.replay(logged)
        image = delta.apply(NOWHERE)
        fits = self._subject.version(image.metadata) == self._subject.version(self._index.image.metadata)
        self._index = self._index.with_delta(delta, image) if fits else self._subject.index(image)
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


def _put(
    logged: LogRecord, record: AccessControlEntryRecord, was: AccessControlEntryRecord | None
) -> Change | None:
    if was == record:
        return None
    return Change("added" if was is None else "replaced", logged.offset, logged.timestamp_ms, record, was)


def _removed(logged: LogRecord, gone: AccessControlEntryRecord) -> Change:
    return Change("removed", logged.offset, logged.timestamp_ms, gone)
