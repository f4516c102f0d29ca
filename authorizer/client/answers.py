"""What a sidecar is asked and answers, as values. Pure: no sockets.

Strings that name codes are Kafka's names; an ACL has the fields with which ``aclog acls --json`` prints it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizer.api.http.answers import Acl
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
