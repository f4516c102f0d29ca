"""records.log.topic.writer: errors before anything is sent."""

from __future__ import annotations

import pytest

from records.errors import EncodeError, LogUnreachableError
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.topic_errors import TopicErrors
from records.log.topic.writer import TopicWriter
from records.log.url import TopicUrl
from support.snapshots import acl

WHERE = TopicUrl("kafka://h:1/acls", "h:1", "acls")


def writer() -> TopicWriter:
    errors = ClientErrors()
    settings = ClientSettings(WHERE, {}, errors)
    return TopicWriter(WHERE, settings, TopicErrors(WHERE, errors), 1_000, lambda: False)


def test_an_unreachable_cluster_means_that_nothing_was_written() -> None:
    """The identity of the log is unknown then; the caller may retry safely."""

    def check() -> None:
        raise LogUnreachableError("looking at the topic: timed out")

    with pytest.raises(LogUnreachableError, match=r"^looking at the topic: timed out; nothing was written$"):
        writer().append([acl(1)], check)


def test_an_unsupported_record_is_refused() -> None:
    """It is refused before the topic is read."""

    def check() -> None:
        raise AssertionError

    with pytest.raises(EncodeError, match=r"the topic takes 1000 \(max\.message\.bytes\)"):
        writer().append([acl(1, resource_name="t" * 1_000)], check)
