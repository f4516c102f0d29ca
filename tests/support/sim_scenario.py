"""Scenario files of the replay core: commands, and below ``----`` the core's effects.

    recovered start=0 hw=9 [now=MS] [snapshot=END[@EPOCH]:a,b] [logend=MS]
    read hw=9 [now=MS]            then one line for each batch, indented: BASE[@EPOCH]: RECORD ...
    out-of-range start=0 end=9
    failed decode|corrupt|gone|unreachable|other MESSAGE
    lost REASON
    core retention=MS             starts a new core, with a log that forgets removals

A RECORD takes one offset: ``+a`` puts ACL a in force, ``+a2`` gives it other content, ``-a`` removes it; then
there are ``begin``, ``end``, ``abort``, ``noop``, ``control``, and ``.``: a gap that compaction left. A file
begins with a comment that names the rule.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from typing import Final

from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import DecodeError, LogCorruptError, LogError, LogNotFoundError, LogStorageError
from records.ids import Uuid
from records.log_batch import LogBatch, LogRecord
from replay.core import Core
from replay.events import (
    BatchesRead,
    Effect,
    Event,
    Fail,
    GapSeen,
    LoadedSnapshot,
    OutOfRange,
    Publish,
    ReadFailed,
    Recovered,
    Reload,
    ReportNotReady,
    ReportReady,
    StateLost,
)
from replay.manifest import ReloadManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.sim_log import identity

SEPARATOR: Final = "----"
_MARKERS: Final[dict[str, MetadataRecord | ControlRecord]] = {
    "begin": BeginTransactionRecord(),
    "end": EndTransactionRecord(),
    "abort": AbortTransactionRecord(),
    "noop": OtherRecord(20, 0),
    "control": ControlRecord(2, 0, b""),
}
_FAILURES: Final = {
    "decode": DecodeError,
    "corrupt": LogCorruptError,
    "gone": LogNotFoundError,
    "unreachable": LogStorageError,
    "other": LogError,
}


def run_scenario(text: str) -> str:
    """The text with the core's present effects."""
    core, retention_ms = Core(), None
    answered: list[str] = []
    for block in re.split(r"\n\n+", text.strip()):
        command = block.split(f"\n{SEPARATOR}")[0]
        if command.startswith("#"):
            answered.append(command)
            continue
        words = shlex.split(command.splitlines()[0])
        if words[0] == "core":
            core, retention_ms = Core(), int(_options(words)["retention"])
            lines = []
        else:
            event = _event(words, command, retention_ms)
            lines = [line for effect in core.step(event) for line in _effect_lines(effect)]
        ready = "ready" if core.ready else "not ready"
        lines.append(f"-> {core.phase.value} at {core.position}, {ready}")
        answered.append("\n".join([command, SEPARATOR, *lines]))
    return "\n\n".join(answered) + "\n"


def acl_named(name: str) -> AccessControlEntryRecord:
    """An ACL; ``a`` and ``a2`` have one id and different contents."""
    key = name.rstrip("0123456789")
    acl_id = Uuid(hashlib.md5(key.encode(), usedforsecurity=False).digest())
    return AccessControlEntryRecord(acl_id, 2, name, 3, "User:a", "*", 3, 3)


def removal_of(name: str) -> RemoveAccessControlEntryRecord:
    return RemoveAccessControlEntryRecord(acl_named(name).id)


def _options(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words[1:])


def _event(words: list[str], command: str, retention_ms: int | None) -> Event:
    match words[0]:
        case "recovered":
            options = _options(words)
            return Recovered(
                identity=identity(),
                snapshot=_snapshot(options["snapshot"], options.get("logend"))
                if "snapshot" in options
                else None,
                log_start=int(options["start"]),
                high_watermark=int(options["hw"]),
                now_ms=int(options.get("now", 0)),
                removal_retention_ms=retention_ms,
            )
        case "read":
            options = _options(words)
            return BatchesRead(
                batches=[_batch(line.strip()) for line in command.splitlines()[1:]],
                high_watermark=int(options["hw"]),
                now_ms=int(options.get("now", 0)),
            )
        case "out-of-range":
            options = _options(words)
            return OutOfRange(start=int(options["start"]), end=int(options["end"]))
        case "failed":
            return ReadFailed(_FAILURES[words[1]](" ".join(words[2:])))
        case "lost":
            return StateLost(" ".join(words[1:]))
        case other:
            raise ValueError(f"no such command: {other}")


def _snapshot(text: str, log_end_time_ms: str | None) -> LoadedSnapshot:
    place, _, names = text.partition(":")
    end_offset, _, epoch = place.partition("@")
    delta = AclsDelta(AclsImage.EMPTY)
    for name in filter(None, names.split(",")):
        delta.replay(LogRecord(0, 0, acl_named(name)))
    return LoadedSnapshot(
        image=delta.apply(Provenance(int(end_offset), int(epoch or 1), 0)),
        log_end_time_ms=None if log_end_time_ms is None else int(log_end_time_ms),
        origin=f"snapshot {place}",
    )


def _batch(line: str) -> LogBatch:
    place, _, words = line.partition(":")
    base, _, epoch = place.partition("@")
    base_offset = int(base)
    tokens = words.split()
    records = tuple(
        LogRecord(offset, 0, _record(token))
        for offset, token in enumerate(tokens, base_offset)
        if token != "."
    )
    return LogBatch(base_offset, base_offset + len(tokens), int(epoch or 1), 0, 100, records)


def _record(token: str) -> MetadataRecord | ControlRecord:
    if token in _MARKERS:
        return _MARKERS[token]
    return acl_named(token[1:]) if token[0] == "+" else removal_of(token[1:])


def _effect_lines(effect: Effect) -> list[str]:
    match effect:
        case Publish():
            names = [
                f"{'-' if after is None else '+'}{acl.record.resource_name}"
                for before, after in effect.delta.changed()
                if (acl := after or before)
            ]
            kind = (
                f"complete, from {effect.manifest.origin}"
                if isinstance(effect.manifest, ReloadManifest)
                else "delta"
            )
            held = sorted(found.record.resource_name for found in effect.image)
            end_offset = effect.image.provenance.end_offset
            return [
                f"publish {end_offset}, {kind}: {' '.join(sorted(names)) or 'no change'}",
                f"    in force: {' '.join(held) or 'nothing'}",
            ]
        case ReportReady():
            return ["ready"]
        case ReportNotReady():
            return [f"not ready: {effect.reason}"]
        case Fail():
            return [f"fail: {type(effect.error).__name__}: {effect.error}"]
        case Reload():
            return [f"reload: {effect.reason}"]
        case GapSeen():
            return [f"gap [{effect.offset}, {effect.next_offset}), until {effect.until}"]
