"""Who sent a request, and what they may ask: the rules of architecture.md, section 7.

Kafka's own ACLs guard the sidecar: anyone may ask about themselves, about others only with DESCRIBE on the
cluster. Those of ``aclog.describe.principals`` may ask about others without an ACL, and nothing else by that:
they may neither list ACLs nor change them. To list takes DESCRIBE on the cluster, to change ALTER. Who
the caller is, ``authentication`` finds out; who comes in by the socket in the log's directory could write the
log itself, and may do everything (``binding``).
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from authorizer.api import Action, HttpRequestContext
from authorizer.configuration.keys.names import DESCRIBE_PRINCIPALS
from authorizer.sidecar.errors import ErrorCode, HttpError
from records.acl import CLUSTER_NAME, AclOperation, PatternType, ResourcePattern, ResourceType

if TYPE_CHECKING:
    from authorizer.decisions.state import AuthorizerState
    from authorizer.node import Node
    from authorizer.sidecar.origin import Origin
    from records.principal import KafkaPrincipal

_CLUSTER: Final = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_DESCRIBE_CLUSTER: Final = Action(
    AclOperation.DESCRIBE, _CLUSTER, resource_reference_count=1, log_if_allowed=False, log_if_denied=True
)


class Caller:
    """The caller of one request; its rights are decided on the request's state.

    Attributes:
        context: in which the caller's own rights are decided.
    """

    def __init__(self, node: Node, state: AuthorizerState, origin: Origin, request_name: str) -> None:
        """``request_name``: what the audit log calls the request; one word."""
        self.context = HttpRequestContext(
            origin.principal,
            origin.address,
            origin.listener.name,
            request_name=request_name,
            caller=origin.principal,
            caller_address=origin.address,
        )
        self._node = node
        self._state = state
        self._is_local = origin.listener.is_local
        # Decided once for a request, and only if it is asked for: one count, one audit line.
        self._may_ask_about_others: bool | None = None

    def require_may_ask_about(self, principal: KafkaPrincipal) -> None:
        """HttpError 403 if the caller may not."""
        caller = self.context.principal
        if self._is_local or principal == caller:
            return
        if self._may_ask_about_others is None:
            self._may_ask_about_others = self._decide_about_others()
        if self._may_ask_about_others:
            return
        quoted = shlex.quote(str(caller))
        raise HttpError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{caller} on listener {self.context.listener_name} may ask about itself only, not about "
            f"{principal}. To let it ask about others, start the sidecar with --describe-principals {quoted} "
            f"(or set {DESCRIBE_PRINCIPALS}), or add an ACL: "
            f"{self._acls_command()} --add --allow-principal {quoted} --operation Describe --cluster",
        )

    def require_on_cluster(self, operation: AclOperation) -> None:
        """HttpError 403 unless the caller may do this to the cluster."""
        if self._is_local:
            return
        context = self.context
        if self._node.authorizer.decide(context, Action(operation, _CLUSTER), self._state).is_allowed:
            return
        quoted = shlex.quote(str(context.caller))
        raise HttpError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{context.caller} on listener {context.listener_name} needs {operation.title} on the cluster. "
            f"To let it: {self._acls_command()} --add --allow-principal {quoted} "
            f"--operation {operation.title} --cluster",
        )

    def may_list(self) -> bool:
        """Whether the caller may see every ACL; not asking for it, so that a denial is no line of the log."""
        if self._is_local:
            return True
        look = Action(AclOperation.DESCRIBE, _CLUSTER, log_if_allowed=False, log_if_denied=False)
        return self._node.authorizer.decide(self.context, look, self._state).is_allowed

    def _acls_command(self) -> str:
        """What writes to this node's log: a broker's own directory is its cluster's to write."""
        if self._node.status().high_watermark_is_guess:
            return "kafka-acls --bootstrap-server HOST:PORT"
        return shlex.join(["aclog", "acls", "--log", self._node.config.require_log_url()])

    def _decide_about_others(self) -> bool:
        context, node = self.context, self._node
        if str(context.principal) in node.config.describe_principals:
            return True
        return node.authorizer.decide(context, _DESCRIBE_CLUSTER, self._state).is_allowed
