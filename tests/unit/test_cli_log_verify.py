"""authorizer.cli.log.verify: the counts of a scan."""

from __future__ import annotations

import pytest

from authorizer.cli.log.verify import _Scan
from authorizer.cli.rendering.output import Progress
from records.entries import AccessControlEntryRecord
from replay.errors import LogChangedError
from support.sim_log import SimLog, identity
from support.sim_scenario import acl_named


def committed(log: SimLog, *names: str) -> None:
    for name in names:
        log.append_uncommitted([acl_named(name)])
    log.commit()


def test_counts_are_those_of_one_log() -> None:
    """I9: a topic that was deleted and created again while it was read, with no fewer records."""
    log = SimLog()
    log.read_bytes_max = 1
    committed(log, "a", "b", "c")

    def replaced() -> None:
        log.after_read = None
        log.replace(identity("later"))
        log.new_epoch()
        committed(log, "d", "e", "f", "g")

    log.after_read = replaced
    walk = _Scan.of(log, Progress("offsets"))
    assert (walk.end, walk.batches, walk.types[AccessControlEntryRecord], len(walk.epochs)) == (4, 4, 4, 1)


def test_a_repeatedly_replaced_log_is_refused() -> None:
    """I9: no statement about it is possible."""
    log = SimLog()
    committed(log, "a")
    count = iter(range(1000))

    def replaced() -> None:
        log.replace(identity(f"later {next(count)}"))
        committed(log, "a")

    log.after_read = replaced
    with pytest.raises(LogChangedError, match="each time it was read"):
        _Scan.of(log, Progress("offsets"))
