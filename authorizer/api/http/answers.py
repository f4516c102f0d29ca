"""Answers of the HTTP API: the sidecar encodes them, the client decodes them, OpenAPI describes them.

``end_offset`` is that of the state that an answer is about; ``offset`` is its earlier name. The JSON has no
members whose value is UNSET, and no default values of a Struct with ``omit_defaults``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import UNSET, UnsetType

from authorizer.api.acl_json import content_texts
from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import api_error
from authorizer.api.http.error_code import ErrorCode
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.code_names import code_from_name
from records.entries import AccessControlEntryRecord
from records.ids import uuid_from_string, uuid_to_string

if TYPE_CHECKING:
    from authorizer.api.errors import ApiError
    from records.columns.acl_table import AppliedAcl as AppliedAclRow

#: Where an OpenAPI document has its schemas.
COMPONENTS: Final = "#/components/schemas/"

Result = Literal["ALLOWED", "DENIED"]

#: What decided. Clients accept other values, which a later release may have.
RuleName = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"enum": ["SuperUser", "MatchingAcl", "DefaultAllow", "DefaultDeny"]},
    ),
]
ErrorCodeName = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [code.value for code in ErrorCode]})]


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
        """The ACL of a record."""
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
        """The ACL of a row."""
        record = acl.record
        return cls(uuid_to_string(record.id), *content_texts(record.content), acl.offset, acl.timestamp_ms)


class StateAnswer(msgspec.Struct, frozen=True):
    """Base of answers about one state."""

    offset: int
    end_offset: int


# -- decisions ---------------------------------------------------------------------------------------------


class EvaluationError(msgspec.Struct, frozen=True):
    """Why one evaluation of a batch has no decision."""

    status: int
    code: ErrorCodeName
    message: str


class EvaluationContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reason for a decision, or the error in its place.

    Attributes:
        notes: what is not known and could change a denial.
        acl: the deciding ACL, where the request has ``explain``.
        written_at_offset: offset of the record that wrote ``acl``; null for an ACL from a checkpoint.
    """

    rule: RuleName | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    end_offset: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    acl: Acl | UnsetType = UNSET
    written_at_offset: int | UnsetType | None = UNSET
    error: EvaluationError | UnsetType = UNSET


class Decision(msgspec.Struct, frozen=True):
    """An AuthZEN decision."""

    decision: bool
    context: EvaluationContext


class Decisions(msgspec.Struct, frozen=True):
    """AuthZEN decisions in the order of the evaluations."""

    evaluations: list[Decision]


class AuthorizedOperations(StateAnswer, frozen=True):
    """Operations that a principal may do to a resource (KIP-430); ``bits`` is Kafka's bit field."""

    operations: list[str]
    bits: int


class ByResourceType(StateAnswer, frozen=True):
    """Whether a principal may do an operation to any resource of a type (KIP-679)."""

    result: Result

    @property
    def is_allowed(self) -> bool:
        return self.result == "ALLOWED"


class AllowedNames(StateAnswer, frozen=True):
    """The names of the request that are allowed, in its order."""

    allowed: list[str]


class KafkaRelease(msgspec.Struct, frozen=True, rename="camel"):
    """The Kafka release whose rules apply.

    Attributes:
        version: null if it is not known.
        releases: the releases that the answer holds for.
        brokers: the releases of the cluster's brokers.
    """

    version: str | None
    source: str
    releases: list[str]
    brokers: list[str]
    brokers_disagree: bool


class NearMiss(msgspec.Struct, frozen=True):
    """An ACL of the opposite effect that failed on one field."""

    field: str
    has: str
    requested: str = msgspec.field(name="asked")
    acl: AppliedAcl


class OtherHosts(msgspec.Struct, frozen=True, rename="camel"):
    """Hosts with the other result, and exceptions from them; the totals count also those not listed."""

    result: Result
    hosts: list[str]
    total: int
    but: list[str]
    but_total: int


