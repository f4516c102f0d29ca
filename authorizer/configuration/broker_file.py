"""Properties file of a broker or controller: how to recognize it, and where its metadata log is.

Source: KafkaConfig.metadataLogDir (metadata.log.dir, else the first of log.dirs), KafkaConfig.logDirs
(log.dirs, else log.dir).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from authorizer.api.errors import ConfigError
from authorizer.configuration.listeners import split_list
from records.log.directory.files import METADATA_LOG_DIRECTORY

METADATA_LOG_DIR: Final = "metadata.log.dir"
LOG_DIRS: Final = "log.dirs"
LOG_DIR: Final = "log.dir"
_PROCESS_ROLES: Final = "process.roles"
_ZOOKEEPER: Final = "zookeeper.connect"

#: A file that sets one of these is a broker's or a controller's: its ``listeners`` are not the sidecar's.
BROKER_KEYS: Final = (
    _PROCESS_ROLES,
    METADATA_LOG_DIR,
    LOG_DIRS,
    LOG_DIR,
    "advertised.listeners",
    "inter.broker.listener.name",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    _ZOOKEEPER,
)


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """The directory of a broker's metadata log, and the key and value that name it; read-only."""

    key: str
    value: str
    directory: Path

    @property
    def url(self) -> str:
        """The log's path. ConfigError: the directory is on another machine; OSError: not accessible."""
        try:
            self.directory.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ConfigError(
                self.key,
                self.value,
                f"a directory with the broker's {METADATA_LOG_DIRECTORY} in it: there is no {self.directory} "
                "here. Name the log with --log or aclog.log.url",
            ) from error
        return str(self.directory)


def is_broker_file(properties: Mapping[str, str]) -> bool:
    """Whether the properties are those of a broker or a controller."""
    return any(key in properties for key in BROKER_KEYS)


def broker_log_of(properties: Mapping[str, str]) -> BrokerLog | None:
    """Return the metadata log that a broker's file names; None for other files, and with ZooKeeper."""
    if _ZOOKEEPER in properties and _PROCESS_ROLES not in properties:
        return None
    for key in (METADATA_LOG_DIR, LOG_DIRS, LOG_DIR):
        value = properties.get(key, "")
        for directory in split_list(value)[:1]:
            return BrokerLog(key, value, Path(directory) / METADATA_LOG_DIRECTORY)
    return None
