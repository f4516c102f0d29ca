"""Typed client of the sidecar, for threads and for event loops (docs/client.md).

    with Client("http://127.0.0.1:8180") as client:
        alice = KafkaPrincipal("User", "alice")
        request = AuthorizationRequest(alice, AclOperation.READ, ResourceType.TOPIC, "orders", "10.0.0.1")
        client.decide(request)
        client.ask(calls.listing())

It imports no log, no numpy and no server, because it runs in a gateway's process.
"""

from authorizer.api.errors import (
    SidecarAnswerError,
    SidecarDefectError,
    SidecarError,
    SidecarOutcomeUnknownError,
    SidecarRefusedError,
    SidecarRequestError,
    SidecarUnavailableError,
    SidecarUnreachedError,
)
from authorizer.client import calls
from authorizer.client.address import Credentials
from authorizer.client.cache import CacheSettings
from authorizer.client.client import AsyncClient, Client
from authorizer.client.messages import AuthorizationRequest, Decision
from records.acl import AclOperation, ResourceType
from records.principal import KafkaPrincipal

__all__ = [
    "AclOperation",
    "AsyncClient",
    "AuthorizationRequest",
    "CacheSettings",
    "Client",
    "Credentials",
    "Decision",
    "KafkaPrincipal",
    "ResourceType",
    "SidecarAnswerError",
    "SidecarDefectError",
    "SidecarError",
    "SidecarOutcomeUnknownError",
    "SidecarRefusedError",
    "SidecarRequestError",
    "SidecarUnavailableError",
    "SidecarUnreachedError",
    "calls",
]

#: Earlier name, until the next minor release.
Question = AuthorizationRequest
