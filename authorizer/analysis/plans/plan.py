"""AclPlan: ACLs to add and remove, with the effective permissions before and after. Pure.

    create    for a log: store the digests of its effective permissions before and after
    apply     to that log, if its effective permissions have the first digest and would get the second

Different ACLs may give the same answers, so that answers are compared and not ACLs. Other writes may happen
between the two if they change no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Self

import msgspec
import numpy as np

from authorizer.analysis.permissions.acl_comparison import ChangedAcls, has_network_host
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions, never_cancelled
from authorizer.api.acl_json import content_from_json, content_json
from authorizer.api.authorizer_api import AclMutator
from authorizer.api.errors import ApiError, PlanOutdatedError, PlanUnreadableError
from authorizer.api.http.answers.acls import Acl, ItemError, PlanOutcome
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclPermissionType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord, AclContent
from records.ids import content_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from concurrent.futures import Future

    from authorizer.analysis.permissions.effective_permissions import SemanticDigest
    from snapshot.image import AclsImage

#: Version of the file; others are rejected.
VERSION: Final = 1
#: In place of an unknown release.
UNKNOWN_VERSION: Final = "unknown"
_DIGEST_BYTES: Final = 16


class PlanOrigin(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The log that a plan is for, and the offset at which it was created.

    Attributes:
        log: the name of the log, for users.
        cluster_id, topic_id: the identity of the log; without a topic if a cluster's brokers were queried.
        end_offset: of the state for which the plan was created; None if brokers were queried.
    """

    log: str
    cluster_id: str
    topic_id: str | None = None
    end_offset: int | None = None


