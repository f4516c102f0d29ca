"""AuthZEN's JSON, read into Kafka's terms. Pure: no state, no sockets.

Source: AuthZEN Authorization API 1.0; the mapping:

    subject   {"type": principal type ("User"; case matters), "id": name}
    resource  {"type": TOPIC | GROUP | CLUSTER | ... (any case), "id": name}
    action    {"name": an AclOperation (any case)}
    context   {"host": the client's IP address, "explain", "log_if_allowed", "log_if_denied",
               "min_offset", "at_offset"}

Names of operations and types may also be aliases, which are taken as they are. Unknown fields are ignored, as
the specification asks; so is the id of what is searched for (section 8).
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, TypeVar

import msgspec

from authorizer.api.authorizer_api import Action, HttpRequestContext
from authorizer.api.http.answers.decisions import OperationName, TypedName
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.routes.request_bodies import Offset, address_of, code_of
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from authorizer.configuration.load import Config
    from authorizer.sidecar.auth.caller_authorization import Caller

_Code = TypeVar("_Code", AclOperation, ResourceType)

#: How many addresses are remembered, and of how many characters at most: an IPv6 scope may be any text.
_ADDRESSES_MAX: Final = 4096
_ADDRESS_LENGTH_MAX: Final = 64


class Codes(dict[str, _Code]):
    """Operations or resource types by Kafka's names and aliases. HttpError 400: an unknown name."""

    def __init__(self, kind: type[_Code], field: str, aliases: Mapping[str, _Code]) -> None:
        super().__init__()
        # Most clients know Kafka's names as they are; in another case they are looked for.
        for code in kind:
            if code > kind.ANY:
                self[code.name] = code
        self.update(aliases)
        self._kind: type[_Code] = kind
        self._field = field

    def __missing__(self, name: str) -> _Code:
        return code_of(self._kind, name, self._field)


class Addresses(dict[str | None, str]):
    """Clients' addresses as ACL hosts are written, by how clients write them.

    HttpError 400: it is no address, or there is none, and no ``default``.
    """

    def __init__(self, default: str | None) -> None:
        super().__init__()
        self._default = default

    def __missing__(self, host: str | None) -> str:
        address = address_of(host, self._default, "context.host")
        if len(self) < _ADDRESSES_MAX and len(host or "") <= _ADDRESS_LENGTH_MAX:
            self[host] = address
        return address


@dataclass(frozen=True, slots=True)
class AuthzenAliases:
    """By what clients say.

    Attributes:
        subjects: principal types, by their aliases.
        action_aliases: operations, by their aliases alone.
    """

    subjects: Mapping[str, str]
    resources: Codes[ResourceType]
    actions: Codes[AclOperation]
    action_aliases: Mapping[str, AclOperation]
    addresses: Addresses

    @classmethod
    def of(cls, config: Config) -> AuthzenAliases:
        return cls(
            dict(config.authzen_subject_aliases),  # a proxy would be asked by name each time
            Codes(ResourceType, "resource.type", config.authzen_resource_aliases),
            Codes(AclOperation, "action.name", config.authzen_action_aliases),
            config.authzen_action_aliases,
            Addresses(config.sidecar_default_host),
        )

    def principal_type(self, name: str) -> str:
        return self.subjects.get(name, name)

    def known_resource_type(self, name: str) -> ResourceType | None:
        """Of a resource's type; None if there is none of that name."""
        known = self.resources.get(name) or ResourceType.from_name(name)
        return known if known > ResourceType.ANY else None

    def action_names(self, operation: AclOperation) -> list[str]:
        """Its aliases; Kafka's name where it has none."""
        return [name for name, code in self.action_aliases.items() if code is operation] or [operation.name]


# Looked up once, not for each evaluation.
_LITERAL: Final = PatternType.LITERAL

Semantic = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]


class Context(msgspec.Struct, gc=False):
    """The client's host, options of the answer and of the audit log, and the state to decide on."""

    host: str | None = None
    explain: bool = False
    log_if_allowed: bool = True
    log_if_denied: bool = True
    min_offset: Offset | None = None
    at_offset: Offset | None = None
    as_of: int | str | None = None


_NO_CONTEXT: Final = Context()


class Evaluation(msgspec.Struct, gc=False):
    """One evaluation; in a batch, missing parts come from the request's defaults."""

    subject: TypedName | None = None
    action: OperationName | None = None
    resource: TypedName | None = None
    context: Context | None = None


class Options(msgspec.Struct, gc=False):
    """Options of a batch."""

    evaluations_semantic: Semantic = "execute_all"


class EvaluationsRequest(Evaluation, gc=False):
    """A batch; without evaluations it is a single evaluation."""

    evaluations: list[Evaluation] | None = None
    options: Options | None = None


