"""Text form of classes of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.api.acl_text import literal_text
from authorizer.engine.index.masks import OPERATIONS
from records.acl import AclOperation

if TYPE_CHECKING:
    from collections.abc import Collection

    from authorizer.analysis.permissions.request_class import NameSet, RequestClass


def describe_class(requests: RequestClass) -> str:
    """``Read, Describe on TOPIC orders, pay* from any host but 10.0.0.1``."""
    kind, operations = requests.resource_type.name, describe_operations(requests)
    return f"{operations} on {kind} {describe_names(requests)} from {describe_hosts(requests)}"


def describe_witness(requests: RequestClass) -> str:
    """``User:alice Read TOPIC orders from 10.0.0.1``."""
    witness, operation = requests.witness, requests.operations[0].title
    name = witness.name or "(the empty name)"
    return f"{witness.principal} {operation} {witness.resource_type.name} {name} from {witness.host}"


def describe_principal(requests: RequestClass) -> str:
    """``User:alice``; ``every principal but User:alice, User:bob``."""
    principal, excluded, _ = requests.principals
    return _but("every principal", excluded) if principal is None else principal


def describe_operations(requests: RequestClass) -> str:
    """``Read, Describe``."""
    return describe_operation_set(requests.operations)


def describe_operation_set(operations: Collection[AclOperation]) -> str:
    """``Read, Describe``; ``every operation``; ``every operation but Read``.

    ALL may be allowed and Read denied: a DENY of Read does not deny ALL, which no broker requests.
    """
    missing = [operation.title for operation in OPERATIONS if operation not in operations]
    if AclOperation.ALL not in operations or len(operations) == 1:
        return ", ".join(operation.title for operation in operations)
    return f"every operation but {', '.join(missing)}" if missing else "every operation"


def describe_names(requests: RequestClass) -> str:
    """``orders, pay* (but pay-x)``; a prefix ends with a star."""
    return ", ".join(map(_names, requests.names))


def describe_hosts(requests: RequestClass) -> str:
    """``10.0.0.1``; ``any host but 10.0.0.1``; ``10.0.0.0/8 but 10.1.0.0/16``."""
    host, excluded = requests.hosts
    return _but(host or "any host", excluded)


def _names(names: NameSet) -> str:
    if names.is_name:
        return literal_text(names.text)
    excluded = [literal_text(text) if is_name else f"{text}*" for text, is_name in names.excluded]
    return f"{names.text}*" + (f" (but {', '.join(excluded)})" if excluded else "")


def _but(text: str, excluded: tuple[str, ...]) -> str:
    return f"{text} but {', '.join(excluded)}" if excluded else text
