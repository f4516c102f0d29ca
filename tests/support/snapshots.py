"""Small images and snapshot stores for tests of state."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from records.entries import AccessControlEntryRecord, MetadataRecord
from records.ids import Uuid, uuid_from_string
from records.log.base import LogIdentity
from records.log_batch import LogRecord
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance

CLUSTER = "aclogFixtureCluster001"
TOPIC_ID = Uuid(b"t" * 16)
IDENTITY = LogIdentity(CLUSTER, TOPIC_ID)


def acl_id(number: int) -> Uuid:
    """Ids that are easy to distinguish in a failure message."""
    return Uuid(uuid.UUID(int=number).bytes)


def acl(number: int, **changes: Any) -> AccessControlEntryRecord:
    """The ACL number ``number``: ALLOW READ on the topic ``t-<number>`` for ``User:u<number>``."""
    fields: dict[str, Any] = {
        "id": acl_id(number),
        "resource_type": 2,
        "resource_name": f"t-{number}",
        "pattern_type": 3,
        "principal": f"User:u{number}",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AccessControlEntryRecord(**fields | changes)


def logged(records: Iterable[MetadataRecord], *, start: int = 0) -> list[LogRecord]:
    """The records with offsets from ``start``, one record each second."""
    return [LogRecord(offset, 1_000 * offset, record) for offset, record in enumerate(records, start=start)]


def replayed(
    records: Iterable[MetadataRecord], image: AclsImage = AclsImage.EMPTY, *, epoch: int = 1
) -> AclsImage:
    """The image after these records, as one delta."""
    start = image.provenance.end_offset
    delta = AclsDelta(image)
    end = start
    for entry in logged(records, start=start):
        delta.replay(entry)
        end = entry.offset + 1
    return delta.apply(Provenance(end, epoch, 1_000 * max(end - 1, 0)))


def image_of(*numbers: int, epoch: int = 1) -> AclsImage:
    """The image after these ACLs were added."""
    return replayed([acl(number) for number in numbers], epoch=epoch)


def contents(image: AclsImage) -> dict[Uuid, Any]:
    """All fields of each ACL of an image, by id."""
    return {found.record.id: found for found in image}


def edit_manifest(path: Path, **changes: Any) -> None:
    """Change fields of a stored manifest and leave its checksum as it was."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def payload_acl(data: Mapping[str, Any]) -> AccessControlEntryRecord:
    """The ACL of kafka-dump-log's payload ``data``."""
    return AccessControlEntryRecord(
        uuid_from_string(data["id"]),
        data["resourceType"],
        data["resourceName"],
        data["patternType"],
        data["principal"],
        data["host"],
        data["operation"],
        data["permissionType"],
    )