def with_defaults(batch: Sequence[Evaluation], defaults: Evaluation) -> Sequence[Evaluation]:
    """The batch with absent parts taken from ``defaults``; a part that is present replaces the whole."""
    parts = defaults.subject, defaults.action, defaults.resource, defaults.context
    if not any(parts):
        return batch
    subject, action, resource, context = parts
    return [
        Evaluation(
            item.subject or subject, item.action or action, item.resource or resource, item.context or context
        )
        for item in batch
    ]


def context_of(evaluation: Evaluation, aliases: AuthzenAliases, caller: Caller) -> HttpRequestContext:
    """The principal and its address, in Kafka's terms. HttpError 400 names the missing or invalid field."""
    subject, context, origin = evaluation.subject, evaluation.context, caller.origin
    if subject is None:
        raise _missing_error(evaluation)
    return HttpRequestContext(
        KafkaPrincipal(aliases.subjects.get(subject.type, subject.type), subject.id),
        aliases.addresses[context.host if context else None],
        request_name=caller.request_name,
        caller=origin.principal,
        caller_address=origin.address,
        request_id=origin.request_id,
    )


def action_of(evaluation: Evaluation, aliases: AuthzenAliases) -> Action:
    """The operation and the resource, in Kafka's terms; raises as ``context_of``."""
    action, resource = evaluation.action, evaluation.resource
    if evaluation.subject is None or action is None or resource is None:
        raise _missing_error(evaluation)
    context = evaluation.context or _NO_CONTEXT
    if context.as_of is not None:
        require_no_as_of(context)
    return Action(
        aliases.actions[action.name],
        ResourcePattern(aliases.resources[resource.type], resource.id, _LITERAL),
        1,
        context.log_if_allowed,
        context.log_if_denied,
    )


def _missing_error(evaluation: Evaluation) -> HttpError:
    missing = [name for name in ("subject", "action", "resource") if getattr(evaluation, name) is None]
    return invalid_request(f"the request has no {' and no '.join(missing)}")


def require_no_as_of(context: Context) -> None:
    """HttpError 400 for a request about the past: an answer about the present would be wrong."""
    if context.as_of is not None:
        raise invalid_request(
            "context.as_of is not supported here: context.at_offset names a state that the node holds, and "
            "`aclog check --at-offset` asks any of the log"
        )


class PageToken(msgspec.Struct, array_like=True, frozen=True):
    """See the module.

    Attributes:
        after: the last result that was given; None before the first.
        search: see ``search_id``.
    """

    end_offset: int
    after: str | None
    search: str

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode("ascii")

    @classmethod
    def decode(cls, text: str, search: str) -> Self:
        """Parse ``encode``. HttpError 400: it is no token, or one of another search."""
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text.encode("ascii")), type=cls)
        except (ValueError, msgspec.MsgspecError) as error:
            raise invalid_request("page.token is none that was given here") from error
        if token.search != search:
            raise invalid_request(
                "page.token is of another search: subject, action, resource and context must be the same"
            )
        return token


def search_id(*inputs: object) -> str:
    """An id of a search, the same for all its pages."""
    return hashlib.blake2b(msgspec.json.encode(inputs), digest_size=8).hexdigest()


#: Results of a page that asks for no number, and for any.
PAGE_DEFAULT: Final = 1_000
PAGE_MAXIMUM: Final = 10_000


class OfType(msgspec.Struct, gc=False):
    """The type of the searched entities."""

    type: str


class Page(msgspec.Struct, gc=False):
    """The requested page of the results."""

    token: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=0)] = PAGE_DEFAULT


class _Search(msgspec.Struct, kw_only=True):
    context: Context = msgspec.field(default_factory=Context)
    page: Page = msgspec.field(default_factory=Page)

    @property
    def limit(self) -> int:
        """Maximum number of results on this page."""
        return min(self.page.limit, PAGE_MAXIMUM)

    def id(self) -> str:
        """The same for all pages: without min_offset, which only waits."""
        inputs = msgspec.structs.asdict(self) | {"page": None}
        context = (self.context.host, self.context.at_offset)
        return search_id(type(self).__name__, inputs | {"context": context})


class SubjectSearch(_Search, kw_only=True):
    """Search for principals that may do an operation to a resource."""

    subject: OfType
    action: OperationName
    resource: TypedName


class ResourceSearch(_Search, kw_only=True):
    """Search for resources to which a principal may do an operation."""

    subject: TypedName
    action: OperationName
    resource: OfType


class ActionSearch(_Search, kw_only=True):
    """Search for operations that a principal may do to a resource."""

    subject: TypedName
    resource: TypedName
