"""NodeMeaning: the digest of what a node's ACLs mean, worked out where it is asked for.

At a million ACLs that takes ten seconds of a thread's time, so nobody waits for it: who asks gets what is
known, and the state that it is of. What is asked for first is the whole; after that only the principals whose
ACLs changed. One state is worked on at a time, however many ask, and a node that is closed ends that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from authorizer.analysis.effective_permissions import EffectivePermissions
from authorizer.analysis.related_acls import acls_by_principal, changed_principals
from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.node.switch_interval import giving_way
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from authorizer.analysis.effective_permissions import SemanticDigest
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
    from authorizer.node.standard_authorizer import StandardAuthorizer

_log: Final = structlog.get_logger(__name__)


class _ClosedError(Exception):
    """The node is being closed."""


class KnownMeaning(NamedTuple):
    """The digest of a state's meaning, and where in the log that state is."""

    end_offset: int
    digest: bytes


class _Worked(NamedTuple):
    """What was worked out last."""

    state: AuthorizerState
    digest: SemanticDigest
    known: KnownMeaning


class NodeMeaning:
    """Of the authorizer's current state. Thread-safe."""

    def __init__(self, authorizer: StandardAuthorizer) -> None:
        self._authorizer = authorizer
        self._lock = threading.Lock()
        self._worked: _Worked | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def asked(self) -> KnownMeaning | None:
        """What is known, at once: of the current state, or of the last one that was worked out.

        If it is not of the current state, a thread begins to work that out. None: nothing is known yet.
        """
        state = self._authorizer.state
        with self._lock:
            worked = self._worked
            if worked is not None and _is_same(worked.state, state):
                return worked.known._replace(end_offset=state.end_offset)
            if state.is_ready and self._thread is None and not self._is_closed:
                self._thread = threading.Thread(
                    target=self._work, args=(state, worked), name="aclog-meaning", daemon=True
                )
                self._thread.start()
        return None if worked is None else worked.known

    def digest_of(self, state: AuthorizerState) -> SemanticDigest:
        """Of a state of the authorizer, worked out by the thread that asks, as far as it is not known.

        Raises:
            AuthorizerNotReadyError: the node is being closed.
        """
        with self._lock:
            worked = self._worked
        if worked is None or not _is_same(worked.state, state):
            try:
                worked = self._made(state, worked)
            except _ClosedError as error:
                raise AuthorizerNotReadyError("the node is being closed") from error
        return worked.digest

    def close(self) -> None:
        """End what is being worked out. Idempotent."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _go_on(self) -> None:
        if self._is_closed:
            raise _ClosedError

    def _made(self, state: AuthorizerState, last: _Worked | None) -> _Worked:
        with giving_way():
            digest = _digest(state, last, self._go_on)
        worked = _Worked(state, digest, KnownMeaning(state.end_offset, digest.combined))
        with self._lock:
            self._worked = worked
        return worked

    def _work(self, state: AuthorizerState, last: _Worked | None) -> None:
        try:
            self._made(state, last)
        except _ClosedError:
            pass
        except Exception:  # noqa: BLE001 - said, as a thread that ends has no caller
            _log.exception("meaning_failed", offset=state.end_offset)
        finally:
            with self._lock:
                self._thread = None


def _is_same(one: AuthorizerState, other: AuthorizerState) -> bool:
    mine, others = one.index.image, other.index.image
    is_image = mine.columns is others.columns and mine.changes == others.changes
    return is_image and _settings(one) == _settings(other)


def _settings(state: AuthorizerState) -> AuthorizerSettings:
    """With the release whose rules are followed: that is a part of what the ACLs mean."""
    return state.settings.with_version_of(state.index.image)


def _digest(state: AuthorizerState, last: _Worked | None, go_on: Callable[[], None]) -> SemanticDigest:
    index, settings = state.index, _settings(state)
    changed = None
    if last is not None and _settings(last.state) == settings:
        changed = changed_principals(last.state.index, index)
    if last is None or changed is None or WILDCARD_PRINCIPAL in changed:
        return EffectivePermissions.digest_of(index.image.merged().columns, settings, check_cancelled=go_on)
    if settings.allow_everyone:
        # What is open to everybody depends on everyone's ACLs.
        part = EffectivePermissions.digest_of(
            index.image.merged().columns, settings, changed, check_cancelled=go_on
        )
    else:
        part = EffectivePermissions.digest_of(
            acls_by_principal(index, changed | {WILDCARD_PRINCIPAL}), settings, check_cancelled=go_on
        )
    return last.digest.with_changes(part, changed | settings.super_users)
