"""MetadataWarning: warns in the program's log if the followed log is of a newer Kafka than this build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from authorizer.node.cluster_metadata_report import newer_version
from replay.publishers import Publisher

if TYPE_CHECKING:
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

_log = structlog.get_logger(__name__)


class MetadataWarning(Publisher):
    """A Publisher that logs a warning once, and again if the release is newer still."""

    name: Final = "metadata warning"

    def __init__(self) -> None:
        self._warned: str | None = None

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        warning = newer_version(image.metadata)
        if warning is not None and warning != self._warned:
            _log.warning("kafka_is_newer", reason=warning)
        self._warned = warning
