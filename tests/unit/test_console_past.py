"""The walk through a log: every state that it went through, and where what it knows begins."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from authorizer.api.ip_network import STRICTEST
from authorizer.console.history import history_scan as room
from authorizer.console.history import indexes as console_indexes
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


def past_of(log: Path) -> HistoryScan:
    return HistoryScan(lambda: open_log(str(log)), lambda opened: [CheckpointFiles(opened)], lambda: None)


def image_of(log: Path) -> AclsImage:
    with closing(open_log(str(log))) as opened:
        return load_image(opened).image


def walked_whole(past: HistoryScan, log: Path) -> History:
    """After every part has been looked through."""
    now = image_of(log)
    past.look(0, now)
    while not past.is_over:
        past.extend()
    return past.look(0, now)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Callable[[str], int]]:
    """A log, and what adds an ACL to it, or removes it; the log's end then."""
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


def test_each_state_is_the_one_that_a_load_at_that_offset_gives(
    written: tuple[Path, Callable[[str], int]],
) -> None:
    log, write = written
    ends = [write(name) for name in (*NAMES, "-audit", "audit")]
    past = past_of(log)
    walked = walked_whole(past, log)
    assert walked.progress is None
    assert walked.is_whole
    assert [each.end_offset for each in walked.moments] == [0, *ends]
    for end in ends:
        at = walked.at(end)
        assert at is not None
        assert walked.moments[at].image.digest == digest_at(log, end)
    changes = [each.changes for each in walked.moments]
    assert [len(each or ()) for each in changes] == [0, 1, 1, 1, 1, 1, 1]
    assert (walked.moments[5].added, walked.moments[5].removed) == (0, 1)
    assert walked.at(ends[-1] + 1) is None
    # What comes later is walked from there, and the earlier states are the same ones.
    later = write("search")
    again = past.look(0, image_of(log))
    assert again.moments[: len(walked.moments)] == walked.moments
    assert again.moments[-1].image.digest == digest_at(log, later)
    # What an earlier look found may go in a later one.
    later = write("-search")
    again = past.look(0, image_of(log))
    assert again.moments[-1].removed == 1
    assert again.moments[-1].image.digest == digest_at(log, later)
    # A log that was loaded anew may be another one.
    assert again.end == later
    anew = past.look(1, image_of(log))
    assert [each.end_offset for each in anew.moments] == [later]
    assert anew.progress is not None


def test_parts_that_are_looked_through_backwards_are_one_past(
    written: tuple[Path, Callable[[str], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = written
    ends = [write(name) for name in (*NAMES, "-audit", "audit", "-orders")]
    monkeypatch.setattr(room, "FIRST_PART", 2)
    monkeypatch.setattr(room, "PART", 3)
    past, now = past_of(log), image_of(log)
    firsts = []
    while not past.look(0, now).is_whole:
        walked = past.look(0, now)
        assert walked.progress is not None
        firsts.append(walked.moments[0].end_offset)
        past.extend()
    assert firsts == [ends[-1], ends[-1] - 2, ends[-1] - 5]
    walked = past.look(0, now)
    assert [each.end_offset for each in walked.moments] == [0, *ends]
    assert [each.image.digest for each in walked.moments[1:]] == [digest_at(log, end) for end in ends]
    # All of them share the columns of now.
    assert all(each.image.columns is now.columns for each in walked.moments)
    past.forget()
    assert [each.end_offset for each in past.look(0, now).moments] == [ends[-1]]


def test_what_is_too_much_is_forgotten_and_said_to_be(
    written: tuple[Path, Callable[[str], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = written
    ends = [write(name) for name in NAMES]
    monkeypatch.setattr(room, "HELD_MAXIMUM", 3)
    few = walked_whole(past_of(log), log)
    assert [each.end_offset for each in few.moments] == ends[1:]
    assert not few.is_whole
    assert few.at(ends[0]) is None
    monkeypatch.setattr(room, "HELD_ACLS_MAXIMUM", 1)
    bare = walked_whole(past_of(log), log)
    assert [each.changes is None for each in bare.moments] == [True, True, False]
    assert [each.added for each in bare.moments] == [1, 1, 1]


def test_the_index_of_a_moment_is_that_of_its_image_whichever_came_before(
    written: tuple[Path, Callable[[str], int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = written
    for name in (*NAMES, "-audit", "audit", "-orders"):
        write(name)
    monkeypatch.setattr(console_indexes, "_KEPT_EVERY", 1)
    monkeypatch.setattr(console_indexes, "_INDEXES_MAXIMUM", 3)
    moments = walked_whole(past_of(log), log).moments
    now = AclIndex.of(moments[-1].image)
    indexes = console_indexes.IndexCache()
    for at in (6, 5, 2, 3, 7, 0, 4, 1, 7):
        index = indexes.of(moments, at, now, networks=STRICTEST)
        alone = AclIndex.of(moments[at].image)
        assert index.image is moments[at].image
        for name in NAMES:
            assert index.resources.has((ResourceType.TOPIC, name)) is alone.resources.has(
                (ResourceType.TOPIC, name)
            ), (at, name)
        listed = [list(list_acls(each, AclBindingFilter()).acls()) for each in (index, alone)]
        assert listed[0] == listed[1]
