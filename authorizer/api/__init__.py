"""Vocabulary of the authorizer: KIP-504's interface, results, errors, addresses and release rules.

Programs import the interface from here: ``from authorizer.api import Action, RequestContext``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import (
        AclBindingDeleteResult,
        AclCreateResult,
        AclDeleteResult,
        AclMutator,
        Action,
        AuthorizableRequestContext,
        AuthorizationResult,
        Authorizer,
        AuthorizerServerInfo,
        Endpoint,
        HttpRequestContext,
        RequestContext,
        SecurityProtocol,
    )

__all__ = [
    "AclBindingDeleteResult",
    "AclCreateResult",
    "AclDeleteResult",
    "AclMutator",
    "Action",
    "AuthorizableRequestContext",
    "AuthorizationResult",
    "Authorizer",
    "AuthorizerServerInfo",
    "Endpoint",
    "HttpRequestContext",
    "RequestContext",
    "SecurityProtocol",
]


def __getattr__(name: str) -> object:
    """Import the interface when a program asks for one of its names."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module("authorizer.api.authorizer_api"), name)
