"""A typed use of what programs import from aclog: checked by mypy, never run.

A line that must not type-check says so by the error that mypy has for it; if it is none any more, mypy
reports the comment (warn_unused_ignores).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from typing import assert_type

from authorizer.api import (
    AclCreateResult,
    AclDeleteResult,
    AclMutator,
    Action,
    AuthorizableRequestContext,
    AuthorizationResult,
    Authorizer,
    AuthorizerServerInfo,
    Endpoint,
    RequestContext,
    SecurityProtocol,
)
from authorizer.api.errors import ApiError, AuthorizerNotReadyError, ConfigError
from authorizer.client import AsyncClient, AuthorizationRequest, CacheSettings, Client, Decision, calls
from authorizer.configuration.load import Config, load_config
from authorizer.node import Node, NodeStatus
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.acl import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.errors import AclogError
from records.log.base import MetadataLog
from records.log.open import open_log
from records.principal import KafkaPrincipal
from replay.clock import Clock
from replay.manifest import LoaderManifest
from replay.publishers import Publisher
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage

ALICE = KafkaPrincipal("User", "alice")
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
READ = Action(AclOperation.READ, ORDERS, log_if_allowed=False)
ENTRY = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
CONTEXT = RequestContext(ALICE, "10.0.0.1")


def settings() -> Config:
    """From a file, the environment and flags; None is as good as not given."""
    load_config(flags={"aclog.snapshot.keep": 3})  # type: ignore[dict-item]
    return load_config(
        "aclog.properties", environ={}, flags={"aclog.log.url": "file:./acls", "node.id": None}
    )


def node(config: Config, clock: Clock) -> NodeStatus:
    """A node in a gateway: opened, started, asked, closed."""
    with Node.open(config, clock=clock) as node:
        assert_type(node, Node)
        assert_type(node.log, MetadataLog)
        assert_type(node.start(), Mapping[Endpoint, Future[None]])
        assert_type(node.wait_until_ready(timeout_s=30), bool)
        node.wait_until_ready()  # type: ignore[call-arg]
        node.loader.add_publisher(Counting())
        node.loader.add_publisher(len)  # type: ignore[arg-type]
        return node.status()


def decisions(authorizer: Authorizer) -> bool:
    """One answer for each action; there is an answer or an error, never something that is neither."""
    try:
        results = authorizer.authorize(CONTEXT, [READ])
    except AuthorizerNotReadyError as error:
        assert_type(error.code_name, str)
        return False
    assert_type(results, list[AuthorizationResult])
    authorizer.authorize(CONTEXT, READ)  # type: ignore[arg-type]
    authorizer.authorize(ALICE, [READ])  # type: ignore[arg-type]
    any_topic = authorizer.authorize_by_resource_type(CONTEXT, AclOperation.WRITE, ResourceType.TOPIC)
    if any_topic:  # type: ignore[truthy-bool]
        pass  # DENIED is true, too
    if any_topic == "ALLOWED":  # type: ignore[comparison-overlap]
        pass
    return all(result is AuthorizationResult.ALLOWED for result in results)


def reasons(authorizer: StandardAuthorizer) -> None:
    """The decisions of aclog's authorizer beyond KIP-504, on one state for several requests."""
    state = authorizer.state
    assert_type(authorizer.decide(CONTEXT, READ, state).result, AuthorizationResult)
    assert_type(authorizer.explain(CONTEXT, READ).fix, tuple[tuple[str, ...], ...])
    authorizer.state = state  # type: ignore[misc]


def values() -> None:
    """Kafka's names and codes; values never change."""
    assert_type(AclOperation.from_name("Read"), AclOperation)
    Action("READ", ORDERS)  # type: ignore[arg-type]
    Action(AclOperation.READ, "orders")  # type: ignore[arg-type]
    Action(AclOperation.READ, ResourcePatternFilter())  # type: ignore[arg-type]
    RequestContext("User:alice", "10.0.0.1")  # type: ignore[arg-type]
    ResourcePattern(PatternType.LITERAL, "orders", ResourceType.TOPIC)  # type: ignore[arg-type]
    CONTEXT.client_address = "10.0.0.2"  # type: ignore[misc]
    AclBinding(ORDERS)  # type: ignore[call-arg]


