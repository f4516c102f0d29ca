"""RecentStates: the states before the current one, as far back as they cost next to nothing.

States share what did not change, so some hundred of them take little more memory than one. But each set of
columns that they stand on (snapshot.image) is whole: states on earlier columns are held while those are few
rows together. A reload ends what is held, because the log before it may have been another one (I5, I11).

Settings and readiness are those of the moment of the question, and no part of the past.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from authorizer.decisions.state import AuthorizerState
from replay.manifest import ReloadManifest

if TYPE_CHECKING:
    from authorizer.index.acl_index import AclIndex
    from authorizer.standard import StandardAuthorizer
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

#: States that are held at most.
HELD_MAXIMUM: Final = 512
#: Rows of earlier columns that are held at most.
EARLIER_ROWS_MAXIMUM: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Held:
    """A state of the ACLs, which was so from one end offset to another, both included."""

    first: int
    last: int
    index: AclIndex


class RecentStates:
    """A Publisher; comes behind the authorizer whose states it holds. ``at`` may be called by any thread."""

    name: Final = "recent states"

    def __init__(self, authorizer: StandardAuthorizer) -> None:
        self._authorizer = authorizer
        # Replaced, never changed: the newest last.
        self._held: tuple[_Held, ...] = ()

    def at(self, end_offset: int) -> AuthorizerState | None:
        """The state of the ACLs at ``end_offset`` (last contained offset + 1); None if it is not held.

        Its own end offset is later where nothing changed in between.
        """
        current = self._authorizer.state
        if end_offset == current.end_offset:
            return current
        for held in reversed(self._held):
            if held.first <= end_offset <= held.last:
                return AuthorizerState(
                    held.index, current.settings, current.is_ready, current.not_ready_reason
                )
        return None

    @property
    def first(self) -> int | None:
        """The earliest end offset that is held."""
        held = self._held
        return held[0].first if held else None

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """The authorizer has taken this update just before."""
        del delta
        index, end_offset = self._authorizer.state.index, image.provenance.end_offset
        counts, held = manifest.counts, self._held
        if index.image is not image:
            self._held = ()  # the authorizer has failed, and gets the whole state next
        elif isinstance(manifest, ReloadManifest) or not held:
            self._held = (_Held(end_offset, end_offset, index),)
        elif counts.added or counts.removed or counts.replaced:
            held = (*held[-HELD_MAXIMUM + 1 :], _Held(end_offset, end_offset, index))
            self._held = held if index.rows is held[-2].index.rows else _few_rows(held)
        else:
            self._held = (*held[:-1], _Held(held[-1].first, end_offset, index))

    def on_ready(self) -> None:
        """Readiness is the authorizer's."""

    def on_not_ready(self, reason: str) -> None:
        """Readiness is the authorizer's."""

    def close(self) -> None:
        """What is held stays."""


def _few_rows(held: tuple[_Held, ...]) -> tuple[_Held, ...]:
    """Without what stands on too many rows of earlier columns."""
    rows, columns = 0, held[-1].index.rows
    for at in reversed(range(len(held))):
        if held[at].index.rows is not columns:
            columns = held[at].index.rows
            rows += len(columns.columns)
            if rows > EARLIER_ROWS_MAXIMUM:
                return held[at + 1 :]
    return held
