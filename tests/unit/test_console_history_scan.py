"""The backward scan of a log: every past state, and where the known states begin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from authorizer.api.ip_address import STRICTEST
from authorizer.console.history import history_scan, index_cache
from authorizer.console.history.history_scan import History, HistoryScan
from authorizer.engine.decisions.listing import list_acls
from authorizer.engine.index.acl_index import AclIndex
from records.acl import AclBindingFilter, ResourceType
from records.log.open import open_log
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles
from snapshot.image import AclsImage
from support.node_acls import topic_acl
from support.nodes import create, delete, running_node

NAMES = ["orders", "payments", "audit", "shipping"]


def scan_of(log: Path) -> HistoryScan:
    return HistoryScan(lambda: open_log(str(log)), lambda opened: [CheckpointFiles(opened)], lambda: None)


def image_of(log: Path) -> AclsImage:
    with closing(open_log(str(log))) as opened:
        return load_image(opened).image


def scan_completely(scan: HistoryScan, log: Path) -> History:
    now = image_of(log)
    scan.update(0, now)
    while not scan.is_done:
        scan.extend()
    return scan.update(0, now)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Callable[[str], int]]:
    """A log, and a function that adds or removes an ACL and returns the end offset."""
    log = tmp_path / "log"

    def write(name: str) -> int:
        with running_node(log, log_mode="create") as node:
            if name.startswith("-"):
                delete(node, name[1:])
            else:
                create(node, [topic_acl(name)])
            return node.status().end_offset

    return log, write


def digest_at(log: Path, end_offset: int) -> int:
    opened = open_log(str(log))
    try:
        return load_image(opened, at_offset=end_offset - 1).image.digest
    finally:
        opened.close()


def test_each_state_equals_a_load_at_its_offset(
    written: tuple[Path, Callable[[str], int]],
) -> None:
    log, write = written
    ends = [write(name) for name in (*NAMES, "-audit", "audit")]
    scan = scan_of(log)
    history = scan_completely(scan, log)
    assert history.progress is None
    assert history.is_complete
    assert [each.end_offset for each in history.states] == [0, *ends]
    for end in ends:
        at = history.index_at(end)
        assert at is not None
        assert history.states[at].image.digest == digest_at(log, end)
    changes = [each.changes for each in history.states]
    assert [len(each or ()) for each in changes] == [0, 1, 1, 1, 1, 1, 1]
    assert (history.states[5].added, history.states[5].removed) == (0, 1)
    assert history.index_at(ends[-1] + 1) is None
    # An update reads only the new records; the earlier states stay the same objects.
    later = write("search")
    again = scan.update(0, image_of(log))
    assert again.states[: len(history.states)] == history.states
    assert again.states[-1].image.digest == digest_at(log, later)
    # An ACL of an earlier update may be removed in a later one.
    later = write("-search")
    again = scan.update(0, image_of(log))
    assert again.states[-1].removed == 1
    assert again.states[-1].image.digest == digest_at(log, later)
    # A reloaded log may be another one.
    assert again.end == later
    reloaded = scan.update(1, image_of(log))
    assert [each.end_offset for each in reloaded.states] == [later]
    assert reloaded.progress is not None


def test_parts_scanned_backwards_form_one_history(
    written: tuple[Path, Callable[[str], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = written
    ends = [write(name) for name in (*NAMES, "-audit", "audit", "-orders")]
    monkeypatch.setattr(history_scan, "FIRST_PART_OFFSETS", 2)
    monkeypatch.setattr(history_scan, "PART_OFFSETS", 3)
    scan, now = scan_of(log), image_of(log)
    firsts = []
    while not scan.update(0, now).is_complete:
        history = scan.update(0, now)
        assert history.progress is not None
        firsts.append(history.states[0].end_offset)
        scan.extend()
    assert firsts == [ends[-1], ends[-1] - 2, ends[-1] - 5]
    history = scan.update(0, now)
    assert [each.end_offset for each in history.states] == [0, *ends]
    assert [each.image.digest for each in history.states[1:]] == [digest_at(log, end) for end in ends]
    # All of them share the columns of the current state.
    assert all(each.image.columns is now.columns for each in history.states)
    scan.clear()
    assert [each.end_offset for each in scan.update(0, now).states] == [ends[-1]]


def test_states_over_the_limits_are_evicted_and_the_history_is_incomplete(
    written: tuple[Path, Callable[[str], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = written
    ends = [write(name) for name in NAMES]
    monkeypatch.setattr(history_scan, "STATES_MAXIMUM", 3)
    few = scan_completely(scan_of(log), log)
    assert [each.end_offset for each in few.states] == ends[1:]
    assert not few.is_complete
    assert few.index_at(ends[0]) is None
    monkeypatch.setattr(history_scan, "CHANGES_MAXIMUM", 1)
    bare = scan_completely(scan_of(log), log)
    assert [each.changes is None for each in bare.states] == [True, True, False]
    assert [each.added for each in bare.states] == [1, 1, 1]


def test_the_index_of_a_state_does_not_depend_on_cached_indexes(
    written: tuple[Path, Callable[[str], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = written
    for name in (*NAMES, "-audit", "audit", "-orders"):
        write(name)
    monkeypatch.setattr(index_cache, "_CACHE_INTERVAL_CHANGES", 1)
    monkeypatch.setattr(index_cache, "_INDEXES_MAXIMUM", 3)
    states = scan_completely(scan_of(log), log).states
    now = AclIndex.of(states[-1].image)
    indexes = index_cache.IndexCache()
    for at in (6, 5, 2, 3, 7, 0, 4, 1, 7):
        index = indexes.get(states, at, now, networks=STRICTEST)
        alone = AclIndex.of(states[at].image)
        assert index.image is states[at].image
        for name in NAMES:
            assert index.resources.has((ResourceType.TOPIC, name)) is alone.resources.has(
                (ResourceType.TOPIC, name)
            ), (at, name)
        listed = [list(list_acls(each, AclBindingFilter()).acls()) for each in (index, alone)]
        assert listed[0] == listed[1]
