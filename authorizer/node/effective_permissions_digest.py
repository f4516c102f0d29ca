"""NodePermissionsDigest: the digest of a node's effective permissions, computed on request.

At a million ACLs the computation takes ten seconds of a thread's time. So a request gets the latest known
digest and its state, and starts a computation in a background thread if it is outdated. The first digest is
computed from all ACLs, later ones from those of changed principals only. One computation runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from authorizer.analysis.permissions.effective_permissions import EffectivePermissions, SemanticDigest
from authorizer.analysis.permissions.related_acls import acls_by_principal, changed_principals
from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.node.switch_interval import short_switch_interval
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
    from authorizer.node.standard_authorizer import StandardAuthorizer

_log: Final = structlog.get_logger(__name__)


class _ClosedError(Exception):
    """The node is closing."""


class KnownDigest(NamedTuple):
    """The digest of a state's effective permissions, and the state's end offset."""

    end_offset: int
    digest: bytes


class _Computed(NamedTuple):
    """The last computed digest and its state."""

    state: AuthorizerState
    digest: SemanticDigest
    known: KnownDigest


class NodePermissionsDigest:
    """The digest of an authorizer's current state. Thread-safe."""

    def __init__(self, authorizer: StandardAuthorizer) -> None:
        self._authorizer = authorizer
        self._lock = threading.Lock()
        self._computed: _Computed | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def latest(self) -> KnownDigest | None:
        """Return the latest known digest, without waiting; None if there is none yet.

        If it is outdated, a thread starts to compute the digest of the current state.
        """
        state = self._authorizer.state
        with self._lock:
            computed = self._computed
            if computed is not None and _is_same(computed.state, state):
                return computed.known._replace(end_offset=state.end_offset)
            if state.is_ready and self._thread is None and not self._is_closed:
                self._thread = threading.Thread(
                    target=self._run, args=(state, computed), name="aclog-meaning", daemon=True
                )
                self._thread.start()
        return None if computed is None else computed.known

    def digest_of(self, state: AuthorizerState) -> SemanticDigest:
        with self._lock:
            computed = self._computed
        if computed is None or not _is_same(computed.state, state):
            try:
                computed = self._compute(state, computed)
            except _ClosedError as error:
                raise AuthorizerNotReadyError("the node is being closed") from error
        return computed.digest

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _check_cancelled(self) -> None:
        if self._is_closed:
            raise _ClosedError

    def _compute(self, state: AuthorizerState, last: _Computed | None) -> _Computed:
        with short_switch_interval():
            digest = _digest(state, last, self._check_cancelled)
        computed = _Computed(state, digest, KnownDigest(state.end_offset, digest.combined))
        with self._lock:
            self._computed = computed
        return computed

    def _run(self, state: AuthorizerState, last: _Computed | None) -> None:
        try:
            self._compute(state, last)
        except _ClosedError:
            pass
        except Exception:  # noqa: BLE001 - a thread has no caller to raise to
            _log.exception("meaning_failed", offset=state.end_offset)
        finally:
            with self._lock:
                self._thread = None


def _is_same(one: AuthorizerState, other: AuthorizerState) -> bool:
    image, other_image = one.index.image, other.index.image
    has_same_acls = image.columns is other_image.columns and image.changes == other_image.changes
    return has_same_acls and _settings(one) == _settings(other)


def _settings(state: AuthorizerState) -> AuthorizerSettings:
    """Return the settings with the Kafka release, which affects the effective permissions."""
    return state.settings.with_version_of(state.index.image)


def _digest(
    state: AuthorizerState, last: _Computed | None, check_cancelled: Callable[[], None]
) -> SemanticDigest:
    index, settings = state.index, _settings(state)
    changed = None
    if last is not None and _settings(last.state) == settings:
        changed = changed_principals(last.state.index, index)
    if last is None or changed is None or WILDCARD_PRINCIPAL in changed:
        return EffectivePermissions.digest_of(
            index.image.merged().columns, settings, check_cancelled=check_cancelled
        )
    if settings.allow_everyone:
        # The access of every principal depends on the ACLs of all principals.
        part = EffectivePermissions.digest_of(
            index.image.merged().columns, settings, changed, check_cancelled=check_cancelled
        )
    else:
        part = EffectivePermissions.digest_of(
            acls_by_principal(index, changed | {WILDCARD_PRINCIPAL}),
            settings,
            check_cancelled=check_cancelled,
        )
    return last.digest.with_changes(part, changed | settings.super_users)
