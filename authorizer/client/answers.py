"""What a sidecar is asked and answers, as values. Pure: no sockets.

Strings that name codes are Kafka's names; an ACL has the fields with which ``aclog acls --json`` prints it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from records.acl import AclOperation, ResourceType
from records.principal import KafkaPrincipal


class Question(msgspec.Struct, frozen=True):
    """May this principal do this to that?

    Attributes:
        host: the IP address from which it wants to; the sidecar's aclog.sidecar.default.host if None.
        log_if_allowed, log_if_denied: whether the audit log has it at a level above TRACE.
        explain: whether the answer names the ACL that decided; to find it takes longer than to decide.
    """

    principal: KafkaPrincipal
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str
    host: str | None = None
    log_if_allowed: bool = True
    log_if_denied: bool = True
    explain: bool = False


class Acl(msgspec.Struct, frozen=True, rename="camel"):
    """One ACL.

    Attributes:
        offset, timestamp: of the record that wrote it, milliseconds since 1970; None where not said, or for
            an ACL from a checkpoint.
    """

    id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str
    offset: int | None = None
    timestamp: int | None = None


class Decision(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
        is_allowed: True for ALLOWED.
        rule: SuperUser, MatchingAcl, DefaultAllow or DefaultDeny; UNAVAILABLE where nothing was decided.
        reason: half a sentence.
        offset: end offset of the state that decided (last contained offset + 1); None if none did.
        acl: the deciding one, if one did and the question said ``explain``.
    """

    is_allowed: bool
    rule: str
    reason: str
    offset: int | None
    acl: Acl | None = None

    @property
    def was_decided(self) -> bool:
        """Whether a sidecar decided; False where a client denied because none could be asked."""
        return self.offset is not None


#: The rule of a DENIED that no sidecar decided.
UNAVAILABLE: Final = "Unavailable"


class NearMiss(msgspec.Struct, frozen=True):
    """An ACL of the opposite effect that failed on one field."""

    field: str
    has: str
    asked: str
    acl: Acl


class Explained(msgspec.Struct, frozen=True, rename="camel"):
    """What ``aclog check --explain --json`` prints; see docs/http.md."""

    result: str
    rule: str
    reason: str
    offset: int
    principal: str
    host: str
    operation: str
    resource_type: str
    resource_name: str
    acl: Acl | None
    also_matched: list[Acl]
    near_misses: list[NearMiss]
    remark: str | None
    kafka_version: dict[str, Any]
    fix: list[str]
    high_watermark_is_guess: bool
    uncommitted_from: int | None = None
    age_ms: int | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    host_assumed: bool = False
    other_hosts: dict[str, Any] | None = None


class AuthorizedOperations(msgspec.Struct, frozen=True):
    """KIP-430: the operations that a principal may do to one resource; ``bits`` is Kafka's bit field."""

    offset: int
    operations: list[str]
    bits: int


class ByResourceType(msgspec.Struct, frozen=True):
    """KIP-679: ALLOWED or DENIED for any resource of a type."""

    offset: int
    result: str

    @property
    def is_allowed(self) -> bool:
        return self.result == "ALLOWED"


class Filtered(msgspec.Struct, frozen=True):
    """Which of many names, in their order."""

    offset: int
    allowed: list[str]


class Listing(msgspec.Struct, frozen=True):
    """ACLs of one state."""

    offset: int
    acls: list[Acl]


class ItemError(msgspec.Struct, frozen=True):
    """Why one item of a change was refused: Kafka's exception, its error code, and a message."""

    name: str
    code: str
    message: str


class Created(msgspec.Struct, frozen=True):
    """What became of one ACL: created, there already, or refused."""

    created: bool = False
    acl: Acl | None = None
    error: ItemError | None = None


class Deleted(msgspec.Struct, frozen=True):
    """What one filter removed, or why not."""

    deleted: list[Acl] = msgspec.field(default_factory=list)
    error: ItemError | None = None


class Creation(msgspec.Struct, frozen=True):
    """A result for each ACL; ``offset`` is a min_offset with which any node knows of it."""

    offset: int
    results: list[Created]


class Deletion(msgspec.Struct, frozen=True):
    """A result for each filter; ``offset`` as that of a Creation."""

    offset: int
    results: list[Deleted]


class Applied(msgspec.Struct, frozen=True):
    """What became of a plan: ACLs, or an error with ``name``, ``code`` and ``message``.

    Attributes:
        acl_count: the ACLs that were in force before.
    """

    removed: list[Acl] | None = None
    added: list[Acl] | None = None
    acl_count: int | None = None
    error: dict[str, str] | None = None


class Application(msgspec.Struct, frozen=True):
    """The result of one plan; ``offset`` as that of a Creation."""

    offset: int
    results: list[Applied]


class NodeState(msgspec.Struct, frozen=True):
    """One moment of a node (``/v1/state``).

    Attributes:
        cluster_id, topic_id: which log it follows; None while unknown.
        log: that log's URL.
        offset: last applied offset + 1.
        acl_count, digest: of the ACLs in force there (I12).
        ready: whether it may decide.
        reason: why it may not.
    """

    cluster_id: str | None
    topic_id: str | None
    log: str
    offset: int
    acl_count: int
    digest: str
    ready: bool
    reason: str | None
    high_watermark_is_guess: bool


class Problem(msgspec.Struct, frozen=True):
    """RFC 9457's members that are looked at."""

    code: str
    detail: str


class _Context(msgspec.Struct):
    rule: str = ""
    reason: str = ""
    offset: int | None = None
    acl: Acl | None = None
    error: dict[str, Any] | None = None


class AuthZenDecision(msgspec.Struct):
    """A decision as it is on the wire."""

    decision: bool
    context: _Context

    def value(self) -> Decision:
        """ValueError: it has no state that decided."""
        said = self.context
        if said.offset is None:
            raise ValueError("a decision without an offset")
        return Decision(self.decision, said.rule, said.reason, said.offset, said.acl)


class AuthZenDecisions(msgspec.Struct):
    """A batch of them."""

    evaluations: list[AuthZenDecision]
