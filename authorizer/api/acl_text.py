"""Text notation of ACLs and resource patterns; different ACLs have different texts."""

from __future__ import annotations

from collections.abc import Mapping


def pattern_text(acl: Mapping[str, str]) -> str:
    """``GROUP:PREFIXED:team``, as Kafka's authorizer logs a resource; ``acl`` is as ``content_json`` has it.

    The name comes last, unchanged: the group ``team*`` is ``GROUP:LITERAL:team*``.
    """
    return f"{acl['resourceType']}:{acl['patternType']}:{acl['resourceName']}"


def acl_text(acl: Mapping[str, str]) -> str:
    """``ALLOW User:bob READ on TOPIC:LITERAL:orders from *``."""
    return (
        f"{acl['permissionType']} {acl['principal']} {acl['operation']} on {pattern_text(acl)} "
        f"from {acl['host']}"
    )


def literal_text(name: str) -> str:
    """A literal name in a list with prefixes (``team*``); a name that itself ends with ``*`` is marked."""
    return f"{name} (literal)" if name.endswith("*") else name or "(the empty name)"
