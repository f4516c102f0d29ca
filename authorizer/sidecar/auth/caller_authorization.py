"""Authorization of a request's caller (docs/http.md, "Who may ask what").

Kafka's ACLs guard the sidecar. A caller may ask about itself; about others it needs DESCRIBE on the cluster,
or a place in ``aclog.describe.principals``, which gives no other right. Listing ACLs needs DESCRIBE on the
cluster, changing them ALTER. Connections to the socket in the log directory have full access, because only
the log's owner can open it (``binding``).
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.api.authorizer_api import Action, HttpRequestContext
from authorizer.api.http.error_code import ErrorCode
from authorizer.configuration.keys.names import DESCRIBE_PRINCIPALS
from authorizer.sidecar.http.errors import HttpError
from records.acl import CLUSTER_NAME, AclOperation, PatternType, ResourcePattern, ResourceType

if TYPE_CHECKING:
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node
    from authorizer.sidecar.http.request_origin import Origin
    from records.principal import KafkaPrincipal

_CLUSTER: Final = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_DESCRIBE_CLUSTER: Final = Action(
    AclOperation.DESCRIBE, _CLUSTER, resource_reference_count=1, log_if_allowed=False, log_if_denied=True
)


class Caller(msgspec.Struct, gc=False):
    """The caller of one request; its rights are decided on the request's state.

    Attributes:
        request_name: its name in the audit log; one word.
    """

    _node: Node
    _state: AuthorizerState
    origin: Origin
    request_name: str
    # Decided once for a request, and only if needed: one count, one audit line.
    _may_ask_about_others: bool | None = None

    @property
    def context(self) -> HttpRequestContext:
        """The context in which the caller's own rights are decided."""
        origin = self.origin
        return HttpRequestContext(
            origin.principal,
            origin.address,
            origin.listener.name,
            request_name=self.request_name,
            caller=origin.principal,
            caller_address=origin.address,
            request_id=origin.request_id,
        )

    def may_ask_about(self, principal: KafkaPrincipal) -> bool:
        """Whether the caller may ask about a principal; the first denial is audited."""
        origin = self.origin
        if origin.listener.is_local or principal == origin.principal:
            return True
        may_ask = self._may_ask_about_others
        if may_ask is None:
            may_ask = self._may_ask_about_others = (
                origin.principal in self._node.config.describe_principals
                or self._node.authorizer.answer(self.context, _DESCRIBE_CLUSTER, self._state).is_allowed
            )
        return may_ask

    def require_may_ask_about(self, principal: KafkaPrincipal) -> None:
        if not self.may_ask_about(principal):
            raise self.refusal_about(principal)

    def refusal_about(self, principal: KafkaPrincipal) -> HttpError:
        """Return the 403 of a request about a principal about which the caller may not ask."""
        caller = self.origin.principal
        quoted = shlex.quote(str(caller))
        return HttpError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{caller} on listener {self.origin.listener.name} may ask about itself only, not about "
            f"{principal}. To let it ask about others, start the sidecar with --describe-principals {quoted} "
            f"(or set {DESCRIBE_PRINCIPALS}), or add an ACL: "
            f"{self._acls_command()} --add --allow-principal {quoted} --operation Describe --cluster",
        )

    def require_on_cluster(self, operation: AclOperation, *, log_if_allowed: bool = True) -> None:
        """Raise HttpError 403 unless the caller may do an operation to the cluster."""
        if self.origin.listener.is_local:
            return
        context, action = self.context, Action(operation, _CLUSTER, log_if_allowed=log_if_allowed)
        if self._node.authorizer.answer(context, action, self._state).is_allowed:
            return
        quoted = shlex.quote(str(context.caller))
        raise HttpError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{context.caller} on listener {context.listener_name} needs {operation.title} on the cluster. "
            f"To let it: {self._acls_command()} --add --allow-principal {quoted} "
            f"--operation {operation.title} --cluster",
        )

    def may_list(self) -> bool:
        """Whether the caller may list ACLs; neither audited nor counted as a denial."""
        return self._may_on_cluster(AclOperation.DESCRIBE)

    def may_alter(self) -> bool:
        """Whether the caller may change ACLs; audited as ``may_list``."""
        return self._may_on_cluster(AclOperation.ALTER)

    def _may_on_cluster(self, operation: AclOperation) -> bool:
        if self.origin.listener.is_local:
            return True
        action = Action(operation, _CLUSTER, log_if_allowed=False, log_if_denied=False)
        return self._node.authorizer.answer(self.context, action, self._state).is_allowed

    def _acls_command(self) -> str:
        """The command that writes ACLs: only the cluster can write a broker's directory."""
        if self._node.log.is_read_only:
            return "kafka-acls --bootstrap-server HOST:PORT"
        return shlex.join(["aclog", "acls", "--log", self._node.config.require_log_url()])
