"""The public Python API: ``from aclog import Node``.

Each name is imported from its module when a program asks for it, so a gateway that only uses ``Client``
loads no log and no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action as Action
    from authorizer.api.authorizer_api import AuthorizationResult as AuthorizationResult
    from authorizer.api.authorizer_api import RequestContext as RequestContext
    from authorizer.api.errors import SidecarError as SidecarError
    from authorizer.client import calls as calls
    from authorizer.client.address import Credentials as Credentials
    from authorizer.client.cache import CacheSettings as CacheSettings
    from authorizer.client.client import AsyncClient as AsyncClient
    from authorizer.client.client import Client as Client
    from authorizer.client.messages import AuthorizationRequest as AuthorizationRequest
    from authorizer.client.messages import Decision as Decision
    from authorizer.configuration.load import Config as Config
    from authorizer.configuration.load import load_config as load_config
    from authorizer.node.node import Node as Node
    from authorizer.node.node import NodeStatus as NodeStatus
    from records.acl import AccessControlEntry as AccessControlEntry
    from records.acl import AclBinding as AclBinding
    from records.acl import AclBindingFilter as AclBindingFilter
    from records.acl import AclOperation as AclOperation
    from records.acl import AclPermissionType as AclPermissionType
    from records.acl import PatternType as PatternType
    from records.acl import ResourcePattern as ResourcePattern
    from records.acl import ResourceType as ResourceType
    from records.errors import AclogError as AclogError
    from records.principal import KafkaPrincipal as KafkaPrincipal

#: Names by the module that defines them.
_NAMES = {
    "authorizer.api.authorizer_api": ("Action", "AuthorizationResult", "RequestContext"),
    "authorizer.api.errors": ("SidecarError",),
    "authorizer.client": ("AsyncClient", "CacheSettings", "Client", "Credentials", "Decision", "calls"),
    "authorizer.client.messages": ("AuthorizationRequest",),
    "authorizer.configuration.load": ("Config", "load_config"),
    "authorizer.node.node": ("Node", "NodeStatus"),
    "records.acl": (
        *("AccessControlEntry", "AclBinding", "AclBindingFilter", "AclOperation", "AclPermissionType"),
        *("PatternType", "ResourcePattern", "ResourceType"),
    ),
    "records.errors": ("AclogError",),
    "records.principal": ("KafkaPrincipal",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'aclog' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
