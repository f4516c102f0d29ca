"""ResourceNames: which resources exist, from a file that another program writes.

Each line has a resource type and a name: ``TOPIC orders``. A cluster's metadata log has its topics and no
other resources, a log of only ACLs has none. The file is reloaded when it has changed; if it cannot be read,
the previous names stay in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

from authorizer.api.errors import ConfigError
from authorizer.configuration.file_version import FileVersion
from records.acl import CLUSTER_NAME, ResourceType

log = structlog.get_logger(__name__)

#: Of an error.
_ALLOWED: Final = "a file with a resource a line, its type and its name: TOPIC orders"
_CLUSTER: Final = frozenset({CLUSTER_NAME})

_Names = dict[ResourceType, frozenset[str]]


class ResourceNames:
    """The names in one file; no names without a file. Thread-safe."""

    def __init__(self, path: str | None, key: str) -> None:
        """Read it; a ConfigError names ``key``, the setting that names it."""
        self._path = None if path is None else Path(path)
        # Replaced, never changed.
        self._read: tuple[FileVersion, Mapping[ResourceType, frozenset[str]]] | None = None
        if self._path is not None:
            try:
                self._read = _read(self._path)
            except (OSError, ValueError) as error:
                raise ConfigError(key, str(path), f"{_ALLOWED}; {error}") from error

    def of(self, resource_type: ResourceType) -> frozenset[str] | None:
        """The existing names; None if they are unknown, because the file has none of the type."""
        if resource_type is ResourceType.CLUSTER:
            return _CLUSTER
        if self._path is None or self._read is None:
            return None
        try:
            if FileVersion.of(self._path) != self._read[0]:
                self._read = _read(self._path)
        except (OSError, ValueError) as error:
            log.warning("resource_names_not_read", path=str(self._path), reason=str(error))
        return self._read[1].get(resource_type)


def _read(path: Path) -> tuple[FileVersion, _Names]:
    """Raises ValueError: an invalid line, with its number; or no text."""
    version = FileVersion.of(path)
    names: dict[ResourceType, set[str]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            kind, _, name = line.rstrip("\r\n").partition(" ")
            if not kind:
                continue
            resource_type = ResourceType.from_name(kind)
            if resource_type <= ResourceType.ANY or not name:
                raise ValueError(f"line {number} is not: {line.rstrip()[:80]}")
            names.setdefault(resource_type, set()).add(name)
    return version, {kind: frozenset(found) for kind, found in names.items()}
