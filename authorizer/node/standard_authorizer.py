"""StandardAuthorizer: Kafka's authorizer on a replayed state.

It implements KIP-504's interface (`authorizer.api`) and replay's Publisher. Decisions depend only on one
immutable AuthorizerState behind one attribute: readers load it once for each request and never wait; a change
swaps in a new state. The rules:

- I1: one state for all actions of a request.
- I4, I7: while replay has not reported a complete and sound state, super users are allowed and everyone else
  gets AUTHORIZER_NOT_READY, never DENIED.
- I5: settings and readiness survive every update.
- Endpoints open once: early-start listeners immediately, the others at the first readiness. Later errors
  appear in the answers; no endpoint closes.

Source: org.apache.kafka.metadata.authorizer.StandardAuthorizer, ClusterMetadataAuthorizer.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final

from authorizer.api.authorizer_api import (
    AclCreateResult,
    AclDeleteResult,
    AclMutator,
    Action,
    AuthorizableRequestContext,
    AuthorizationResult,
    AuthorizerServerInfo,
    Endpoint,
)
from authorizer.api.errors import NotControllerError, OperationTimedOutError
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG, SUPER_USERS_CONFIG
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.authorize import authorize_actions, authorized_operations
from authorizer.engine.decisions.by_resource_type import (
    allows_by_every_release,
    allows_some_resource,
    check_arguments,
    probe,
)
from authorizer.engine.decisions.decision import DecidedAction, Decision, DecisionCounts
from authorizer.engine.decisions.listing import list_acls
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from authorizer.engine.explanation.explain import Explanation, explain
from authorizer.engine.index.acl_index import AclIndex
from replay.errors import InvariantError
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from records.acl import AclBinding, AclBindingFilter, AclOperation, ResourceType
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta

_NOT_LOADED: Final = "the log has not been replayed to its high watermark yet"
_DESCRIPTION: Final = (
    "aclog StandardAuthorizer: decides as Apache Kafka's StandardAuthorizer does, by ACLs replayed from the "
    "metadata log. Principals are `Type:name` of any type, case-sensitive; `User:*` in an ACL is everyone of "
    "every type, and there is no other wildcard."
)


class StandardAuthorizer:
    """Decides by the ACLs of the replayed state. Thread-safe.

    ``initial_load``: done when the node is ready for the first time.
    """

    name: Final = "authorizer"

    def __init__(
        self,
        *,
        audit: AuditLog | None = None,
        mutator: AclMutator | None = None,
        of_brokers: bool = False,
    ) -> None:
        """Without ``mutator`` ACLs cannot be changed here; ``audit`` is by default one at INFO.

        ``of_brokers``: a cluster's brokers decide by the same ACLs, with their own settings.
        """
        self._of_brokers = of_brokers
        self.metrics = DecisionCounts()
        self._audit = AuditLog() if audit is None else audit
        self._mutator = mutator
        self.initial_load: Future[None] = Future()
        # Shared by several callers: none of them may cancel it.
        self.initial_load.set_running_or_notify_cancel()
        # Serializes changes of the state; readers need no lock.
        self._lock = threading.Lock()
        self._state = AuthorizerState(
            AclIndex.of(AclsImage.EMPTY), AuthorizerSettings(), is_ready=False, not_ready_reason=_NOT_LOADED
        )

    @property
    def state(self) -> AuthorizerState:
        """The current state, for several requests on one state."""
        return self._state

    # -- settings ------------------------------------------------------------------------------------------

    def configure(self, configs: Mapping[str, object]) -> None:
        """Apply ``super.users``, ``allow.everyone.if.no.acl.found`` and ``aclog.kafka.version``, or none."""
        settings = AuthorizerSettings.from_configs(configs, of_brokers=self._of_brokers)
        with self._lock:
            state = self._state
            index = state.index
            if not settings.matches_rules_of(index, index.image):
                index = settings.index(index.image)
            self._state = AuthorizerState(index, settings, state.is_ready, state.not_ready_reason)

    def reconfigurable_configs(self) -> frozenset[str]:
        return frozenset({SUPER_USERS_CONFIG, ALLOW_EVERYONE_CONFIG})

    def validate_reconfiguration(self, configs: Mapping[str, object]) -> None:
        """Raise ConfigError if ``reconfigure`` would."""
        AuthorizerSettings.from_configs(configs)

    def reconfigure(self, configs: Mapping[str, object]) -> None:
        """As ``configure``, while running; requests under way keep the settings that they began with."""
        self.configure(configs)

    # -- lifecycle -----------------------------------------------------------------------------------------

    def start(self, server_info: AuthorizerServerInfo) -> Mapping[Endpoint, Future[None]]:
        """For each endpoint, when it may accept: early-start listeners now, the others when loaded.

        Those futures fail with OperationTimedOutError if the authorizer is closed before.
        """
        now: Future[None] = Future()
        now.set_result(None)
        early = server_info.early_start_listeners
        return {
            endpoint: now if (endpoint.listener_name or "") in early else self.initial_load
            for endpoint in server_info.endpoints
        }

    def close(self) -> None:
        """Fail what waits for the load. Decisions already possible stay possible. Idempotent."""
        with self._lock:
            if not self.initial_load.done():
                self.initial_load.set_exception(
                    OperationTimedOutError(
                        "The authorizer was closed before the initial load could complete."
                    )
                )

    def description(self) -> str:
        """Describe this authorizer and its principals (KIP-50)."""
        return _DESCRIPTION

    # -- replay's Publisher --------------------------------------------------------------------------------

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """Swap in the index of ``image``; readers see the update completely or not at all."""
        index, settings = self._state.index, self._state.settings
        is_next = delta.image is index.image
        if image.metadata is not index.image.metadata:
            is_next &= settings.matches_rules_of(index, image)
        index = index.with_delta(delta, image) if is_next else settings.index(image)
        if index.resources.count != image.count:
            raise InvariantError(f"the index holds {index.resources.count} ACLs, its image {image.count}")
        self._swap_index(index)

    def load(self, image: AclsImage) -> None:
        """Load a complete, sound state without replay, for a command."""
        self._swap_index(self._state.settings.index(image))
        self.on_ready()

    def on_ready(self) -> None:
        self._swap_readiness(is_ready=True)
        with self._lock:
            if not self.initial_load.done():
                self.initial_load.set_result(None)

    def on_not_ready(self, reason: str) -> None:
        self._swap_readiness(is_ready=False, reason=reason)

    # dataclasses.replace would be slower: it copies every field by name.
    def _swap_index(self, index: AclIndex) -> None:
        with self._lock:
            state = self._state
            self._state = AuthorizerState(index, state.settings, state.is_ready, state.not_ready_reason)

    def _swap_readiness(self, *, is_ready: bool, reason: str | None = None) -> None:
        with self._lock:
            state = self._state
            reason = state.not_ready_reason if reason is None else reason
            self._state = AuthorizerState(state.index, state.settings, is_ready, reason)

    # -- decisions -----------------------------------------------------------------------------------------

    def authorize(
        self,
        context: AuthorizableRequestContext,
        actions: Sequence[Action],
        state: AuthorizerState | None = None,
    ) -> list[AuthorizationResult]:
        """Decide all actions on one state, by default the current one; return their results.

        AuthorizerNotReadyError: not loaded, and the principal is not a super user, here and in the methods
        below. ValueError: an action's resource is not LITERAL.
        """
        state = self._state if state is None else state
        return authorize_actions(state, context, actions, self._audit, self.metrics)

    def decide(
        self, context: AuthorizableRequestContext, action: Action, state: AuthorizerState | None = None
    ) -> Decision:
        """Decide an action with its reason, counted and audited as in ``authorize``; raises the same.

        ``state``: a state of this authorizer, for several decisions on one; the current one if None.
        """
        state = self._state if state is None else state
        return self.answer(context, action, state).decision()

    def answer(
        self, context: AuthorizableRequestContext, action: Action, state: AuthorizerState | None = None
    ) -> DecidedAction:
        """As ``decide``; `DecidedAction` computes the reason on demand."""
        return self.answer_all(context, (action,), state)[0]

    def answer_all(
        self,
        context: AuthorizableRequestContext,
        actions: Sequence[Action],
        state: AuthorizerState | None = None,
    ) -> list[DecidedAction]:
        """As ``answer``, for several actions on one state."""
        state = self._state if state is None else state
        decided: list[DecidedAction] = []
        authorize_actions(state, context, actions, self._audit, self.metrics, decided)
        return decided

    def explain(
        self, context: AuthorizableRequestContext, action: Action, state: AuthorizerState | None = None
    ) -> Explanation:
        """Explain a decision; neither counted nor audited. Raises as ``authorize``."""
        return explain(self._state if state is None else state, context, action)

    def authorized_operations(
        self,
        context: AuthorizableRequestContext,
        resource_type: ResourceType,
        name: str,
        state: AuthorizerState | None = None,
    ) -> tuple[AclOperation, ...]:
        """Return the allowed ones of the release's operations (KIP-430), by default on the current state."""
        return self.authorized_operations_of_each(context, resource_type, [name], state)[0]

    def authorized_operations_of_each(
        self,
        context: AuthorizableRequestContext,
        resource_type: ResourceType,
        names: Sequence[str],
        state: AuthorizerState | None = None,
    ) -> list[tuple[AclOperation, ...]]:
        """As ``authorized_operations``, for several resources on one state."""
        state = self._state if state is None else state
        operations = state.version.supported_operations(resource_type)
        return authorized_operations(
            partial(self.authorize, state=state), context, resource_type, names, operations
        )

    def authorize_by_resource_type(
        self,
        context: AuthorizableRequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        state: AuthorizerState | None = None,
    ) -> AuthorizationResult:
        """Decide whether the operation is allowed on any resource of the type (KIP-679), not ANY, UNKNOWN."""
        check_arguments(operation, resource_type)
        state = self._state if state is None else state
        (probed,) = authorize_actions(
            state, context, (probe(operation, resource_type),), self._audit, self.metrics
        )
        if probed is AuthorizationResult.DENIED and (
            allows_some_resource(
                state.index, context.principal, context.client_address, operation, resource_type
            )
            or allows_by_every_release(state, context, operation, resource_type)
        ):
            return AuthorizationResult.ALLOWED
        return probed

    # -- the ACLs ------------------------------------------------------------------------------------------

    def acls(self, acl_filter: AclBindingFilter) -> Iterator[AclBinding]:
        """Return the matching ACLs of one state, in Kafka's order. An ACL with two ids is returned once."""
        return list_acls(self._state.index, acl_filter).bindings()

    def acl_count(self) -> int:
        return self._state.index.resources.count

    def create_acls(
        self, context: AuthorizableRequestContext, bindings: Sequence[AclBinding]
    ) -> list[Future[AclCreateResult]]:  # Kafka's callers authorize the context
        """Return a future for each binding, done when it is committed and replayed here.

        NotControllerError, here and by ``delete_acls``: this authorizer cannot write.
        """
        del context
        return self._mutator_or_error().create_acls(bindings)

    def delete_acls(
        self, context: AuthorizableRequestContext, filters: Sequence[AclBindingFilter]
    ) -> list[Future[AclDeleteResult]]:
        """Return a future for each filter, done when its removals are committed and replayed here."""
        del context
        return self._mutator_or_error().delete_acls(filters)

    def _mutator_or_error(self) -> AclMutator:
        if self._mutator is None:
            raise NotControllerError("The current node is not the active controller.")
        return self._mutator
