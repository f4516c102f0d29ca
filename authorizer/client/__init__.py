"""A typed client of the sidecar, for threads and for event loops (docs/client.md).

    with Client("http://127.0.0.1:8180") as client:
        alice = KafkaPrincipal("User", "alice")
        client.decide(Question(alice, AclOperation.READ, ResourceType.TOPIC, "orders", "10.0.0.1"))
        client.ask(calls.listing())

Imports neither a log, numpy nor a server: it is for the process of a gateway.
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
from authorizer.client.answers import Decision, Question
from authorizer.client.async_client import AsyncClient
from authorizer.client.cache import CacheSettings
from authorizer.client.client import Client
from records.acl import AclOperation, ResourceType
from records.principal import KafkaPrincipal

__all__ = [
    "AclOperation",
    "AsyncClient",
    "CacheSettings",
    "Client",
    "Credentials",
    "Decision",
    "KafkaPrincipal",
    "Question",
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
