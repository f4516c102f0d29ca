"""Answers about a node, a fleet and their settings; and errors."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from authorizer.api.http.answers.acls import StateAnswer
from authorizer.api.http.answers.decisions import KafkaRelease
from authorizer.api.http.error_code import ErrorCodeName

#: Where an OpenAPI document has its schemas.
COMPONENTS: Final = "#/components/schemas/"


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


class Liveness(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process answers.

    Attributes:
        reason: why it must be restarted.
    """

    live: bool
    reason: str | None = None


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
