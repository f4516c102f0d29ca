"""Which error gives which message, exit code and way out: the one place that knows (architecture.md 6).

The layers' errors say what is wrong and where; a way out is the command line's to add, because it names
commands and flags.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import IO, TYPE_CHECKING, Any, Final

import click

from authorizer.api.control_characters import ESCAPED
from authorizer.api.errors import (
    ApiError,
    AuthorizerNotReadyError,
    ConfigError,
    MassRemovalError,
    NotControllerError,
    OperationTimedOutError,
    PlanOutdatedError,
    PlanUnreadableError,
    SidecarAnswerError,
    SidecarDefectError,
    SidecarOutcomeUnknownError,
    SidecarRefusedError,
    SidecarRequestError,
    SidecarUnavailableError,
    SidecarUnreachedError,
    UnknownServerError,
    UnsupportedPythonError,
)
from authorizer.cli.command_name import as_pasted
from authorizer.cli.invocation import filled
from authorizer.cli.rendering.streams import InputClosedError, OutputClosedError, OutputError
from authorizer.cli.rendering.terminal import bad, width, wrapped
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    CONSOLE_LISTENERS,
    DESCRIBE_PRINCIPALS,
    LISTENERS,
    LOG_URL,
    SNAPSHOT_STORE,
    WORKERS,
)
from records.errors import (
    AclogError,
    DecodeError,
    EncodeError,
    LogAuthenticationError,
    LogCorruptError,
    LogError,
    LogHeldUpError,
    LogLockedError,
    LogMovedError,
    LogNotFoundError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogRefusedError,
    LogStorageError,
    LogUnreachableError,
    OffsetOutOfRangeError,
    UnsupportedVersionError,
)
from replay.errors import LogChangedError, LogGapError, OffsetUnavailableError
from snapshot.errors import (
    HistoryError,
    HistoryMissingError,
    HistoryRangeError,
    PlotUnsupportedError,
    SnapshotCorruptError,
    SnapshotError,
    SnapshotForeignError,
    SnapshotMissingError,
    SnapshotRefusedError,
    SnapshotStoreMissingError,
    SnapshotStoreUnavailableError,
    SnapshotUnsupportedError,
    SparkBusyError,
    SparkJarsError,
    SparkJobError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


# Some messages have several lines.
_ESCAPED: Final = {code: text for code, text in ESCAPED.items() if code != ord("\n")}


class ExitCode(IntEnum):
    """What scripts rely on. 0 to 4 are pinned; the others are the shell's own customs."""

    OK = 0
    NO = 1  # denied, or different
    USAGE = 2
    NOT_READY = 3
    BAD_DATA = 4
    DEFECT = 70  # EX_SOFTWARE: an error that aclog does not raise on purpose
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Failure(click.ClickException):
    """An error as a user sees it: what, and the way out.

    Commands in either are written as ``aclog ...``; a way out may say ``{log}`` and ``{store}`` for the flags
    that named them (``invocation``).
    """

    def __init__(self, message: str, code: ExitCode, way_out: str = "") -> None:
        super().__init__(message)
        self.code = code
        # Filled now: the command's context is gone when it is shown.
        self.way_out = filled(way_out)

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click's is a class variable
        return int(self.code)

    def show(self, file: IO[Any] | None = None) -> None:
        columns = width(err=True) if file is None else None
        # What a server answered, or a name from a log, may be in it.
        lines = [f"{bad('Error:')} {as_pasted(self.message.translate(_ESCAPED))}"]
        if self.way_out:
            lines.append(f"  {as_pasted(self.way_out)}")
        for line in lines:
            click.echo(wrapped(line, columns, indent=2), file=file, err=file is None, color=self.show_color)


#: Keys that a flag sets, and that flag.
SETTING_FLAGS: Final = {
    LOG_URL: "--log",
    SNAPSHOT_STORE: "--snapshots",
    LISTENERS: "`aclog serve --listener` or `--port`",
    ACLOG_LISTENERS: "`aclog serve --listener` or `--port`",
    DESCRIBE_PRINCIPALS: "`aclog serve --describe-principals`",
    WORKERS: "`aclog serve --workers`",
    CONSOLE_LISTENERS: "`aclog serve --console`",
}