class ExplainedDecision(msgspec.Struct, frozen=True, rename="camel"):
    """A decision with its reason, as ``aclog check --explain --json`` prints it; see docs/http.md."""

    result: Result
    rule: str
    reason: str
    offset: int
    end_offset: int
    principal: str
    host: str
    operation: str
    resource_type: str
    resource_name: str
    acl: AppliedAcl | None
    also_matched: list[AppliedAcl]
    near_misses: list[NearMiss]
    remark: str | None
    notes: list[str]
    other_hosts: OtherHosts | None
    kafka_version: KafkaRelease
    fix: list[str]
    host_assumed: bool
    high_watermark_is_guess: bool
    uncommitted_from: int | None
    age_ms: int | None


# -- ACLs and changes of ACLs ------------------------------------------------------------------------------


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
        """The item of an error."""
        return cls(error.kafka_name, error.code_name, str(error))

    def value(self) -> ApiError:
        """The error."""
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
        """The answer for a result."""
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
        """The answer for a result."""
        if result.exception is not None:
            return cls(error=ItemError.of(result.exception))
        records = (each.record for each in result.acl_binding_delete_results)
        return cls([Acl.of(record) for record in records if record is not None])

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


class DeletionResults(StateAnswer, frozen=True):
    """A result for each filter, in order; ``offset`` as in CreationResults."""

    results: list[DeletionResult]


class PlanOutcomes(StateAnswer, frozen=True):
    """The result for the plan; ``offset`` as in CreationResults."""

    results: list[PlanOutcome]


class AclChange(msgspec.Struct, frozen=True):
    """Data of the event ``change`` of ``/v1/changes``."""

    offset: int
    removed: list[Acl]
    added: list[Acl]


# -- AuthZEN's searches ------------------------------------------------------------------------------------


class ResultPage(msgspec.Struct, frozen=True):
    """The token of the next page, empty on the last one, and the number of results on this page."""

    next_token: str
    count: int


class TypedName(msgspec.Struct, frozen=True):
    """A subject or a resource."""

    type: str
    id: str


class OperationName(msgspec.Struct, frozen=True):
    """An action."""

    name: str


class SearchContext(StateAnswer, frozen=True):
    """The state of the results."""


class SubjectSearchContext(StateAnswer, frozen=True):
    """The state of the results, and whether every principal is allowed.

    Absent members: Kafka does not know the resource's type.
    """

    everyone: bool | UnsetType = UNSET


class NamesByResult(msgspec.Struct, frozen=True):
    """Names or prefixes by result."""

    allowed: list[str]
    denied: list[str]


class ResourceSearchContext(StateAnswer, frozen=True):
    """The state of the results, and what they are about.

    Attributes:
        names: whether the results are names of existing resources or names in ACLs.
        prefixes: on the first page, prefixes and their result.
        literals: on the first page, names whose result differs from that of their prefix.
    """

    names: Literal["acls", "existing"] | UnsetType = UNSET
    prefixes: NamesByResult | UnsetType = UNSET
    literals: NamesByResult | UnsetType = UNSET


class SubjectResults(msgspec.Struct, frozen=True):
    """A page of subjects."""

    page: ResultPage
    context: SubjectSearchContext
    results: list[TypedName]


class ResourceResults(msgspec.Struct, frozen=True):
    """A page of resources."""

    page: ResultPage
    context: ResourceSearchContext
    results: list[TypedName]


class ActionResults(msgspec.Struct, frozen=True):
    """A page of actions."""

    page: ResultPage
    context: SearchContext
    results: list[OperationName]


class AuthzenConfiguration(msgspec.Struct, frozen=True):
    """AuthZEN's metadata: the URLs of its endpoints."""

    policy_decision_point: str
    access_evaluation_endpoint: str
    access_evaluations_endpoint: str
    search_subject_endpoint: str
    search_resource_endpoint: str
    search_action_endpoint: str


# -- the node ----------------------------------------------------------------------------------------------


class PollStatus(msgspec.Struct, frozen=True):
    """Polls of a cluster that is read at intervals.

    Attributes:
        age_ms: time since the last poll that was answered; null before the first one.
        polls, failures: polls that were answered, and those that were not, since the log was opened.
        error: of the last poll; null if it was answered.
    """

    age_ms: int | None
    refresh_ms: int
    polls: int
    failures: int
    error: str | None


