"""The fold rules of AclsDelta and AclsImage: I1, I2, I8 (difference 1 from Kafka) and counts."""

from __future__ import annotations

import msgspec
import pytest

from records.columns.acl_table import AppliedAcl
from records.entries import (
    METADATA_VERSION_FEATURE,
    AbortTransactionRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.log_batch import LogRecord
from snapshot.delta import AclsDelta
from snapshot.fold import DeltaCounts
from snapshot.image import NOWHERE, AclsImage, Provenance
from snapshot.metadata_image import MetadataImage
from support.digests import digest_of
from support.snapshots import acl, acl_id, contents, image_of, logged, replayed


def delta_of(records: list[MetadataRecord], image: AclsImage = AclsImage.EMPTY) -> AclsDelta:
    delta = AclsDelta(image)
    for entry in logged(records, start=image.provenance.end_offset):
        delta.replay(entry)
    return delta


def remove(number: int) -> RemoveAccessControlEntryRecord:
    return RemoveAccessControlEntryRecord(acl_id(number))


def test_empty_image_has_nothing_and_stands_nowhere() -> None:
    """Before the first record: no ACL, no feature, digest 0, end offset 0."""
    empty = AclsImage.EMPTY
    assert (len(empty), list(empty), empty.digest, dict(empty.metadata.features)) == (0, [], 0, {})
    assert empty.provenance == NOWHERE
    assert empty.metadata.features == {}


def test_added_acl_carries_its_offset_and_time() -> None:
    """An ACL in force says which log record wrote it."""
    image = replayed([OtherRecord(2, 0), acl(1)])
    assert image.get(acl_id(1)) == AppliedAcl(acl(1), 1, 1_000)
    assert acl_id(1) in image
    assert acl_id(2) not in image
    assert image.provenance == Provenance(2, 1, 1_000)


def test_same_id_with_other_content_replaces() -> None:
    """I8: the later content is in force, and it is counted."""
    delta = delta_of([acl(1), acl(1, host="10.0.0.1")])
    image = delta.apply(NOWHERE)
    assert [found.record for found in image] == [acl(1, host="10.0.0.1")]
    assert delta.counts == DeltaCounts(added=1, replaced=1)
    assert image.digest == digest_of([acl(1, host="10.0.0.1")])


def test_replacing_an_acl_of_the_image_shows_before_and_after() -> None:
    """A publisher sees what the replaced ACL was."""
    delta = delta_of([acl(1, host="10.0.0.1")], image_of(1))
    assert list(delta.changed()) == [
        (AppliedAcl(acl(1), 0, 0), AppliedAcl(acl(1, host="10.0.0.1"), 1, 1_000))
    ]
    assert delta.counts == DeltaCounts(replaced=1)


@pytest.mark.parametrize("in_image", [False, True])
def test_same_id_with_same_content_keeps_the_first_record(*, in_image: bool) -> None:
    """I8: a repeated record changes nothing but the count; the first writing stays on record."""
    image = image_of(1) if in_image else AclsImage.EMPTY
    delta = delta_of([acl(1)] if in_image else [acl(1), acl(1)], image)
    assert delta.counts.repeated == 1
    after = delta.apply(NOWHERE)
    assert after.get(acl_id(1)) == AppliedAcl(acl(1), 0, 0)
    assert len(after) == 1
    assert after.digest == digest_of([acl(1)])
    assert not (in_image and delta.changes)


def test_equal_content_under_two_ids_is_kept_twice() -> None:
    """I8: an ACL is in force until both ids are gone."""
    twin = acl(1, id=acl_id(2))
    image = replayed([acl(1), twin])
    assert len(image) == 2
    assert image.digest == digest_of([acl(1), twin])
    assert [found.record for found in replayed([remove(1)], image)] == [twin]
    assert len(replayed([remove(1), remove(2)], image)) == 0


def test_removal_of_an_unknown_id_has_no_effect() -> None:
    """I8: compaction makes it normal; it is counted, and neither throws nor stops the delta."""
    delta = delta_of([remove(9), acl(1)], image_of(2))
    image = delta.apply(NOWHERE)
    assert delta.counts == DeltaCounts(added=1, unknown_removals=1)
    assert {found.record.id for found in image} == {acl_id(1), acl_id(2)}
    assert acl_id(9) not in delta.changes


def test_second_removal_within_a_delta_is_an_unknown_one() -> None:
    """I8: an id that the delta removed is as unknown as one that never was."""
    delta = delta_of([remove(1), remove(1)], image_of(1))
    assert delta.counts == DeltaCounts(removed=1, unknown_removals=1)
    assert (len(delta.apply(NOWHERE)), delta.apply(NOWHERE).digest) == (0, 0)


def test_added_and_removed_within_a_delta_vanishes() -> None:
    """KAFKA-13889: publishers never hear of an ACL that came and went within one delta."""
    delta = delta_of([acl(1), remove(1)])
    assert not delta.changes
    assert list(delta.changed()) == []
    image = delta.apply(NOWHERE)
    assert (len(image), image.digest) == (0, 0)
    assert delta.counts == DeltaCounts(added=1, removed=1)


def test_removed_and_added_again_within_a_delta_is_in_force() -> None:
    """The image's ACL is gone and the same id is back: one change, from the old writing to the new."""
    delta = delta_of([remove(1), acl(1)], image_of(1))
    image = delta.apply(NOWHERE)
    assert image.get(acl_id(1)) == AppliedAcl(acl(1), 2, 2_000)
    assert len(image) == 1
    assert image.digest == digest_of([acl(1)])
    assert list(delta.changed()) == [(AppliedAcl(acl(1), 0, 0), AppliedAcl(acl(1), 2, 2_000))]


def test_replaced_then_removed_within_a_delta_is_removed() -> None:
    """What the delta made of the image's ACL is what is removed, in the digest too."""
    delta = delta_of([acl(1, host="h"), remove(1)], image_of(1, 2))
    image = delta.apply(NOWHERE)
    assert delta.changes == {acl_id(1): None}
    assert image.digest == digest_of([acl(2)])


def test_get_sees_the_delta_before_the_image() -> None:
    """A delta answers as the image that it will be."""
    delta = delta_of([remove(1), acl(3)], image_of(1, 2))
    assert delta.get(acl_id(1)) is None
    assert delta.get(acl_id(2)) == AppliedAcl(acl(2), 1, 1_000)
    assert delta.get(acl_id(3)) is not None


def test_changes_come_in_the_order_of_the_log() -> None:
    """Changed ids are in the order in which they first changed."""
    delta = delta_of([acl(5), remove(1), acl(4), acl(5, host="h")], image_of(1))
    assert list(delta.changes) == [acl_id(5), acl_id(1), acl_id(4)]


def test_features_follow_their_records() -> None:
    """A feature level replaces the one before, and level 0 removes the feature."""
    image = replayed(
        [FeatureLevelRecord(METADATA_VERSION_FEATURE, 29), FeatureLevelRecord("group.version", 1)]
    )
    assert image.metadata.features[METADATA_VERSION_FEATURE] == 29
    later = replayed(
        [
            FeatureLevelRecord(METADATA_VERSION_FEATURE, 30),
            FeatureLevelRecord("group.version", 0),
            FeatureLevelRecord("never.there", 0),
        ],
        image,
    )
    assert later.metadata.features == {METADATA_VERSION_FEATURE: 30}
    assert image.metadata.features == {METADATA_VERSION_FEATURE: 29, "group.version": 1}


@pytest.mark.parametrize(
    "record",
    [
        OtherRecord(3, 1),
        ControlRecord(2, 0, b""),
        BeginTransactionRecord(),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ],
)
def test_other_records_pass_by_counted(record: MetadataRecord | ControlRecord) -> None:
    """What is no ACL and no feature changes nothing; transactions are replay's concern."""
    delta = AclsDelta(AclsImage.EMPTY)
    delta.replay(LogRecord(0, 0, record))
    assert delta.counts == DeltaCounts(ignored=1)
    assert len(delta.apply(NOWHERE)) == 0


def test_older_images_stay_as_they_were() -> None:
    """I1: an image is immutable, whatever is made of it, by many deltas or by one."""
    first = image_of(1, 2)
    earlier = contents(first)
    second = replayed([remove(1), acl(3), acl(2, host="h")], first)
    replayed([remove(2), remove(3)], second)
    assert contents(first) == earlier
    assert (len(first), first.digest) == (2, digest_of([acl(1), acl(2)]))
    assert {found.record for found in second} == {acl(3), acl(2, host="h")}


def test_later_records_of_a_delta_do_not_change_its_image() -> None:
    """apply() is a picture: later records of the same delta do not reach into it."""
    delta = delta_of([acl(1)])
    image = delta.apply(NOWHERE)
    delta.replay(LogRecord(1, 0, acl(2)))
    delta.replay(LogRecord(2, 0, FeatureLevelRecord("x", 1)))
    assert ([found.record for found in image], dict(image.metadata.features)) == ([acl(1)], {})


def test_changes_are_merged_into_new_columns_when_they_are_many() -> None:
    """Beyond a share of the columns (1,024 at least) changes are merged; nothing but their cost differs."""
    image = image_of(*range(3_000))
    assert not image.changes  # 3,000 changes of no columns: merged immediately
    small = replayed([remove(0), acl(5_000)], image)
    assert len(small.changes) == 2
    assert small.columns is image.columns
    many: list[MetadataRecord] = [
        *(remove(number) for number in range(1, 1_000)),
        *(acl(number) for number in range(6_000, 7_000)),
    ]
    merged = replayed(many, small)
    assert not merged.changes
    assert merged.columns is not image.columns
    expected = {acl_id(number) for number in (*range(1_000, 3_000), 5_000, *range(6_000, 7_000))}
    assert set(contents(merged)) == expected
    assert len(merged) == len(expected)
    assert merged.digest == digest_of(found.record for found in merged)
    assert len(contents(image)) == 3_000  # and the columns of the older images were not touched
    assert set(contents(small)) == {acl_id(number) for number in (*range(1, 3_000), 5_000)}


def test_changes_that_add_up_are_merged() -> None:
    """One step after the other: no image carries more changes than a share of its columns."""
    image = image_of(*range(3_000))
    steps = 0
    while not steps or image.changes:
        image = replayed([acl(10_000 + 100 * steps + number) for number in range(100)], image)
        assert len(image.changes) <= 1_024
        steps += 1
    assert (steps, len(image.columns), len(image)) == (11, 4_100, 4_100)


def test_an_image_settles_where_nobody_has_an_index_of_it() -> None:
    """A few changes are merged into small columns, not into large ones; content and digest stay."""
    few = replayed([acl(n) for n in range(10_000, 10_020)], image_of(*range(2_000)))
    assert few.settled() is few
    some = replayed([acl(n) for n in range(10_000, 10_040)], image_of(*range(2_000)))
    settled = some.settled()
    assert not settled.changes
    assert (contents(settled), settled.digest, settled.provenance, len(settled)) == (
        contents(some),
        some.digest,
        some.provenance,
        len(some),
    )
    assert settled.merged() is settled


def test_an_id_added_after_the_base_and_removed_again_is_not_found() -> None:
    """Neither iteration nor look-up find an id whose addition and removal are both in the map of changes."""
    image = replayed([remove(9_999)], replayed([acl(9_999)], image_of(*range(2_000))))
    assert image.get(acl_id(9_999)) is None
    assert len(contents(image)) == len(image) == 2_000


def test_a_whole_image_is_a_delta_on_nothing() -> None:
    """What every publisher is given first: all ACLs as changes, the same counts, digest and image."""
    image = replayed([remove(1), acl(2_001)], image_of(*range(2_000)))
    delta = AclsDelta.between(AclsImage.EMPTY, image)
    assert delta.get(acl_id(2_001)) == image.get(acl_id(2_001))
    assert delta.counts == DeltaCounts(added=2_000)
    assert delta.changes == contents(image)
    assert delta.get(acl_id(2_001)) == image.get(acl_id(2_001))
    assert all(before is None for before, _ in delta.changed())
    made = delta.apply(image.provenance)
    assert (contents(made), made.digest, len(made)) == (contents(image), image.digest, 2_000)


def test_counts_add_up() -> None:
    """Counts of several deltas are summed field by field."""
    total = DeltaCounts(1, 2, 3, 4, 5, 6)
    total.add(DeltaCounts(10, 20, 30, 40, 50, 60))
    assert list(msgspec.structs.astuple(total)) == [11, 22, 33, 44, 55, 66]


def test_restored_image_takes_the_digest_over() -> None:
    """A stored snapshot's rows become an image without being hashed again."""
    made = image_of(1, 2)
    restored = AclsImage.restored(
        made.merged().columns,
        digest=made.digest,
        provenance=made.provenance,
        metadata=MetadataImage({"f": 1}),
    )
    assert (contents(restored), len(restored), restored.digest) == (contents(made), 2, made.digest)
    assert restored.metadata.features == {"f": 1}
    assert contents(replayed([remove(1)], restored)) == contents(replayed([remove(1)], made))