_DAMAGED_LOG: Final = (
    "An ACL record is never skipped, for it may be a DENY. `aclog log verify {log}` walks the whole log; "
    "take the directory from another replica, or start from a snapshot that ends after the damage "
    "(--snapshots)."
)
_HELD_LOG: Final = (
    "Beside a running node, `aclog acls` adds and removes ACLs through it, and what only reads needs no lock "
    "(check, acls --list, log dump, log verify, a node with aclog.log.mode=read). Everything else waits "
    "until that process has ended."
)
_NOT_OURS: Final = (
    "Only a log that aclog made can be written: `aclog log create`. A broker's own log is written by its "
    "cluster: --log kraft://HOST:PORT, of its controllers, and `aclog apply --bootstrap-server HOST:PORT` "
    "ask that."
)
_NO_LOG: Final = (
    "--log takes file:DIR or DIR, the directory that holds the *.log files, or kafka://HOST:PORT/TOPIC. "
    "`aclog log create {log}` makes a new log."
)
_NEWER: Final = "Something newer wrote it: use a newer aclog."
_DAMAGED_SNAPSHOT: Final = (
    "`aclog snapshot verify {store}` says which snapshots are whole. The log alone is enough to start from."
)

_NO_STORE: Final = (
    "--snapshots takes a directory, or a URL such as s3://BUCKET/PATH. A directory is made with the first "
    "snapshot in it, a bucket is not."
)
_STORE_AWAY: Final = (
    "Its client library knows where it is, and with which credentials: for s3:// AWS_ENDPOINT_URL, "
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or ~/.aws. The log alone is enough to start from."
)

_NO_RIGHT: Final = (
    "The rights that aclog needs are in docs/how-to/topic-log.md#grant-the-rights for a topic, and in "
    "docs/how-to/follow-a-cluster.md for a cluster's metadata log."
)
_STOPPED_JOB: Final = (
    "What is stored stays, and a run goes on from there. The steps are in "
    "docs/how-to/spark.md#when-a-spark-job-stops."
)