class AclPlan(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """See the module; encoded as JSON it is the plan file.

    Attributes:
        version: of the format.
        origin: the log.
        super_users, allow_everyone, kafka_version: the settings of the effective permissions.
        digest: of the ACLs for which the plan was created (I12), hexadecimal.
        permissions_before, permissions_after: semantic digests, hexadecimal.
        remove, add: ACLs as ``acl_json`` encodes them, without ids.
        checksum: of the other fields, so that no modified plan is applied.
    """

    version: int = msgspec.field(name="aclogPlan")
    origin: PlanOrigin
    super_users: list[str]
    allow_everyone: bool
    kafka_version: str
    digest: str
    permissions_before: str = msgspec.field(name="meaningBefore")
    permissions_after: str = msgspec.field(name="meaningAfter")
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
        known_digest: SemanticDigest | None = None,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> Self:
        """Create the plan that makes these changes to ``image``.

        ``known_digest``: the semantic digest before, if it has been computed. ``check_cancelled``: as in
        `EffectivePermissions.of`.
        """
        table = image.merged().columns
        settings = settings.with_version_of(image)
        remove, add = (_contents(table) for table in (changed.removed, changed.added))
        before, after = _digests(
            table, changed.applied_to(table), settings, changed.principals, check_cancelled, known_digest
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
        """Parse a plan file. PlanUnreadableError: no plan, modified since it was written, or too new."""
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
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @property
    def plan(self) -> AclPlan:
        """The plan, without the options of a request."""
        return self

    @property
    def settings(self) -> AuthorizerSettings:
        text = self.kafka_version
        version = None if text == UNKNOWN_VERSION else KafkaVersion(text)
        return AuthorizerSettings(frozenset(self.super_users), self.allow_everyone, version)

    @property
    def removed(self) -> list[AclContent]:
        """The ACLs to remove, each ALLOW before any DENY, so that a part of the plan allows nothing more."""
        return sorted(map(content_from_json, self.remove), key=_is_deny)

    @property
    def added(self) -> list[AclContent]:
        """The ACLs to add, each DENY before any ALLOW, for the same reason."""
        return sorted(map(content_from_json, self.add), key=lambda content: not _is_deny(content))

    def applied_to(self, table: AclTable) -> AclTable:
        return with_replacements(table, self.removed, self.added)

    def reverted(self, table: AclTable) -> AclTable:
        """Return the ACLs without a part of the plan that was applied."""
        return with_replacements(table, self.added, self.removed)

    def affected_rows(self, table: AclTable) -> AclTable:
        """Return the ACLs that the plan removes or adds, with all their ids."""
        return table.take(_rows_of(table, [*self.removed, *self.added]))

    def remaining(self, affected: AclTable) -> tuple[list[AclContent], list[AclContent]]:
        """Return the ACLs still to remove and to add; ``affected``: the result of `affected_rows`."""
        existing = set(_contents(affected))
        return (
            [content for content in self.removed if content in existing],
            [content for content in self.added if content not in existing],
        )

    def require_log(self, cluster_id: str, topic_id: str | None) -> None:
        """Raise PlanOutdatedError if a known id of the log is another one."""
        for kind, planned_id, log_id in (
            ("cluster id", self.origin.cluster_id, cluster_id),
            ("topic id", self.origin.topic_id, topic_id),
        ):
            if planned_id != log_id and None not in (planned_id, log_id):
                raise PlanOutdatedError(
                    f"the plan was created for another log: {kind} {planned_id}, and here it is {log_id}; "
                    "nothing was written"
                )

    def require_unchanged_permissions(
        self, image: AclsImage, check_cancelled: Callable[[], None] = never_cancelled
    ) -> None:
        """Raise PlanOutdatedError unless the permissions have the first digest, and would get the second."""
        if f"{image.digest:032x}" == self.digest:
            return
        table = image.merged().columns
        principals = {content[3] for content in (*self.removed, *self.added)}
        before, after = _digests(table, self.applied_to(table), self.settings, principals, check_cancelled)
        if before != self.permissions_before:
            raise PlanOutdatedError(
                "the effective permissions have changed since the plan was created: some request has another "
                "answer now; "
                "nothing was written"
            )
        if after != self.permissions_after:
            raise PlanOutdatedError(
                "the effective permissions have not changed since the plan was created, but the ACLs have: "
                "applied to these, the plan would have another result; nothing was written"
            )


class PlanApplication(AclPlan, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A plan with options: the body of a request.

    Attributes:
        max_removed_percent: the largest share of the ACLs that it may remove; None: as configured.
    """

    max_removed_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None

    @classmethod
    def of_plan(cls, plan: AclPlan, max_removed_percent: int | None) -> Self:
        return cls(**_fields(plan), max_removed_percent=max_removed_percent)

    @property
    def plan(self) -> AclPlan:
        return AclPlan(**_fields(self))


def application_body(plan: AclPlan, max_removed_percent: int | None) -> bytes:
    """Return the body of a POST that applies a plan; without a share, earlier releases accept it, too."""
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
    known_digest: SemanticDigest | None = None,
) -> tuple[str, str]:
    """Two tables' semantic digests, hexadecimal; several if the release is unknown and releases differ."""
    settings_by_rules = settings.for_each_possible_release(
        has_networks=any(has_network_host(each).any() for each in (before, after))
    )
    pairs = []
    for rules in settings_by_rules:
        digest = known_digest if len(settings_by_rules) == 1 else None
        digest = digest or EffectivePermissions.digest_of(before, rules, check_cancelled=check_cancelled)
        changed = EffectivePermissions.digest_after(
            digest, after, rules, principals, check_cancelled=check_cancelled
        )
        pairs.append((digest, changed))
    digests = zip(*pairs, strict=True)
    before_all, after_all = map(_join_digests, digests)
    return before_all, after_all


def _join_digests(digests: Iterable[SemanticDigest]) -> str:
    return "+".join(dict.fromkeys(each.combined.hex() for each in digests))


def _checksum(plan: AclPlan) -> str:
    # Without the options of a request.
    unsigned = msgspec.structs.replace(plan.plan, checksum="")
    return blake2b(msgspec.json.encode(unsigned), digest_size=_DIGEST_BYTES).hexdigest()


def _is_deny(content: AclContent) -> bool:
    return content[-1] == AclPermissionType.DENY


def _contents(table: AclTable) -> list[AclContent]:
    return sorted({acl.record.content for acl in table})


def _rows_of(table: AclTable, contents: Iterable[AclContent]) -> Any:
    selected = set(contents)
    names = {content[1] for content in selected}
    rows = np.flatnonzero(table.names.where(names.__contains__))
    is_selected = (record.content in selected for record in table.records(rows))
    return rows[np.fromiter(is_selected, np.bool_, len(rows))]


def with_replacements(
    table: AclTable, removed: Sequence[AclContent], added: Sequence[AclContent]
) -> AclTable:
    """Return the table without the ``removed`` contents, and with each ``added`` one once."""
    return ChangedAcls(_table_of([*removed, *added]), _table_of(added)).applied_to(table)


def _table_of(contents: Iterable[AclContent]) -> AclTable:
    records = [AccessControlEntryRecord(content_uuid(content), *content) for content in contents]
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Outcome of a plan. A log applies it completely or not at all; a cluster may apply a part of it.

    Attributes:
        removed: the removed ACLs, once for each id.
        acl_count: the number of ACLs in force before; None if a node of an earlier release answered.
    """

    exception: ApiError | None = None
    removed: tuple[AccessControlEntryRecord, ...] = ()
    added: tuple[AccessControlEntryRecord, ...] = ()
    acl_count: int | None = None

    def answer(self) -> PlanOutcome:
        if self.exception is not None:
            return PlanOutcome(error=ItemError.of(self.exception))
        removed, added = ([Acl.of(record) for record in records] for records in (self.removed, self.added))
        return PlanOutcome(self.acl_count, removed, added)

    @classmethod
    def from_answer(cls, answer: PlanOutcome) -> Self:
        """Parse an HTTP answer; ValueError if a field is missing."""
        if answer.error is not None:
            return cls(answer.error.value())
        if answer.removed is None or answer.added is None:
            raise ValueError("a result for a plan without `removed`, `added` or `error`")
        removed, added = (tuple(acl.record() for acl in acls) for acls in (answer.removed, answer.added))
        return cls(removed=removed, added=added, acl_count=answer.acl_count)


class PlanMutator(AclMutator, Protocol):
    """An AclMutator that applies plans, which Kafka does not have."""

    def apply_plan(self, plan: AclPlan, max_removed_percent: int | None = None) -> Future[PlanResult]:
        """Apply a plan completely or not at all, if the effective permissions have not changed; authorized.

        ``max_removed_percent`` of the ACLs may be removed; None: aclog.plan.max.removed.percent.
        """
