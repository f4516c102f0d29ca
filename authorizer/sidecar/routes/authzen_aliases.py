"""Kafka's terms for the names and addresses of AuthZEN's clients; names may be Kafka's or aliases.

Kafka's names of operations and resource types are taken in any case, aliases and principal types as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from authorizer.sidecar.routes.query_requests import address_of, code_of
from records.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.configuration.load import Config

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
