"""AclPlan: ACLs to add and remove, with the effective permissions before and after. Pure.

    created    for a log, with the digests of its effective permissions before and after
    applied    to that log, if its effective permissions are still the first and become the second

ACLs may differ and give the same answers, so answers are compared and not ACLs. Other writes may come between
if they leave the answers as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Self

import msgspec
import numpy as np

from authorizer.analysis.acl_comparison import ChangedAcls, for_networks
from authorizer.analysis.effective_permissions import EffectivePermissions, never_cancelled
from authorizer.api.acl_json import content_from_json, content_json
from authorizer.api.authorizer_api import AclMutator
from authorizer.api.errors import PlanOutdatedError, PlanUnreadableError
from authorizer.api.http.answers import Acl, ItemError, PlanOutcome
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclPermissionType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord, AclContent
from records.ids import content_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from concurrent.futures import Future

    from authorizer.analysis.effective_permissions import SemanticDigest
    from authorizer.api.errors import ApiError
    from snapshot.image import AclsImage

#: Version of the file; others are rejected.
VERSION: Final = 1
#: In place of a release, where it is not known.
UNKNOWN_VERSION: Final = "unknown"
_DIGEST_BYTES: Final = 16


class PlanOrigin(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The log that a plan is for, and the offset at which it was created.

    Attributes:
        log: its name, for people.
        cluster_id, topic_id: its identity; no topic if a cluster's brokers were queried.
        end_offset: of the state for which the plan was created; None as the topic.
    """

    log: str
    cluster_id: str
    topic_id: str | None = None
    end_offset: int | None = None


