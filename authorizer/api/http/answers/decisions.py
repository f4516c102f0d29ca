"""Answers about decisions, and AuthZEN's searches."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from authorizer.api.http.answers.acls import Acl, AppliedAcl, StateAnswer
from authorizer.api.http.error_code import ErrorCodeName
from authorizer.api.kafka_version import KafkaVersion, VersionInForce, VersionSource

Result = Literal["ALLOWED", "DENIED"]


#: What decided. Clients accept other values, which a later release may have.
RuleName = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"enum": ["SuperUser", "MatchingAcl", "DefaultAllow", "DefaultDeny"]},
    ),
]


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

    @classmethod
    def of(cls, version: VersionInForce) -> KafkaRelease:
        return cls(
            None if version.version is None else version.version.value,
            version.source,
            [each.value for each in version.releases],
            [each.value for each in version.of_brokers],
            version.brokers_disagree,
        )

    def value(self) -> VersionInForce:
        """The version. ValueError: an unknown release."""
        releases, brokers = (tuple(map(KafkaVersion, each)) for each in (self.releases, self.brokers))
        return VersionInForce(releases, cast("VersionSource", self.source), brokers)


class NearMiss(msgspec.Struct, frozen=True):
    """An ACL of the opposite effect that failed on one field: what the ACL has, and what would match."""

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


class ExplainedRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request and its decision with the reason; see docs/http.md.

    ``offset`` is the earlier name of ``end_offset``.
    """

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


class ExplainedDecision(ExplainedRequest, frozen=True, rename="camel"):
    """An explained request and what limits the answer, as ``aclog check --explain --json`` prints them.

    ``near_misses_of_others``: whether the caller may see near misses with other principals.
    """

    host_assumed: bool
    high_watermark_is_guess: bool
    uncommitted_from: int | None
    age_ms: int | None
    near_misses_of_others: bool = True


class ResultPage(msgspec.Struct, frozen=True):
    """The token of the next page, empty on the last one, and the number of results on this page."""

    next_token: str
    count: int


class TypedName(msgspec.Struct, frozen=True, gc=False):
    """A subject or a resource of AuthZEN."""

    type: str
    id: str


class OperationName(msgspec.Struct, frozen=True, gc=False):
    """An action of AuthZEN."""

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