def changes(authorizer: Authorizer) -> Iterator[ApiError | None]:
    """Futures of single results, for creations and deletions; a listing."""
    created = authorizer.create_acls(CONTEXT, [AclBinding(ORDERS, ENTRY)])
    assert_type(created, list[Future[AclCreateResult]])
    for creation in created:
        yield creation.result(timeout=5).exception
    alices = AclBindingFilter(ResourcePatternFilter(), AccessControlEntryFilter(principal="User:alice"))
    for deletion in authorizer.delete_acls(CONTEXT, [alices]):
        for deleted in deletion.result().acl_binding_delete_results:
            assert_type(deleted.acl_binding, AclBinding)
            yield deleted.exception
    assert_type(authorizer.acls(AclBindingFilter()), Iterable[AclBinding])
    authorizer.create_acls(CONTEXT, [alices])  # type: ignore[list-item]
    authorizer.delete_acls(CONTEXT, alices)  # type: ignore[arg-type]


def logs() -> None:
    """A log by its URL, whatever kind it is."""
    with closing(open_log("kafka://b1:9092/acls", mode="write", client={"client.id": "mine"})) as log:
        assert_type(log, MetadataLog)
    open_log("file:./acls", mode="append")  # type: ignore[arg-type]


def errors() -> tuple[type[AclogError], ...]:
    """All of them have one root."""
    return (ApiError, ConfigError, ValueError)  # type: ignore[return-value]


# --- what a program brings of its own ---------------------------------------------------------------------


@dataclass(frozen=True)
class GatewayRequest:
    """A request of a program's own kind is a context, if it has all that is asked of one."""

    principal: KafkaPrincipal
    client_address: str
    listener_name: str = "PUBLIC"
    security_protocol: SecurityProtocol = SecurityProtocol.SASL_SSL
    request_type: int = 1
    request_version: int = 13
    client_id: str = ""
    correlation_id: int = 0


@dataclass(frozen=True)
class HalfARequest:
    principal: KafkaPrincipal
    client_address: str


class Counting:
    """A publisher: it follows the state."""

    name = "counting"
    count = 0

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        self.count = len(image)

    def on_ready(self) -> None: ...
    def on_not_ready(self, reason: str) -> None: ...
    def close(self) -> None: ...


class Elsewhere:
    """A mutator: creations and deletions go to an admin client, say."""

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[Future[AclCreateResult]]:
        return [Future() for _ in bindings]

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[Future[AclDeleteResult]]:
        return [Future() for _ in filters]


def own_kinds() -> None:
    """They are what the interfaces ask for, and what lacks something is not."""
    authorizer: Authorizer = StandardAuthorizer(mutator=Elsewhere())
    authorizer.configure({"super.users": "User:admin"})
    authorizer.start(AuthorizerServerInfo(None, -1, (Endpoint("A", SecurityProtocol.SSL, None, 9092),)))
    authorizer.authorize(GatewayRequest(ALICE, "10.0.0.1"), [READ])
    context: AuthorizableRequestContext = GatewayRequest(ALICE, "10.0.0.1")
    context = HalfARequest(ALICE, "10.0.0.1")  # type: ignore[assignment]
    publisher: Publisher = Counting()
    publisher = StandardAuthorizer()
    mutator: AclMutator = Elsewhere()
    mutator = publisher  # type: ignore[assignment]
    authorizer = mutator  # type: ignore[assignment]
    del context, publisher, authorizer


def ask_a_sidecar() -> None:
    """By threads: decisions, and any other call with the type of its answer."""
    question = AuthorizationRequest(ALICE, AclOperation.READ, ResourceType.TOPIC, "orders", "10.0.0.1")
    with Client("http://127.0.0.1:8180", cache=CacheSettings(max_age_s=1), when_unavailable="deny") as client:
        assert_type(client.decide(question, min_offset=1), Decision)
        assert_type(client.decide_all([question]), list[Decision])
        assert_type(client.ask(calls.explanation(question)).fix, list[str])
        assert_type(client.ask(calls.state()).offset, int)
        client.decide("orders")  # type: ignore[arg-type]
    Client("http://127.0.0.1:8180", when_unavailable="allow")  # type: ignore[arg-type]


async def ask_a_sidecar_from_a_loop(question: AuthorizationRequest) -> None:
    """The same by tasks."""
    async with AsyncClient("unix:/run/aclog.sock") as client:
        assert_type(await client.decide(question), Decision)
        assert_type((await client.ask(calls.listing())).offset, int)