class AclPlan(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """See the module; as JSON it is the file.

    Attributes:
        version: of the form.
        origin: which log it is for.
        super_users, allow_everyone, kafka_version: the settings that the meanings are of.
        digest: of the ACLs that the plan was made on (I12), hexadecimal.
        meaning_before, meaning_after: digests of the meaning, hexadecimal.
        remove, add: ACLs as ``acl_json`` has them, without ids.
        checksum: of all of this, so that a plan is applied as it was made.
    """

    version: int = msgspec.field(name="aclogPlan")
    origin: PlanOrigin
    super_users: list[str]
    allow_everyone: bool
    kafka_version: str
    digest: str
    meaning_before: str
    meaning_after: str
    remove: list[dict[str, str]]
    add: list[dict[str, str]]
    checksum: str = ""

    @classmethod
    def of(
        cls,
        origin: PlanOrigin,
        image: AclsImage,
        changed: ChangedAcls,
        settings: AuthorizerSettings,
        known: SemanticDigest | None = None,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> Self:
        """The plan that makes these changes to ``image``.

        What all of that means is worked out here, unless it is ``known``; ``check_cancelled`` is as in
        `EffectivePermissions.of`.
        """
        table = image.merged().columns
        settings = settings.with_version_of(image)
        remove, add = (_contents(table) for table in (changed.removed, changed.added))
        before, after = _digests(
            table, changed.applied_to(table), settings, changed.principals, check_cancelled, known
        )
        plan = cls(
            VERSION,
            origin,
            sorted(settings.super_users),
            settings.allow_everyone,
            settings.kafka_version or UNKNOWN_VERSION,
            f"{image.digest:032x}",
            before,
            after,
            [*map(content_json, remove)],
            [*map(content_json, add)],
        )
        return msgspec.structs.replace(plan, checksum=_checksum(plan))

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """The plan of a file.

        Raises:
            PlanUnreadableError: it is none, is not as it was made, or of a version that is not known.
        """
        try:
            plan = msgspec.json.decode(text, type=cls)
            _ = plan.settings
            [*map(content_from_json, plan.remove), *map(content_from_json, plan.add)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, ValueError) as error:
            raise PlanUnreadableError(f"not a plan as `aclog plan --output` writes it: {error}") from error
        if plan.version != VERSION:
            raise PlanUnreadableError(
                f"a plan of version {plan.version}, and this aclog reads version {VERSION}"
            )
        if plan.checksum != _checksum(plan):
            raise PlanUnreadableError("the plan file was modified: checksum mismatch")
        return plan

    def to_json(self) -> bytes:
        """The file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @property
    def plan(self) -> AclPlan:
        """The plan itself, without what a request says beside it."""
        return self

    @property
    def settings(self) -> AuthorizerSettings:
        """Those that the meanings are of."""
        text = self.kafka_version
        version = None if text == UNKNOWN_VERSION else KafkaVersion(text)
        return AuthorizerSettings(frozenset(self.super_users), self.allow_everyone, version)

    @property
    def removed(self) -> list[AclContent]:
        """What goes, each ALLOW before any DENY: half of it allows nothing that the whole does not."""
        return sorted(map(content_from_json, self.remove), key=_is_deny)

    @property
    def added(self) -> list[AclContent]:
        """What comes, each DENY before any ALLOW, for the same reason."""
        return sorted(map(content_from_json, self.add), key=lambda content: not _is_deny(content))

    def result(self, table: AclTable) -> AclTable:
        """The ACLs after it."""
        return with_replacements(table, self.removed, self.added)

    def undone(self, table: AclTable) -> AclTable:
        """The ACLs before it, where a part of it was carried out."""
        return with_replacements(table, self.added, self.removed)

    def held(self, table: AclTable) -> AclTable:
        """The rows that the plan is about, equal ones under several ids too."""
        return table.take(_rows_of(table, [*self.removed, *self.added]))

    def left(self, held: AclTable) -> tuple[list[AclContent], list[AclContent]]:
        """What is still to be removed and added, by ``held``."""
        there = set(_contents(held))
        return (
            [content for content in self.removed if content in there],
            [content for content in self.added if content not in there],
        )

    def require_log(self, cluster_id: str, topic_id: str | None) -> None:
        """PlanOutdatedError if it was made for another log, as far as one can know."""
        for kind, made_on, here in (
            ("cluster id", self.origin.cluster_id, cluster_id),
            ("topic id", self.origin.topic_id, topic_id),
        ):
            if made_on != here and None not in (made_on, here):
                raise PlanOutdatedError(
                    f"the plan was made for another log: {kind} {made_on}, and here it is {here}; "
                    "nothing was written"
                )

    def require_meaning(
        self, image: AclsImage, check_cancelled: Callable[[], None] = never_cancelled
    ) -> None:
        """PlanOutdatedError unless the meaning is the one before, and becomes the one after."""
        if f"{image.digest:032x}" == self.digest:
            return
        table = image.merged().columns
        principals = {content[3] for content in (*self.removed, *self.added)}
        before, after = _digests(table, self.result(table), self.settings, principals, check_cancelled)
        if before != self.meaning_before:
            raise PlanOutdatedError(
                "the meaning has moved since the plan was made: some question has another answer now; "
                "nothing was written"
            )
        if after != self.meaning_after:
            raise PlanOutdatedError(
                "the meaning is the same as when the plan was made, but with other ACLs, on which these "
                "changes would not lead to what the plan says; nothing was written"
            )


class PlanApplication(AclPlan, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A plan, and how it is to be applied: the body of a request.

    Attributes:
        max_removed_percent: the largest share of the ACLs that it may remove; None: what the settings say.
    """

    max_removed_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None

    @classmethod
    def of_plan(cls, plan: AclPlan, max_removed_percent: int | None) -> Self:
        """As it is sent."""
        return cls(**_fields(plan), max_removed_percent=max_removed_percent)

    @property
    def plan(self) -> AclPlan:
        """As AclPlan."""
        return AclPlan(**_fields(self))


def application_body(plan: AclPlan, max_removed_percent: int | None) -> bytes:
    """Body of a POST that applies a plan; without a share, it is one that earlier releases accept."""
    return msgspec.json.encode(
        plan if max_removed_percent is None else PlanApplication.of_plan(plan, max_removed_percent)
    )


def _fields(plan: AclPlan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in AclPlan.__struct_fields__}


def _digests(
    before: AclTable,
    after: AclTable,
    settings: AuthorizerSettings,
    principals: Collection[str],
    check_cancelled: Callable[[], None],
    known: SemanticDigest | None = None,
) -> tuple[str, str]:
    """The digests of two meanings, hexadecimal; several, where releases differ and it is not known which.

    Args:
        before: the ACLs before.
        after: the ACLs after, of which those of ``principals`` alone differ.
        settings: whose release is None if it is not known.
        principals: whose ACLs differ.
        check_cancelled: what it raises ends this.
        known: the digest of the first, if it has been computed.
    """
    apart = settings.for_each_possible_release(
        has_networks=any(for_networks(each).any() for each in (before, after))
    )
    pairs = []
    for how in apart:
        digest = known if len(apart) == 1 else None
        digest = digest or EffectivePermissions.digest_of(before, how, check_cancelled=check_cancelled)
        changed = EffectivePermissions.digest_after(
            digest, after, how, principals, check_cancelled=check_cancelled
        )
        pairs.append((digest, changed))
    digests = zip(*pairs, strict=True)
    before_all, after_all = map(_joined, digests)
    return before_all, after_all


def _joined(digests: Iterable[SemanticDigest]) -> str:
    return "+".join(dict.fromkeys(each.combined.hex() for each in digests))


def _checksum(plan: AclPlan) -> str:
    # Of the plan alone, whatever a request says beside it.
    bare = msgspec.structs.replace(plan.plan, checksum="")
    return blake2b(msgspec.json.encode(bare), digest_size=_DIGEST_BYTES).hexdigest()


def _is_deny(content: AclContent) -> bool:
    return content[-1] == AclPermissionType.DENY


def _contents(table: AclTable) -> list[AclContent]:
    """Each once, in order."""
    return sorted({acl.record.content for acl in table})


def _rows_of(table: AclTable, contents: Iterable[AclContent]) -> Any:
    """The rows that say one of these."""
    wanted = set(contents)
    names = {content[1] for content in wanted}
    texts = table.names.texts
    is_named = np.fromiter((text in names for text in texts), np.bool_, len(texts))
    rows = np.flatnonzero(is_named[table.names.codes])
    is_wanted = (record.content in wanted for record in table.records(rows))
    return rows[np.fromiter(is_wanted, np.bool_, len(rows))]


def with_replacements(table: AclTable, less: Sequence[AclContent], more: Sequence[AclContent]) -> AclTable:
    """The table without the rows that say ``less``, and with ``more`` once each."""
    return ChangedAcls(_table_of([*less, *more]), _table_of(more)).applied_to(table)


def _table_of(contents: Iterable[AclContent]) -> AclTable:
    records = [AccessControlEntryRecord(content_uuid(content), *content) for content in contents]
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Outcome of a plan, which is carried out whole or not at all; but by a cluster in part, which is said.

    Attributes:
        exception: None on success; then nothing is in the other two where nothing was left to be done.
        removed: what was, once for each id.
        added: what was.
        acl_count: the ACLs that were in force before; None where a node of an earlier release answered.
    """

    exception: ApiError | None = None
    removed: tuple[AccessControlEntryRecord, ...] = ()
    added: tuple[AccessControlEntryRecord, ...] = ()
    acl_count: int | None = None

    def answer(self) -> PlanOutcome:
        """The answer for this result."""
        if self.exception is not None:
            return PlanOutcome(error=ItemError.of(self.exception))
        removed, added = ([Acl.of(record) for record in records] for records in (self.removed, self.added))
        return PlanOutcome(self.acl_count, removed, added)

    @classmethod
    def from_answer(cls, answer: PlanOutcome) -> Self:
        """The result of an answer. ValueError: the answer has none."""
        if answer.error is not None:
            return cls(answer.error.value())
        if answer.removed is None or answer.added is None:
            raise ValueError("a result for a plan without `removed`, `added` or `error`")
        removed, added = (tuple(acl.record() for acl in acls) for acls in (answer.removed, answer.added))
        return cls(removed=removed, added=added, acl_count=answer.acl_count)


class PlanMutator(AclMutator, Protocol):
    """The same for whole plans, which Kafka does not have."""

    def apply_plan(self, plan: AclPlan, max_removed_percent: int | None = None) -> Future[PlanResult]:
        """Carry out a plan if its log still means what it was made on, whole or not at all; authorized.

        Args:
            plan: what to carry out.
            max_removed_percent: the largest share of the ACLs that it may remove; None: what the settings
                say (aclog.plan.max.removed.percent).
        """
