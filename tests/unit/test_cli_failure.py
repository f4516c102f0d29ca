"""Every error has one exit code and a remedy."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import click
import pytest

from authorizer.api.errors import (
    AuthorizerNotReadyError,
    ConfigError,
    InvalidRequestError,
    OperationTimedOutError,
)
from authorizer.cli.failure import ExitCode, Failure, failure_of, outcome
from authorizer.cli.rendering.streams import OutputError
from records.errors import (
    AclogError,
    ChecksumMismatchError,
    DecodeError,
    EncodeError,
    LogAuthenticationError,
    LogCorruptError,
    LogLockedError,
    LogNotFoundError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogRefusedError,
    LogStorageError,
    LogUnreachableError,
    OffsetOutOfRangeError,
    TruncatedRecordError,
    UnsupportedVersionError,
)
from replay.errors import LogChangedError
from snapshot.errors import (
    CheckpointClaimedError,
    SnapshotCorruptError,
    SnapshotForeignError,
    SnapshotMissingError,
    SparkBusyError,
    SparkJobError,
)

ERRORS = [
    (ConfigError("super.users", "alice", "Type:name"), ExitCode.USAGE),
    (InvalidRequestError("Invalid empty resource name"), ExitCode.USAGE),
    (LogNotFoundError("no log"), ExitCode.USAGE),
    (LogReadOnlyError("a broker's"), ExitCode.USAGE),
    (OffsetOutOfRangeError(7, start=0, end=3), ExitCode.USAGE),
    (PermissionError(13, "Permission denied", "/x"), ExitCode.USAGE),
    (FileNotFoundError(2, "No such file or directory", "/x"), ExitCode.USAGE),
    (AuthorizerNotReadyError("loading"), ExitCode.NOT_READY),
    (OperationTimedOutError("30 s"), ExitCode.NOT_READY),
    (LogLockedError("locked"), ExitCode.NOT_READY),
    (LogUnreachableError("timed out"), ExitCode.NOT_READY),
    (LogRefusedError("not let in"), ExitCode.USAGE),
    (LogAuthenticationError("wrong password"), ExitCode.USAGE),
    (LogOutcomeUnknownError("committing"), ExitCode.NOT_READY),
    (SparkBusyError("no Python"), ExitCode.NOT_READY),
    (CheckpointClaimedError("in use"), ExitCode.NOT_READY),
    (LogChangedError("truncated"), ExitCode.NOT_READY),
    (SparkJobError("stopped"), ExitCode.BAD_DATA),
    (DecodeError("bad"), ExitCode.BAD_DATA),
    (ChecksumMismatchError("crc"), ExitCode.BAD_DATA),
    (TruncatedRecordError("short"), ExitCode.BAD_DATA),
    (UnsupportedVersionError("version 9"), ExitCode.BAD_DATA),
    (EncodeError("too long"), ExitCode.BAD_DATA),
    (LogCorruptError("overlap"), ExitCode.BAD_DATA),
    (SnapshotCorruptError("part"), ExitCode.BAD_DATA),
    (SnapshotForeignError("other cluster"), ExitCode.BAD_DATA),
    (SnapshotMissingError("none"), ExitCode.BAD_DATA),
    (OSError(28, "No space left on device", "/x"), ExitCode.NOT_READY),
    (OSError(5, "Input/output error", "/x"), ExitCode.BAD_DATA),
    (OutputError(5, "writing failed: Input/output error", "standard output"), ExitCode.NOT_READY),
    (ZeroDivisionError("division by zero"), ExitCode.DEFECT),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: type(value).__name__)
def test_each_kind_of_error_has_its_exit_code(error: BaseException, code: ExitCode) -> None:
    failure = failure_of(error)
    assert (failure.exit_code, failure.code) == (int(code), code)


def test_every_error_of_aclog_defines_its_exit_code() -> None:
    """No error that aclog raises on purpose is reported as a defect or as a DENIED."""
    modules = ["records.errors", "snapshot.errors", "replay.errors", "authorizer.api.errors"]
    classes = {
        kind
        for module in map(importlib.import_module, modules)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, AclogError)
    }
    assert len(classes) > 30
    for kind in classes:
        assert outcome(kind)[0] in (ExitCode.USAGE, ExitCode.NOT_READY, ExitCode.BAD_DATA), kind


def test_a_message_names_the_file(tmp_path: Path) -> None:
    """An operating system error says which file."""
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as caught:
        missing.read_bytes()
    assert failure_of(caught.value).message == f"{missing}: No such file or directory"


def test_message_and_hint_are_printed_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """stdout holds answers only."""
    Failure("what is wrong", ExitCode.BAD_DATA, "what to do").show()
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Error: what is wrong\n  what to do\n")


def test_an_unreachable_cluster_has_the_exit_code_for_a_retry() -> None:
    """Exit code 3 if Kafka did not answer or a disk is full; 4 for a damaged disk or an unknown cause."""
    away, no_cause = LogUnreachableError("b:9092: timed out"), LogStorageError("the log does not go on")
    full = LogStorageError("x.log: no space left")
    full.__cause__ = OSError(28, "No space left on device", "x.log")
    bad = LogStorageError("x.log: Input/output error")
    bad.__cause__ = OSError(5, "Input/output error", "x.log")
    assert [failure_of(error).code for error in (away, full, bad, no_cause)] == [
        ExitCode.NOT_READY,
        ExitCode.NOT_READY,
        ExitCode.BAD_DATA,
        ExitCode.BAD_DATA,
    ]
    assert "aclog.kafka.*" in failure_of(away).hint


def test_a_defect_says_how_to_report_it() -> None:
    """An unexpected error is not blamed on the data, and asks for a report."""
    failure = failure_of(KeyError("k"))
    assert isinstance(failure, click.ClickException)
    assert failure.message == "a defect in aclog: KeyError: 'k'"
    assert "--debug" in failure.hint