class EffectivePermissionsDigest(StateAnswer, frozen=True):
    """Digest of the effective permissions of a state."""

    digest: str


class UnreadRecords(msgspec.Struct, frozen=True):
    """Records of a type and version that this build cannot read."""

    type: str
    version: int
    records: int


class MetadataReport(msgspec.Struct, frozen=True):
    """Counts of the cluster's metadata.

    Attributes:
        brokers: number of brokers by release.
        features: levels of the features.
        is_whole: whether the log has all of the metadata.
    """

    topics: int
    brokers: dict[str, int]
    features: dict[str, int]
    scram_users: int
    delegation_tokens: int
    is_whole: bool
    unread: list[UnreadRecords]
    warning: str | None


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a node.

    Attributes:
        cluster: its name in a fleet; absent for a single node.
        cluster_id, topic_id: identity of the log; null while it is not known.
        log: the log's URL.
        offset, end_offset: offset of the last applied record + 1.
        acl_count, digest: of the ACLs in force.
        meaning: digest of the effective permissions, where the request asks for it.
        ready: whether the node may decide.
        reason: why it may not.
        writable: whether ACLs can be changed through the node.
    """

    cluster: str | UnsetType = UNSET
    cluster_id: str | None
    topic_id: str | None
    log: str
    offset: int
    end_offset: int
    epoch: int
    high_watermark: int | None
    high_watermark_is_guess: bool
    uncommitted_from: int | None
    lag_records: int | None
    lag_ms: int
    polled: PollStatus | None
    acl_count: int
    digest: str
    meaning: EffectivePermissionsDigest | None
    ready: bool
    reason: str | None
    writable: bool
    kafka_version: KafkaRelease
    metadata: MetadataReport


class FailedCluster(msgspec.Struct, frozen=True):
    """A fleet's cluster that could not be opened, and the reason."""

    cluster: str
    log: str
    ready: bool
    reason: str


_CLUSTER_STATES: Final = msgspec.Meta(
    extra_json_schema={
        "items": {"anyOf": [{"$ref": f"{COMPONENTS}{name}"} for name in ("NodeState", "FailedCluster")]}
    }
)


class FleetState(msgspec.Struct, frozen=True):
    """Status of the clusters: a NodeState or a FailedCluster for each."""

    clusters: Annotated[list[Any], _CLUSTER_STATES]


class Setting(msgspec.Struct, frozen=True):
    """A configuration key and its current value, null if it is unset; values of secrets are hidden."""

    name: str
    value: str | None
    source: Annotated[
        str, msgspec.Meta(extra_json_schema={"enum": ["default", "file", "environment", "flag", "put"]})
    ]
    dynamic: bool
    secret: bool


class Settings(msgspec.Struct, frozen=True):
    """All configuration keys."""

    configs: list[Setting]


class SettingChange(msgspec.Struct, frozen=True):
    """The old and new value of a key; null: unset. Values of secrets are hidden."""

    name: str
    old: str | None
    new: str | None


class SettingChanges(msgspec.Struct, frozen=True):
    """Changes of settings; they are not written to the file."""

    changed: list[SettingChange]
    persisted: bool


class Liveness(msgspec.Struct, frozen=True):
    """The process answers."""

    live: bool


class Readiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether a node may decide.

    Attributes:
        offset: end offset of the applied records.
        lag_records: records of the log that are not applied; null before the log's end is known.
        reason: why the node is not ready.
    """

    ready: bool
    offset: int
    lag_records: int | None
    reason: str | None = None


class FleetReadiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether every cluster's node may decide."""

    ready: bool
    clusters: dict[str, Readiness]
    reason: str | None = None


class Index(msgspec.Struct, frozen=True):
    """The program, and the methods of each path."""

    name: str
    version: str
    description: str
    paths: dict[str, list[str]]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error in the form of RFC 9457, with a code for programs. Clients need its code and detail alone."""

    type: str = ""
    title: str = ""
    status: int = 0
    code: ErrorCodeName
    detail: str
