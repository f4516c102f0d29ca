"""Vocabulary of the authorizer: KIP-504's interface, results, errors, addresses and release rules.

Programs import the interface from here: ``from authorizer.api import Action, RequestContext``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import (
        AclBindingDeleteResult as AclBindingDeleteResult,
    )
    from authorizer.api.authorizer_api import (
        AclCreateResult as AclCreateResult,
    )
    from authorizer.api.authorizer_api import (
        AclDeleteResult as AclDeleteResult,
    )
    from authorizer.api.authorizer_api import (
        AclMutator as AclMutator,
    )
    from authorizer.api.authorizer_api import (
        Action as Action,
    )
    from authorizer.api.authorizer_api import (
        AuthorizableRequestContext as AuthorizableRequestContext,
    )
    from authorizer.api.authorizer_api import (
        AuthorizationResult as AuthorizationResult,
    )
    from authorizer.api.authorizer_api import (
        Authorizer as Authorizer,
    )
    from authorizer.api.authorizer_api import (
        AuthorizerServerInfo as AuthorizerServerInfo,
    )
    from authorizer.api.authorizer_api import (
        Endpoint as Endpoint,
    )
    from authorizer.api.authorizer_api import (
        HttpRequestContext as HttpRequestContext,
    )
    from authorizer.api.authorizer_api import (
        RequestContext as RequestContext,
    )
    from authorizer.api.authorizer_api import (
        SecurityProtocol as SecurityProtocol,
    )


def __getattr__(name: str) -> object:
    """Import the interface when a program asks for one of its names."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module("authorizer.api.authorizer_api"), name)
