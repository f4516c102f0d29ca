"""Blame: where in a history an answer became another one, and which records made it so.

Asked about is a question, or an ACL: whether it is in force. Few ACLs of a history have to do with it, and
only these are followed: what they come to is an index of its own, decided by the same decider as any other,
by the rules of the release that the log's brokers had registered as by then, if none is configured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from authorizer.api.ip_network import host_matches
from authorizer.api.kafka_version import VersionInForce
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.decision import Rule
from authorizer.engine.decisions.reason import acl_principals, allows, covers_operation, matching_acls
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
    """What is answered at one moment.

    Attributes:
        holds: allowed; of an ACL: it is in force.
        decision: of a question.
        by: the ACLs that make it so: each of them would do alone. None, where what is not there does.
    """

    holds: bool
    decision: Decision | None
    by: tuple[AppliedAcl, ...]


class Subject(Protocol):
    """What is asked about.

    Attributes:
        wants_brokers: whether their registrations have to do with it.
    """

    @property
    def wants_brokers(self) -> bool: ...

    def is_wanted(self, record: AccessControlEntryRecord) -> bool:
        """Whether an ACL has to do with it."""

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        """The same of each row of a table."""

    def version(self, metadata: MetadataImage) -> VersionInForce | None:
        """The release whose rules are followed; None: it does not matter which."""

    def index(self, image: AclsImage) -> AclIndex:
        """To answer from."""

    def answer(self, index: AclIndex) -> SubjectAnswer:
        """The answer, where the ACLs that have to do with it are these; others may be among them."""


@dataclass(frozen=True, slots=True)
class RequestSubject:
    """May this be done? See `Subject`."""

    context: RequestContext
    action: Action
    settings: AuthorizerSettings

    @property
    def wants_brokers(self) -> bool:
        return self.settings.kafka_version is None

    @property
    def is_of_super_user(self) -> bool:
        """Whether no ACL has to do with it."""
        principal = self.context.principal
        return principal.name in self.settings.super_names.get(principal.principal_type, ())

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

    # Where what no ACL covers is open to everybody, any ACL that covers the name has to do with it.

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
    """Is this ACL in force? By its id, or by all that it says. See `Subject`."""

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
    """What one record did.

    Attributes:
        offset: of the record.
        timestamp_ms: of the record, since the epoch; negative where it has none.
        acl: that is in force, or is not any more.
        was: what was replaced.
    """

    kind: Literal["added", "replaced", "removed"]
    offset: int
    timestamp_ms: int
    acl: AccessControlEntryRecord
    was: AccessControlEntryRecord | None = None


class NewRelease(NamedTuple):
    """Brokers came or went, and the rules of another release are followed.

    Attributes:
        offset, timestamp_ms: as of `Change`.
        version, was: as VersionInForce.label.
    """

    offset: int
    timestamp_ms: int
    version: str
    was: str


class AnswerChange(NamedTuple):
    """Where the answer, or what makes it so, became another one; and the records that did it."""

    changes: tuple[Change | NewRelease, ...]
    before: SubjectAnswer
    after: SubjectAnswer

    @property
    def flips(self) -> bool:
        """Whether it is another answer, and not the same one by another ACL."""
        return self.before.holds != self.after.holds


class DecisionTracker:
    """A subject through a history.

    Attributes:
        answer: as of the last step.
    """

    def __init__(
        self,
        subject: Subject,
        acls: Collection[AppliedAcl],
        metadata: MetadataImage = MetadataImage.EMPTY,
    ) -> None:
        """Of the beginning: the ACLs in force that have to do with the subject, and what else is known."""
        self._subject = subject
        image = restore_image([AclTable.of(acls)], provenance=NOWHERE, metadata=metadata)
        self._index = subject.index(image)
        self.answer = subject.answer(self._index)

    @property
    def ids(self) -> Iterable[Uuid]:
        """Of the ACLs that are in force, and have to do with the subject."""
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
        self._index = self._index.advanced(delta, image) if fits else self._subject.index(image)
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
