"""The fold of a log: any split into deltas gives the images of the log."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import (
    AccessControlEntryRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import Uuid
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance, restore_image
from support.digests import digest_of
from support.snapshots import contents, logged, replayed
from support.strategies import acl_records, record_lists, strange_acl_records


def mirror(records: list[MetadataRecord]) -> tuple[dict[Uuid, AppliedAcl], dict[str, int]]:
    """The rules in their simplest form: (ACLs by id, features)."""
    acls: dict[Uuid, AppliedAcl] = {}
    features: dict[str, int] = {}
    for entry in logged(records):
        match entry.record:
            case AccessControlEntryRecord() as record:
                if record.id not in acls or acls[record.id].record != record:
                    acls[record.id] = AppliedAcl(record, entry.offset, entry.timestamp_ms)
            case RemoveAccessControlEntryRecord(id=removed):
                acls.pop(removed, None)
            case FeatureLevelRecord(name=name, level=0):
                features.pop(name, None)
            case FeatureLevelRecord(name=name, level=level):
                features[name] = level
    return acls, features


def state(image: AclsImage) -> tuple[object, ...]:
    return contents(image), image.metadata, len(image), image.digest, image.provenance


@given(record_lists(with_transactions=True))
def test_the_fold_equals_the_naive_fold(records: list[MetadataRecord]) -> None:
    """Replay as one delta gives the naive state, with digest and count."""
    image = replayed(records)
    acls, features = mirror(records)
    assert contents(image) == acls
    assert image.metadata.features == features
    assert len(image) == len(acls)
    assert image.digest == digest_of(found.record for found in acls.values())


@given(record_lists(max_size=6))
def test_every_split_into_deltas_gives_the_same_image(records: list[MetadataRecord]) -> None:
    """All splits of the records into batches give one last image, and each intermediate image is right."""
    expected = state(replayed(records))
    for cuts in range(len(records)):
        for where in combinations(range(1, len(records)), cuts):
            image = AclsImage.EMPTY
            for start, end in zip((0, *where), (*where, len(records)), strict=True):
                image = replayed(records[start:end], image)
                acls, features = mirror(records[:end])
                assert (contents(image), image.metadata.features) == (acls, features)
            assert state(image) == expected


@given(st.lists(acl_records(), max_size=40), st.data())
def test_later_images_do_not_change_earlier_ones(records: list[MetadataRecord], data: st.DataObject) -> None:
    """The intermediate images are the same after the last one is made."""
    image = AclsImage.EMPTY
    made = []
    while records:
        size = data.draw(st.integers(1, len(records)))
        image = replayed(records[:size], image)
        made.append((image, state(image)))
        records = records[size:]
    for earlier, was in made:
        assert state(earlier) == was


@given(st.lists(strange_acl_records(), max_size=12))
def test_the_digest_follows_any_content(records: list[MetadataRecord]) -> None:
    """For any codes, texts and ids the digest of the fold is the digest of the remaining ACLs."""
    image = replayed(records)
    assert image.digest == digest_of(found.record for found in image)
    assert len(image) == len(list(image))


@given(record_lists(), record_lists())
def test_changes_lead_from_image_to_image(before: list[MetadataRecord], after: list[MetadataRecord]) -> None:
    """The changes of a delta, applied to its base image, give the new image, and each is a real change."""
    image = replayed(before)
    delta = AclsDelta(image)
    for entry in logged(after, start=image.provenance.end_offset):
        delta.replay(entry)
    applied = contents(image)
    for was, is_now in delta.changed():
        assert was != is_now
        if is_now is None:
            assert was is not None
            del applied[was.record.id]
        else:
            assert applied.get(is_now.record.id) == was
            applied[is_now.record.id] = is_now
    assert applied == contents(delta.apply(Provenance(0, 0, 0)))


@given(record_lists())
def test_the_rows_of_an_image_restore_it(records: list[MetadataRecord]) -> None:
    """The rows may come in any order and in any pieces."""
    image = replayed(records)
    rows = sorted(image, key=lambda found: found.record.id, reverse=True)
    tables = [AclTable.of(rows[:2]), AclTable.of(rows[2:])]
    again = restore_image(tables, provenance=image.provenance, metadata=image.metadata)
    assert state(again) == state(image)
