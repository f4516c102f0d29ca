"""Publications: which ranges of a history the tables have.

OUTPUT/tables/_publications/<number, 10 digits>.json

A publication is one step of all tables: from the ends of the one before to its own, which are the same if it
only analyses deferred changes or changes acl_coverage. It is put before the
tables are written, and again when they are. So an interrupted one is repeated with the same ranges, and its
number is the version of Delta's transactions: a table that has it already is not written again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from snapshot.errors import HistoryMissingError, SnapshotCorruptError, SparkJobError
from snapshot.jobs.changes.tables.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshot.store.storage import Storage

TABLES_DIRECTORY: Final = "tables"
_DIRECTORY: Final = f"{TABLES_DIRECTORY}/_publications"
_FILE: Final = re.compile(r"([0-9]{10})\.json")
_FORMAT_VERSION: Final = 1


class Publication(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """One step of all tables.

    Attributes:
        writer: the id of Delta's transactions, chosen once for all tables.
        number: their version, from 1 on.
        begins: the end of each cluster's rows before it; a cluster without one has no rows.
        ends: the end of each cluster's rows after it.
        analysis: the configuration of the analysis that writes access_changes.
    """

    format_version: int = _FORMAT_VERSION
    writer: str
    number: int
    begins: dict[str, int]
    ends: dict[str, int]
    analysis: dict[str, str] = {}
    is_complete: bool = False

    @property
    def ranges(self) -> dict[str, tuple[int | None, int]]:
        """The begin (None: of the history) and the end of each cluster that it advances."""
        return {
            cluster_id: (self.begins.get(cluster_id), end)
            for cluster_id, end in self.ends.items()
            if self.begins.get(cluster_id) != end
        }


def next_publication(
    last: Publication | None, ends: Mapping[str, int], analysis: Mapping[str, str] | None = None
) -> Publication:
    """The publication that advances these clusters."""
    configs = dict(analysis or {})
    if last is None:
        return Publication(writer=f"aclog-{uuid4()}", number=1, begins={}, ends=dict(ends), analysis=configs)
    return Publication(
        writer=last.writer,
        number=last.number + 1,
        begins=last.ends,
        ends={**last.ends, **ends},
        analysis=configs,
    )


def last_publication(storage: Storage) -> Publication | None:
    """The newest publication of a history; None before the first.

    Raises:
        SnapshotCorruptError: its file is damaged.
        SparkJobError: the tables and the publications do not belong together.
    """
    names = [name for name in storage.files(_DIRECTORY) if _FILE.fullmatch(name)]
    existing = set(storage.directories(TABLES_DIRECTORY)).intersection(table.name for table in TABLES)
    again = (
        f"Move {storage.shown(TABLES_DIRECTORY)} away: the next run writes all tables again from the history"
    )
    if not names:
        if existing:
            raise SparkJobError(f"{storage.shown(_DIRECTORY)} is missing, but there are tables. {again}")
        return None
    path = f"{_DIRECTORY}/{max(names)}"
    try:
        last = msgspec.json.decode(storage.read(path), type=Publication)
    except FileNotFoundError:
        return last_publication(storage)  # the job has completed the next one
    except msgspec.MsgspecError as error:
        raise SnapshotCorruptError(f"{storage.shown(path)} is damaged: {error}. {again}") from error
    missing = sorted({table.name for table in TABLES} - existing)
    if missing and (last.is_complete or last.number > 1):
        raise SparkJobError(
            f"{storage.shown(TABLES_DIRECTORY)} has no table {', '.join(missing)}: it was removed, or "
            f"another version of aclog wrote the tables. {again}"
        )
    return last


def require_tables(storage: Storage) -> None:
    """Check that a history has tables.

    Raises:
        HistoryMissingError: it has none, or the first publication is not complete yet.
        SnapshotCorruptError, SparkJobError: see last_publication.
    """
    last = last_publication(storage)
    if last is None or not (last.is_complete or last.number > 1):
        raise HistoryMissingError(
            f"{storage.shown('')} has no tables: `aclog spark changes --format delta` writes them"
        )


def published_ends(storage: Storage) -> dict[str, int] | None:
    """The ends of the clusters' rows that all tables have; None if there are no tables.

    Raises:
        SnapshotError: see last_publication.
        SparkJobError: see last_publication.
    """
    last = last_publication(storage)
    if last is None:
        return None
    return last.ends if last.is_complete else last.begins


def begin_publication(storage: Storage, publication: Publication) -> bool:
    """Store a publication before the tables are written; False if another job has begun one of its number."""
    path = _path(publication.number)
    if storage.put_new(path, _encoded(publication)):
        return True
    try:
        # A put whose response was lost has created the file.
        return storage.read(path) == _encoded(publication)
    except FileNotFoundError:
        return False  # the next one is complete


def end_publication(storage: Storage, publication: Publication) -> Publication:
    """Store that all tables have it, and remove the one before it."""
    complete = msgspec.structs.replace(publication, is_complete=True)
    storage.put(_path(publication.number), _encoded(complete))
    if publication.number > 1:
        storage.remove(_path(publication.number - 1))
    return complete


def _encoded(publication: Publication) -> bytes:
    return msgspec.json.encode(publication) + b"\n"


def _path(number: int) -> str:
    return f"{_DIRECTORY}/{number:010d}.json"