# The first class that fits counts: subclasses come before their bases.
_RULES: Final[tuple[tuple[type[BaseException], ExitCode, str], ...]] = (
    (ConfigError, ExitCode.USAGE, ""),  # see _way_to_set
    (AuthorizerNotReadyError, ExitCode.NOT_READY, "Not loaded yet: try again, or see why in the log output."),
    (
        OperationTimedOutError,
        ExitCode.NOT_READY,
        "Unless it says that nothing was written, the change may be in the log: list the ACLs first.",
    ),
    (NotControllerError, ExitCode.NOT_READY, ""),
    # About who asks: no decision, and no difference.
    (SidecarRefusedError, ExitCode.USAGE, ""),
    (SidecarOutcomeUnknownError, ExitCode.NOT_READY, "The change may be in the log: list the ACLs first."),
    (
        SidecarUnreachedError,
        ExitCode.NOT_READY,
        "Is `aclog serve` running, and is this its listener?",
    ),
    (SidecarUnavailableError, ExitCode.NOT_READY, "Try again, or see why in the sidecar's log."),
    (SidecarRequestError, ExitCode.USAGE, ""),
    (SidecarDefectError, ExitCode.BAD_DATA, ""),
    (SidecarAnswerError, ExitCode.USAGE, "Is this a listener of `aclog serve`?"),
    (PlanOutdatedError, ExitCode.USAGE, "Make a new plan, and look at it: `aclog plan`."),
    (
        MassRemovalError,
        ExitCode.USAGE,
        "Read what it removes (`aclog plan`). If all of that is to go: `aclog apply --allow-mass-removal`.",
    ),
    (PlanUnreadableError, ExitCode.BAD_DATA, "`aclog plan FILE --output PLAN` makes one."),
    (UnknownServerError, ExitCode.BAD_DATA, ""),
    (ApiError, ExitCode.USAGE, ""),
    # Its text has the ways out.
    (UnsupportedPythonError, ExitCode.USAGE, ""),
    (UnsupportedVersionError, ExitCode.BAD_DATA, _NEWER),
    (DecodeError, ExitCode.BAD_DATA, _DAMAGED_LOG),
    (EncodeError, ExitCode.BAD_DATA, ""),
    (LogNotFoundError, ExitCode.USAGE, _NO_LOG),
    (LogMovedError, ExitCode.NOT_READY, "Try again."),
    (LogLockedError, ExitCode.NOT_READY, _HELD_LOG),
    (
        LogReadOnlyError,
        ExitCode.USAGE,
        _NOT_OURS,
    ),
    (LogCorruptError, ExitCode.BAD_DATA, _DAMAGED_LOG),
    (
        LogUnreachableError,
        ExitCode.NOT_READY,
        "Try again when the cluster answers: --log says where it is, aclog.kafka.* how to reach it.",
    ),
    (
        LogOutcomeUnknownError,
        ExitCode.NOT_READY,
        "See what the end of the log holds (`aclog log dump {log} --from OFFSET`) before trying again.",
    ),
    (
        LogAuthenticationError,
        ExitCode.NOT_READY,
        "docs/configuration.md#aclogkafka has the settings of the Kafka client.",
    ),
    (
        LogRefusedError,
        ExitCode.NOT_READY,
        _NO_RIGHT,
    ),
    # Its text has the ways out.
    (LogHeldUpError, ExitCode.NOT_READY, ""),
    (LogStorageError, ExitCode.BAD_DATA, ""),
    (OffsetOutOfRangeError, ExitCode.USAGE, "`aclog log verify {log}` prints what the log holds."),
    (LogError, ExitCode.USAGE, ""),
    (SnapshotUnsupportedError, ExitCode.BAD_DATA, _NEWER),
    (SnapshotCorruptError, ExitCode.BAD_DATA, _DAMAGED_SNAPSHOT),
    (SnapshotMissingError, ExitCode.BAD_DATA, "`aclog snapshot list {store}` shows what the store holds."),
    (
        SnapshotForeignError,
        ExitCode.BAD_DATA,
        "The store and the log must belong to one cluster: compare --snapshots and --log.",
    ),
    (SnapshotRefusedError, ExitCode.NOT_READY, ""),
    (SnapshotStoreMissingError, ExitCode.USAGE, _NO_STORE),
    (SnapshotStoreUnavailableError, ExitCode.NOT_READY, _STORE_AWAY),
    (SnapshotError, ExitCode.BAD_DATA, _DAMAGED_SNAPSHOT),
    # Its text has the ways out.
    (SparkJarsError, ExitCode.NOT_READY, ""),
    (
        SparkBusyError,
        ExitCode.NOT_READY,
        "Start the job again when the machine is less busy. If that does not help, PYSPARK_PYTHON is wrong.",
    ),
    (PlotUnsupportedError, ExitCode.USAGE, ""),
    (SparkJobError, ExitCode.BAD_DATA, _STOPPED_JOB),
    (HistoryMissingError, ExitCode.USAGE, ""),
    (HistoryRangeError, ExitCode.USAGE, ""),
    (HistoryError, ExitCode.BAD_DATA, _STOPPED_JOB),
    (OffsetUnavailableError, ExitCode.USAGE, ""),
    (LogChangedError, ExitCode.NOT_READY, "Nothing is wrong with the log: try again."),
    (
        LogGapError,
        ExitCode.BAD_DATA,
        "Name a store that has a snapshot (--snapshots), or put Kafka's .checkpoint beside the *.log files.",
    ),
    # What is left of aclog's own errors is replay's: a state that cannot be trusted.
    (AclogError, ExitCode.BAD_DATA, ""),
    (FileNotFoundError, ExitCode.USAGE, ""),
    (NotADirectoryError, ExitCode.USAGE, ""),
    (IsADirectoryError, ExitCode.USAGE, ""),
    (PermissionError, ExitCode.USAGE, "Run as a user who may, or choose another path."),
    (InputClosedError, ExitCode.USAGE, "Give it one: a pipe, or `< FILE`."),
    (
        OutputClosedError,
        ExitCode.USAGE,
        "Only the output is lost; what the command did is done. Give it one: a pipe, or `> FILE`.",
    ),
    (OutputError, ExitCode.NOT_READY, "What was printed is not all of it. Write it elsewhere, or try again."),
    (OSError, ExitCode.BAD_DATA, ""),
)

