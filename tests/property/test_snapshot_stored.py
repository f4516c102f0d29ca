"""Image -> stored form -> image, for any records that the formats can hold."""

from __future__ import annotations

import tempfile
import uuid
from itertools import product
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_from_name
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, MetadataRecord
from snapshot.columns import AclColumns
from snapshot.files.export import export_image, kip11_resources
from snapshot.files.export_format import ExportFormat
from snapshot.files.kraft_checkpoint import read_checkpoint, write_checkpoint
from snapshot.image import AclsImage
from snapshot.store.layout import cluster_directory, parse_cluster_directory
from snapshot.store.snapshot_store import SnapshotStore
from support.example_counts import examples
from support.exported import acls_in_csv, records_in_json_lines
from support.snapshots import IDENTITY, contents, replayed
from support.strategies import access_control_entry_records, record_lists, strange_acl_records

any_records = record_lists(with_transactions=True) | st.lists(strange_acl_records(), max_size=12)


def memory_store(rows_per_part: int) -> SnapshotStore:
    return SnapshotStore(f"memory://{uuid.uuid4().hex}", rows_per_part=rows_per_part)


@given(any_records, st.integers(1, 5))
@settings(max_examples=examples(gate=40, deep=200))
def test_a_stored_image_is_read_back(records: list[MetadataRecord], rows_per_part: int) -> None:
    """The stored image is equal for any number of parts, and its recomputed digest is its digest."""
    image = replayed(records)
    store = memory_store(rows_per_part)
    ref = store.write(image, IDENTITY, log_end_time_ms=0)
    again = store.read(ref, IDENTITY).image
    assert contents(again) == contents(image)
    assert (again.digest, len(again), again.metadata.features) == (
        image.digest,
        len(image),
        image.metadata.features,
    )
    assert again.provenance == image.provenance
    assert store.verify(ref, IDENTITY) == ()


@given(record_lists(), record_lists())
@settings(max_examples=examples(gate=40, deep=200))
def test_a_snapshot_and_the_tail_give_the_full_log(
    head: list[MetadataRecord], tail: list[MetadataRecord]
) -> None:
    """A node that starts from a snapshot has the same state as one that read the full log."""
    store = memory_store(3)
    store.write(replayed(head), IDENTITY, log_end_time_ms=0)
    found = store.latest(IDENTITY)
    assert found is not None
    resumed = replayed(tail, found.image)
    full = replayed(head + tail)
    assert contents(resumed) == contents(full)
    assert (resumed.digest, resumed.metadata.features) == (full.digest, full.metadata.features)


@given(any_records)
def test_a_checkpoint_restores_acls_and_features(records: list[MetadataRecord]) -> None:
    """Kafka's format holds the ACLs and feature levels of any image."""
    image = replayed(records)
    with tempfile.TemporaryDirectory() as directory:
        again = read_checkpoint(write_checkpoint(image, directory))
    assert state(again) == state(image)
    assert (again.digest, again.metadata.features, again.provenance) == (
        image.digest,
        image.metadata.features,
        image.provenance,
    )


@given(any_records)
@settings(max_examples=examples(gate=40, deep=200))
def test_text_formats_restore_every_acl(records: list[MetadataRecord]) -> None:
    """JSON lines and CSV restore ACLs with any text and codes."""
    image = replayed(records)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state"
        export_image(image, path, ExportFormat.JSON_LINES)
        again = replayed(records_in_json_lines(path))
        export_image(image, path, ExportFormat.CSV)
        from_csv = acls_in_csv(path)
    assert state(again) == set(from_csv) == state(image)
    assert (again.digest, again.metadata.features, len(from_csv)) == (
        image.digest,
        image.metadata.features,
        len(image),
    )


def state(image: AclsImage) -> set[AccessControlEntryRecord]:
    return {acl.record for acl in image}


@given(any_records)
def test_a_kip11_document_has_every_acl_once(records: list[MetadataRecord]) -> None:
    """Its entries, multiplied out, are the ACLs."""
    acls = [record for record in records if isinstance(record, AccessControlEntryRecord)]
    grants = [
        (
            code_from_name(ResourceType, resource["resourceType"]),
            resource["resourceName"],
            code_from_name(PatternType, resource["patternType"]),
            entry["principal"],
            host,
            code_from_name(AclOperation, operation),
            code_from_name(AclPermissionType, entry["permissionType"]),
        )
        for resource in kip11_resources(acls)
        for entry in resource["acls"]
        for operation, host in product(entry["operations"], entry["hosts"])
    ]
    assert set(grants) == {record.content for record in acls}
    assert len(grants) == len(set(grants))


@given(st.text(st.characters(), min_size=1))
def test_every_cluster_id_has_a_separate_directory(cluster_id: str) -> None:
    """It is one plain name below the store, which decodes to the id."""
    directory = cluster_directory(cluster_id)
    assert parse_cluster_directory(directory) == cluster_id
    assert "/" not in directory
    assert directory.isascii()
    assert not directory.startswith((".", "~"))


@given(st.lists(access_control_entry_records(), min_size=1, max_size=10))
@settings(max_examples=examples(gate=40, deep=200))
def test_offsets_are_stored_unless_a_checkpoint_lost_them(records: list[MetadataRecord]) -> None:
    """ACLs from a checkpoint have no offsets, those of the tail have offsets; both are stored."""
    image = replayed(records)
    half = {
        acl_id: AppliedAcl(acl.record, None, acl.timestamp_ms) if acl_id[-1] % 2 else acl
        for acl_id, acl in contents(image).items()
    }
    mixed = AclsImage.restored(AclColumns.of(half.values()), digest=image.digest, provenance=image.provenance)
    store = memory_store(3)
    assert contents(store.read(store.write(mixed, IDENTITY, log_end_time_ms=0)).image) == half
