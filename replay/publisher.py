"""What follows the state: the authorizer, the snapshot generator, metrics, the change feed.

Source: org.apache.kafka.image.publisher.MetadataPublisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage


class Publisher(Protocol):
    """Gets every published image, in order. All calls come from the loader's thread.

    ``delta.image`` is the image of the update before, the very object, or ``AclsImage.EMPTY``: then the
    update is the whole state and whatever was held is to be forgotten. That is so for the first update, and
    for the first one after an update that raised, because what became of it is not known.

    Whatever a publisher raises goes to the loader's FaultHandler; the others still get the update.
    """

    @property
    def name(self) -> str:
        """Unique within a loader."""

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """The state is now ``image``, which differs from the one before by ``delta``.

        ``manifest`` is a LogDeltaManifest or a ReloadManifest. None of the three ever changes, and all may
        be kept; to keep ``delta`` is to keep the image before.
        """

    def on_ready(self) -> None:
        """The state is complete and sound from here on; follows the update that made it so (I4)."""

    def on_not_ready(self, reason: str) -> None:
        """The state must not be decided upon from here on; again when the reason changes."""

    def close(self) -> None:
        """Nothing follows. Called once."""