# These pass on what the operating system said: a wrong path is wrong usage, a bad disk is not, and a full one
# is neither.
_FROM_THE_SYSTEM: Final = (LogStorageError, SnapshotError)
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


def failure_of(error: BaseException) -> Failure:
    """The message and exit code for anything that a command raised."""
    code, way_out = outcome(type(error))
    if isinstance(error, ConfigError):
        way_out = _way_to_set(error.key)
    if type(error) in _FROM_THE_SYSTEM:
        if isinstance(error.__cause__, OSError):
            code, way_out = outcome(type(error.__cause__))
        elif isinstance(error.__cause__, (ImportError, ValueError)):
            # fsspec does not know the URL's scheme, or lacks a package for it.
            code, way_out = ExitCode.USAGE, ""
    refused = error.__cause__ if type(error) in _FROM_THE_SYSTEM else error
    if isinstance(refused, OSError) and refused.errno in _NO_ROOM and code is ExitCode.BAD_DATA:
        code, way_out = ExitCode.NOT_READY, "Make room there, or choose another place."
    if code is ExitCode.DEFECT:
        return Failure(f"a defect in aclog: {type(error).__name__}: {_message(error)}", code, way_out)
    return Failure(_message(error), code, way_out)


def outcome(kind: type[BaseException]) -> tuple[ExitCode, str]:
    """Exit code and way out for a class of errors."""
    for base, code, way_out in _RULES:
        if issubclass(kind, base):
            return code, way_out
    return ExitCode.DEFECT, "Please report it with the traceback that `aclog --debug ...` prints."


def _way_to_set(key: str) -> str:
    """Where a value of the configuration comes from."""
    # With what reads their values: `aclog --help` needs none of it.
    from authorizer.configuration.keys.table import BY_NAME

    known = BY_NAME.get(key)
    if known is None:
        # The file itself, a variable, a listener's or a cluster's own key: the message names it.
        return ""
    ways = ["in the --config file"]
    if known.environment:
        ways.append(f"by the variable {known.variable}")
    if key in SETTING_FLAGS:
        ways.append(f"by {SETTING_FLAGS[key]}")
    return f"Set it {', '.join(ways[:-1])}{' or ' if len(ways) > 1 else ''}{ways[-1]}."


def _message(error: BaseException) -> str:
    """What the error says, and what was noted on it on its way."""
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    else:
        text = str(error) or type(error).__name__
    return "; ".join([text, *getattr(error, "__notes__", ())])


_NOTHING: Final = "nothing was written"
#: What an append raises before it writes (MetadataLog.append).
_BEFORE_APPEND: Final = (EncodeError, LogReadOnlyError)


@dataclass(slots=True)
class WriteAttempt:
    """How far a command has come.

    Attributes:
        appends: whether an append has begun: from then on its own errors say what became of it.
        written: what is in the log by now, for people; empty if nothing is.
    """

    appends: bool = False
    written: str = ""


@contextmanager
def write_attempt() -> Iterator[WriteAttempt]:
    """Whatever is raised in the block says what was written, where it does not say so itself."""
    attempt = WriteAttempt()
    try:
        yield attempt
    except Exception as error:
        is_before = not attempt.appends or isinstance(error, _BEFORE_APPEND)
        outcome = attempt.written or (_NOTHING if is_before else "")
        said = str(error) + (error.way_out if isinstance(error, Failure) else "")
        if not outcome or outcome in said.lower():
            raise
        # Click shows no notes.
        if isinstance(error, Failure):
            raise Failure(f"{error.message}; {outcome}", error.code, error.way_out) from error
        if isinstance(error, click.UsageError):
            raise click.UsageError(f"{error.message}; {outcome}", error.ctx) from error
        error.add_note(outcome)
        raise
