"""An ACL, and the pattern of its names, in text for people: one notation, in which no two are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def pattern_text(acl: Mapping[str, str]) -> str:
    """``GROUP:PREFIXED:team``, as Kafka's authorizer logs a resource; ``acl`` is as ``content_json`` has it.

    The name comes last and as it is: the group ``team*`` is ``GROUP:LITERAL:team*``.
    """
    return f"{acl['resourceType']}:{acl['patternType']}:{acl['resourceName']}"


def acl_text(acl: Mapping[str, str]) -> str:
    """``ALLOW User:bob READ on TOPIC:LITERAL:orders from *``."""
    return (
        f"{acl['permissionType']} {acl['principal']} {acl['operation']} on {pattern_text(acl)} "
        f"from {acl['host']}"
    )


def literal_text(name: str) -> str:
    """A name beside prefixes, which have a star behind them: one that ends with a star itself says so."""
    return f"{name} (literal)" if name.endswith("*") else name or "(the empty name)"
