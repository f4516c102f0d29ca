"""Publisher: receives the state (the authorizer, the snapshot generator, metrics, the change feed).

Source: org.apache.kafka.image.publisher.MetadataPublisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage


class Publisher(Protocol):
    """Receives every published image, in order. All calls come from the loader's thread.

    ``delta.image`` is the same object as the previous update's image, or ``AclsImage.EMPTY``: then the
    update is the complete state and replaces the previous one. That is so for the first update, and
    for the first one after an update that raised, because its outcome is unknown.

    The loader's FaultHandler gets the errors of a publisher; the others still get the update.
    """

    @property
    def name(self) -> str:
        """Unique within a loader."""

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """The state is now ``image``, which differs from the one before by ``delta``.

        ``manifest`` is a LogDeltaManifest or a ReloadManifest. None of the three ever changes, and all may
        be retained; ``delta`` retains the previous image.
        """

    def on_ready(self) -> None:
        """The state is complete and sound from now on; called after the update (I4)."""

    def on_not_ready(self, reason: str) -> None:
        """The state must not be used for decisions from now on; called again when the reason changes."""

    def close(self) -> None:
        """Last call; made once."""
