"""Messages between a client and a sidecar: requests, decisions and change events. Pure: no sockets.

Strings that name codes are Kafka's names; an ACL has the fields that ``aclog acls --json`` prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from authorizer.api.http.answers.acls import Acl
from records.acl import AclOperation, ResourceType
from records.principal import KafkaPrincipal


class AuthorizationRequest(msgspec.Struct, frozen=True):
    """An operation of a principal on a resource, to be allowed or denied.

    Attributes:
        host: IP address of the principal; the sidecar's aclog.sidecar.default.host if None.
        log_if_allowed, log_if_denied: whether the audit log has the decision at a level above TRACE.
        explain: whether the decision names the ACL that decided; to find it takes longer than to decide.
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
    """The answer to an AuthorizationRequest.

    Attributes:
        rule: SuperUser, MatchingAcl, DefaultAllow or DefaultDeny; UNAVAILABLE if no sidecar decided.
        offset: end offset of the state that decided (last contained offset + 1); None if none did.
        acl: the ACL that decided, if one did and the request has ``explain``.
    """

    is_allowed: bool
    rule: str
    reason: str
    offset: int | None
    acl: Acl | None = None

    @property
    def was_decided(self) -> bool:
        """Whether a sidecar decided; False if the client denied because no sidecar was available."""
        return self.offset is not None


#: The rule of a DENIED that no sidecar decided.
UNAVAILABLE: Final = "Unavailable"


class ChangeEvent(msgspec.Struct, frozen=True):
    """An event of ``/v1/changes``: start, change, current, reload, not-ready or ready (docs/http.md).

    Attributes:
        id: the offset from which a later stream continues; None for an event without one.
    """

    name: str
    id: int | None
    removed: list[Acl]
    added: list[Acl]


class _ChangeData(msgspec.Struct):
    removed: list[Acl] = msgspec.field(default_factory=list)
    added: list[Acl] = msgspec.field(default_factory=list)


class ChangeEventDecoder:
    """Decodes the server-sent events of one stream, in pieces of any size.

    Only a line feed ends a line: the sidecar does not escape other line separators of names, such as U+2028.
    """

    def __init__(self) -> None:
        self._incomplete = b""

    def feed(self, piece: bytes) -> Iterator[ChangeEvent]:
        """Return the events that ``piece`` completes. Raises ValueError for anything but such an event."""
        *blocks, self._incomplete = (self._incomplete + piece).split(b"\n\n")
        for block in blocks:
            lines = [line for line in block.split(b"\n") if not line.startswith(b":")]
            if lines:
                yield _change_event(dict(line.split(b": ", 1) for line in lines))


def _change_event(fields: dict[bytes, bytes]) -> ChangeEvent:
    try:
        data = msgspec.json.decode(fields[b"data"], type=_ChangeData)
        name = fields[b"event"].decode("ascii")
    except (KeyError, msgspec.DecodeError) as error:
        raise ValueError(f"no event of /v1/changes: {fields}") from error
    event_id = fields.get(b"id")
    return ChangeEvent(name, None if event_id is None else int(event_id), data.removed, data.added)
