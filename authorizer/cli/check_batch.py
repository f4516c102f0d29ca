"""``aclog check --batch``: a file of questions, one JSON line each, in order (tests/data/oracle/README.md).

A question may say at which state it is to be asked. ``atOffset`` n: after the first n records, of the --records
file or of the log; ``logOffset``: after the record at that offset of the log, and it wins over atOffset there.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final

import click

from authorizer.audit import OFF, AuditLog
from authorizer.batch_query import answer
from authorizer.cli.failure import ExitCode
from authorizer.cli.output import JsonLines, Progress, note
from authorizer.cli.records_log import RecordsLog
from authorizer.standard import StandardAuthorizer
from records.errors import DecodeError
from replay.errors import OffsetUnavailableError
from replay.load import load_image
from replay.snapshot_source import SnapshotOffer
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from authorizer.cli.place import Place
    from records.log.base import LogIdentity, MetadataLog

#: Questions that are held at once: those of one state are answered together, in whatever order they come.
_CHUNK: Final = 50_000

_GZIP_MAGIC: Final = b"\x1f\x8b"


def answer_batch(place: Place, queries: str, records: str | None, *, progress: bool | None) -> None:
    """Print one answer for each line. A line that is no question is answered by its error, and exit code 4."""
    bad: list[str] = []
    with ExitStack() as opened:
        lines = opened.enter_context(_lines(queries))
        if records is None:
            log = opened.enter_context(place.log())
        else:
            with _lines(records) as payloads:
                log = opened.enter_context(closing(RecordsLog(payloads, records)))
        states = _States(place, log, from_file=records is not None)
        answers = opened.enter_context(JsonLines())
        shown_progress = opened.enter_context(Progress("answers", wanted=progress))
        done = 0
        while chunk := list(islice(lines, _CHUNK)):
            for found in states.answers(chunk, first_line=done + 1, bad=bad):
                answers.write(found)
            done += len(chunk)
            shown_progress.at(done)
    if bad:
        note(f"{len(bad)} of {done} lines were no questions; the first: {bad[0]}")
        raise click.exceptions.Exit(ExitCode.BAD_DATA)
