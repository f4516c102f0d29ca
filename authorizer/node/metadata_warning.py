"""MetadataWarning: says in a node's log that the Kafka whose log it follows is newer than this build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from authorizer.node.cluster_metadata_report import newer_version

if TYPE_CHECKING:
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

_log = structlog.get_logger(__name__)


class MetadataWarning:
    """A Publisher: logs once that the log is of a newer Kafka, and again where that is newer still."""

    name: Final = "metadata warning"

    def __init__(self) -> None:
        self._warned: str | None = None

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        warning = newer_version(image.metadata)
        if warning is not None and warning != self._warned:
            _log.warning("kafka_is_newer", reason=warning)
        self._warned = warning

    def on_ready(self) -> None:
        """Nothing to say."""

    def on_not_ready(self, reason: str) -> None:
        """Nothing to say."""

    def close(self) -> None:
        """Nothing is held."""
