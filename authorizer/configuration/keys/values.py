"""Parsers of configuration values; each raises ValueError for a text that is not allowed."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar
from urllib.parse import urlsplit

from authorizer.api.cluster_name import is_cluster_name
from authorizer.api.errors import ConfigError
from authorizer.api.ip_address import is_loopback
from authorizer.api.principal_lists import parse_principals
from authorizer.api.sidecar_url import parse_sidecar_url
from authorizer.configuration.listeners import split_list
from records.acl import AclOperation, ResourceType
from records.java_pattern import JavaPattern
from records.principal import KafkaPrincipal, parse_kafka_principal

_Name = TypeVar("_Name")
_Code = TypeVar("_Code", AclOperation, ResourceType)

MEGABYTE: Final = 1024 * 1024
CLUSTERS_ALLOWED: Final = (
    "names separated by commas, each of up to 64 letters, digits, `-` and `_`, no two of which differ in "
    "case or in `-` and `_` alone"
)

TEAMS_ALLOWED: Final = (
    "a Java regular expression for entire principals, with one group, which is the team, such as "
    "User:([a-z]+)[.-].*"
)
NAME_TEAMS_ALLOWED: Final = (
    "a Java regular expression for entire names, with one group, which is the team, such as ([a-z]+)[.-].*"
)


def required_text(text: str) -> str:
    """Return the text without surrounding blanks; it must not be empty."""
    if not text.strip():
        raise ValueError(text)
    return text.strip()


def address(text: str) -> str:
    """Parse an IP address."""
    return str(ipaddress.ip_address(text.strip()))


def team_pattern(text: str, *, key: str, allowed: str) -> JavaPattern:
    """Parse a regular expression with one group. Raises ConfigError with the reason."""
    try:
        pattern = JavaPattern.compile(required_text(text))
    except ValueError as error:
        raise ConfigError(key, text, f"{allowed}; {error}") from error
    if pattern.groups != 1:
        problem = f"it has {pattern.groups} groups; write (?:...) for those that are no team"
        raise ConfigError(key, text, f"{allowed}; {problem}")
    return pattern


def networks(text: str) -> tuple[str, ...]:
    """Parse CIDR networks, separated by commas."""
    return tuple(str(ipaddress.ip_network(part)) for part in split_list(text))


def principals(text: str, *, key: str) -> frozenset[KafkaPrincipal]:
    """Parse principals in the format of ``super.users``. Raises ConfigError with the reason."""
    return frozenset(map(parse_kafka_principal, parse_principals(text, key=key)))


def base_url(text: str) -> str:
    """Parse an ``http`` or ``https`` URL; remove the final slash."""
    url = urlsplit(text.strip())
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username:
        raise ValueError(text)
    return url.geturl().rstrip("/")


def sidecars(text: str) -> tuple[str, ...]:
    """Parse addresses of sidecars, separated by commas."""
    parsed = tuple(split_list(text))
    for each in parsed:
        if "@" in each:
            raise ValueError(text)
        parse_sidecar_url(each)
    return parsed


def names(text: str) -> tuple[str, ...]:
    """Parse names, separated by commas, to upper case."""
    return tuple(name.upper() for name in split_list(text))


def cluster_names(text: str) -> tuple[str, ...]:
    """Parse names of clusters, which are parts of keys, of variables and of paths."""
    parsed = tuple(split_list(text))
    if not all(map(is_cluster_name, parsed)):
        raise ValueError(text)
    if len({name.upper().replace("-", "_") for name in parsed}) < len(parsed):
        raise ValueError(text)
    return parsed


def aliases(parse: Callable[[str], _Name]) -> Callable[[str], Mapping[str, _Name]]:
    """Return a parser of ``alias:NAME;alias:NAME``, by alias."""

    def parse_all(text: str) -> Mapping[str, _Name]:
        parsed: dict[str, _Name] = {}
        for part in filter(None, map(str.strip, text.split(";"))):
            alias, colon, name = map(str.strip, part.rpartition(":"))
            if not (alias and colon and name) or alias in parsed:
                raise ValueError(part)
            parsed[alias] = parse(name)
        return MappingProxyType(parsed)

    return parse_all


def code_aliases(kind: type[_Code]) -> Callable[[str], Mapping[str, _Code]]:
    """Return a parser as of ``aliases``, for Kafka's codes."""

    def code(name: str) -> _Code:
        known = kind.from_name(name)
        if known <= kind.ANY:
            raise ValueError(name)
        return known

    def parse_all(text: str) -> Mapping[str, _Code]:
        parsed = aliases(code)(text)
        for alias, aliased in parsed.items():
            # READ as an alias of WRITE would mislead readers of a request.
            if kind.from_name(alias) not in (kind(0), aliased):
                raise ValueError(alias)
        return parsed

    return parse_all


def unix_principals(text: str) -> Mapping[str, KafkaPrincipal]:
    """Parse principals by ``uid:NUMBER`` and ``gid:NUMBER``."""
    principals: dict[str, KafkaPrincipal] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        peer, _, principal = part.partition("=")
        kind, _, number = peer.strip().partition(":")
        if kind not in ("uid", "gid") or f"{kind}:{int(number)}" in principals:
            raise ValueError(text)
        principals[f"{kind}:{int(number)}"] = parse_kafka_principal(principal.strip())
    return MappingProxyType(principals)


def jwks(text: str) -> str:
    """Parse a path or a URL. Plain http beyond loopback is refused: an attacker could replace the keys."""
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
    """Return a parser of some of ``choices``, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        names = tuple(split_list(text))
        if not names or not set(names) <= set(choices):
            raise ValueError(text)
        return names

    return parse
