"""Texts of configuration values, read; ValueError: not what is allowed."""

from __future__ import annotations

import ipaddress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from authorizer.api.cluster_name import is_cluster_name
from authorizer.api.ip_address import is_loopback
from authorizer.api.sidecar_url import parse_sidecar_url
from authorizer.configuration.listeners import split_list
from records.acl import AclOperation, ResourceType
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from records.principal import KafkaPrincipal

_Term = TypeVar("_Term")
_Code = TypeVar("_Code", AclOperation, ResourceType)

MEGABYTE: Final = 1024 * 1024
INT64_MAX: Final = 2**63 - 1
CLUSTERS_ALLOWED: Final = (
    "names separated by commas, each of up to 64 letters, digits, `-` and `_`, no two of which differ in "
    "case or in `-` and `_` alone"
)


def optional_text(text: str) -> str | None:
    """Trimmed; None if nothing is left."""
    return text.strip() or None


def required_text(text: str) -> str:
    """Trimmed."""
    if not text.strip():
        raise ValueError(text)
    return text.strip()


def address(text: str) -> str:
    """An IP address."""
    return str(ipaddress.ip_address(text.strip()))


def networks(text: str) -> tuple[str, ...]:
    """CIDR networks, separated by commas."""
    return tuple(str(ipaddress.ip_network(part)) for part in split_list(text))


def base_url(text: str) -> str:
    """``http`` or ``https``, without a slash at the end."""
    url = urlsplit(text.strip())
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username:
        raise ValueError(text)
    return url.geturl().rstrip("/")


def sidecars(text: str) -> tuple[str, ...]:
    """Addresses of sidecars, separated by commas."""
    found = tuple(split_list(text))
    for each in found:
        if "@" in each:
            raise ValueError(text)
        parse_sidecar_url(each)
    return found


def names(text: str) -> tuple[str, ...]:
    """Separated by commas, in upper case."""
    return tuple(name.upper() for name in split_list(text))


def cluster_names(text: str) -> tuple[str, ...]:
    """Clusters of a fleet: each name is a part of keys, of variables and of paths."""
    found = tuple(split_list(text))
    if not all(map(is_cluster_name, found)):
        raise ValueError(text)
    if len({name.upper().replace("-", "_") for name in found}) < len(found):
        raise ValueError(text)
    return found


def aliases(parse: Callable[[str], _Term]) -> Callable[[str], Mapping[str, _Term]]:
    """``alias:TERM;alias:TERM``, by alias."""

    def parse_all(text: str) -> Mapping[str, _Term]:
        found: dict[str, _Term] = {}
        for part in filter(None, map(str.strip, text.split(";"))):
            alias, colon, name = map(str.strip, part.rpartition(":"))
            if not (alias and colon and name) or alias in found:
                raise ValueError(part)
            found[alias] = parse(name)
        return MappingProxyType(found)

    return parse_all


def code_aliases(kind: type[_Code]) -> Callable[[str], Mapping[str, _Code]]:
    """As ``aliases``, for what Kafka has codes for."""

    def code(name: str) -> _Code:
        known = kind.from_name(name)
        if known <= kind.ANY:
            raise ValueError(name)
        return known

    def parse_all(text: str) -> Mapping[str, _Code]:
        found = aliases(code)(text)
        for alias, meant in found.items():
            # READ for WRITE would be a trap for who reads a request.
            if kind.from_name(alias) not in (kind(0), meant):
                raise ValueError(alias)
        return found

    return parse_all


def integer(at_least: int, at_most: int = INT64_MAX) -> Callable[[str], int]:
    """A number in a range."""

    def parse(text: str) -> int:
        value = int(text.strip())
        if not at_least <= value <= at_most:
            raise ValueError(text)
        return value

    return parse


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """One of these, in any case."""
    by_lower = {choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        try:
            return by_lower[text.strip().lower()]
        except KeyError:
            raise ValueError(text) from None

    return parse


def boolean(text: str) -> bool:
    """``true`` or ``false``."""
    return one_of(("true", "false"))(text) == "true"


def unix_principals(text: str) -> Mapping[str, KafkaPrincipal]:
    """By ``uid:NUMBER`` and ``gid:NUMBER``."""
    principals: dict[str, KafkaPrincipal] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        peer, _, principal = part.partition("=")
        kind, _, number = peer.strip().partition(":")
        if kind not in ("uid", "gid") or f"{kind}:{int(number)}" in principals:
            raise ValueError(text)
        principals[f"{kind}:{int(number)}"] = parse_kafka_principal(principal.strip())
    return MappingProxyType(principals)


def jwks(text: str) -> str:
    """Keys that others could replace on their way would let them in."""
    url = urlsplit(text.strip())
    if url.scheme == "file" and not url.netloc and url.path:
        return url.path
    is_path = not url.scheme and url.path
    is_https = url.scheme == "https" and url.hostname and not url.username
    is_here = url.scheme == "http" and is_loopback(url.hostname) and not url.username
    if not (is_path or is_https or is_here):
        raise ValueError(text)
    return url.geturl()


def some_of(choices: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Some of these, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        names = tuple(split_list(text))
        if not names or not set(names) <= set(choices):
            raise ValueError(text)
        return names

    return parse
