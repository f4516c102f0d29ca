"""Exit codes and hints for the errors of all layers.

The errors of the layers state what failed and where. The command line adds what to do, because hints name
commands and options.
"""

from __future__ import annotations

import errno
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import IO, TYPE_CHECKING, Any, Final

import click

# Not `from authorizer.api import errors`: that calls the package's __getattr__, which imports more.
import authorizer.api.errors as api
from authorizer.api.control_characters import ESCAPED
from authorizer.cli.command_name import as_pasted
from authorizer.cli.invocation import filled, has_option, words
from authorizer.cli.rendering.streams import InputClosedError, OutputClosedError, OutputError
from authorizer.cli.rendering.terminal import bad, width, wrapped
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    COMMAND_CONFIG,
    CONSOLE_LISTENERS,
    DESCRIBE_PRINCIPALS,
    LISTENERS,
    LOG_URL,
    SNAPSHOT_STORE,
    WORKERS,
)
from records import errors as records
from replay import errors as replay
from snapshot import errors as snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

# Some messages have several lines.
_ESCAPED: Final = {code: text for code, text in ESCAPED.items() if code != ord("\n")}


class ExitCode(IntEnum):
    """Exit codes of commands. Scripts rely on 0 to 4; the others follow the shell's customs."""

    OK = 0
    NO = 1  # denied, or different
    USAGE = 2
    NOT_READY = 3
    BAD_DATA = 4
    DEFECT = 70  # EX_SOFTWARE: an error that aclog does not raise on purpose
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Failure(click.ClickException):
    """An error as a user sees it: the message and a hint.

    Commands in both are written as ``aclog ...``. ``{log}`` and ``{store}`` in a hint are replaced by the
    options of the running command (``invocation``).
    """

    def __init__(self, message: str, code: ExitCode, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        # Replaced here, because the command's context has ended when the error is shown.
        self.hint = filled(hint)

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click's is a class variable
        return int(self.code)

    def show(self, file: IO[Any] | None = None) -> None:
        columns = width(err=True) if file is None else None
        # The message may hold a server's answer or a name from a log.
        lines = [f"{bad('Error:')} {as_pasted(self.message.translate(_ESCAPED))}"]
        if self.hint:
            lines.append(f"  {as_pasted(self.hint)}")
        for line in lines:
            click.echo(wrapped(line, columns, indent=2), file=file, err=file is None, color=self.show_color)


#: The option that sets a configuration key, in commands that have it.
_SETTING_FLAGS: Final = {
    LOG_URL: "--log",
    COMMAND_CONFIG: "--command-config",
    SNAPSHOT_STORE: "--snapshots",
    LISTENERS: "--listener",
    ACLOG_LISTENERS: "--listener",
    DESCRIBE_PRINCIPALS: "--describe-principals",
    WORKERS: "--workers",
    CONSOLE_LISTENERS: "--console",
}

_DAMAGED_LOG: Final = (
    "An ACL record is never skipped, because it may be a DENY. `aclog log verify {log}` checks the complete "
    "log. Take the directory from another replica, or start from a snapshot that ends after the damage "
    "(--snapshots)."
)
_DAMAGED_SNAPSHOT: Final = (
    "`aclog snapshot verify {store}` shows which snapshots are complete. A node can start from the log alone."
)
_LIST_FIRST: Final = "The change may be in the log: list the ACLs first."
_NEWER: Final = "A newer version wrote it: upgrade aclog."
_STOPPED_JOB: Final = (
    "Stored data is kept, and the next run continues from there. The steps are in "
    "docs/how-to/spark.md#when-a-spark-job-stops."
)

# The classes of errors with their hints, by exit code. An error that is not listed has the entry of its
# nearest base class.
_USAGE: Final[dict[type[BaseException], str]] = {
    api.ConfigError: "",  # see _where_to_set
    api.SidecarRefusedError: "",
    api.SidecarRequestError: "",
    api.SidecarAnswerError: "Is this a listener of `aclog serve`?",
    api.PlanOutdatedError: "Make a new plan and read it: `aclog plan FILE {target} --output PLAN`.",
    api.MassRemovalError: "Read what it removes: `aclog plan` prints it. To remove all of that, "
    "add --allow-mass-removal.",
    api.ApiError: "",
    api.UnsupportedPythonError: "",
    records.LogUrlError: "",
    records.LogNotFoundError: "",
    records.LogMissingError: "`aclog log create` creates an empty log.",  # see _creation
    records.LogReadOnlyError: "aclog writes only logs that it created: `aclog log create --log DIR`. A "
    "cluster's ACLs are changed by `aclog acls --log kraft://HOST:PORT`, or by `aclog apply PLAN "
    "--bootstrap-server HOST:PORT`.",
    records.LogAuthenticationError: "--command-config takes Kafka's client.properties; aclog.kafka.* are "
    "keys of --config (docs/configuration.md#aclogkafka).",
    records.LogRefusedError: "The rights that aclog needs are in docs/how-to/topic-log.md#grant-the-rights "
    "for a topic, and in docs/how-to/follow-a-cluster.md for a cluster's metadata log.",
    records.OffsetOutOfRangeError: "`aclog log verify {log}` prints which offsets the log holds.",
    records.LogError: "",
    snapshot.SnapshotStoreMissingError: "--snapshots takes a directory, or a URL such as s3://BUCKET/PATH. "
    "aclog creates a directory with the first snapshot, but never a bucket.",
    snapshot.PlotUnsupportedError: "",
    snapshot.SparkArchiveError: "`aclog spark pack --output FILE` makes one.",
    snapshot.HistoryMissingError: "",
    snapshot.HistoryRangeError: "",
    snapshot.HistoryQueryError: "docs/spark-tables.md has the tables and functions.",
    replay.OffsetUnavailableError: "",
    FileNotFoundError: "",
    NotADirectoryError: "",
    IsADirectoryError: "",
    PermissionError: "Run as a user with access, or choose another path.",
    InputClosedError: "Give it one: a pipe, or `< FILE`.",
    OutputClosedError: "Only the output is lost; the command has done its work. Give it one: a pipe, or `> "
    "FILE`.",
}
_NOT_READY: Final[dict[type[BaseException], str]] = {
    api.AuthorizerNotReadyError: "The log is not loaded yet: try again, or see the reason in the log output.",
    api.OperationTimedOutError: "Unless the message says that nothing was written, the change may be in the "
    "log: list the ACLs first.",
    api.NotControllerError: "",
    api.SidecarOutcomeUnknownError: _LIST_FIRST,
    api.SidecarUnreachedError: "Is `aclog serve` running, and is this its listener?",
    api.SidecarUnavailableError: "Try again, or see the reason in the sidecar's log.",
    records.LogMovedError: "Try again.",
    records.LogLockedError: "While a node holds the log, `aclog acls` adds and removes ACLs through it, and "
    "reading needs no lock (check, acls --list, log dump, log verify, a node with aclog.log.mode=read). For "
    "anything else wait until that process has ended.",
    records.LogUnreachableError: "Try again when the cluster answers: --log or --bootstrap-server names its "
    "address, --command-config or aclog.kafka.* the client settings.",
    records.LogOutcomeUnknownError: "Read the end of the log (`aclog log dump {log} --from OFFSET`) before "
    "you try again.",
    records.LogHeldUpError: "",
    snapshot.SnapshotRefusedError: "",
    snapshot.SnapshotStoreUnavailableError: "The store's client library has its own settings: for s3:// "
    "AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or ~/.aws. A node can start from the log "
    "alone; for a Spark job `aclog spark doctor` finds the cause.",
    snapshot.CheckpointClaimedError: "One job at a time uses a checkpoint and an output. Stop "
    "the other job, or give this one another --output and --checkpoint. On an object store --take-over ends "
    "the other job.",
    snapshot.SparkConnectError: "--remote names a Spark Connect server of Spark 4.2: sc://HOST:PORT.",
    snapshot.SparkJarsError: "",
    snapshot.SparkBusyError: "Start the job again when the machine is less busy. If that does not help, "
    "PYSPARK_PYTHON is wrong.",
    replay.LogChangedError: "Nothing is wrong with the log: try again.",
    OutputError: "The output is incomplete. Write it elsewhere, or try again.",
}
_BAD_DATA: Final[dict[type[BaseException], str]] = {
    api.SidecarDefectError: "",
    api.PlanUnreadableError: "`aclog plan FILE --output PLAN` makes one.",
    api.UnknownServerError: "",
    records.UnsupportedVersionError: _NEWER,
    records.DecodeError: _DAMAGED_LOG,
    records.EncodeError: "",
    records.LogCorruptError: _DAMAGED_LOG,
    records.LogStorageError: "",
    snapshot.SnapshotUnsupportedError: _NEWER,
    snapshot.SnapshotMissingError: "`aclog snapshot list {store}` shows what the store holds.",
    snapshot.SnapshotForeignError: "The store and the log must belong to one cluster: compare --snapshots "
    "and --log.",
    snapshot.SnapshotError: _DAMAGED_SNAPSHOT,
    snapshot.SparkJobError: _STOPPED_JOB,
    snapshot.LogsFailedError: "The other logs were processed, and the next run tries these again. The steps "
    "are in docs/how-to/spark.md#when-a-spark-job-stops.",
    snapshot.HistoryError: _STOPPED_JOB,
    replay.LogGapError: "Name a store that has a snapshot (--snapshots), or put Kafka's .checkpoint next to "
    "the *.log files.",
    # The rest of aclog's errors are replay's: a state that cannot be trusted.
    records.AclogError: "",
    OSError: "",
}
HINTS: Final = {
    kind: (code, hint)
    for code, hints in (
        (ExitCode.USAGE, _USAGE),
        (ExitCode.NOT_READY, _NOT_READY),
        (ExitCode.BAD_DATA, _BAD_DATA),
    )
    for kind, hint in hints.items()
}

# These wrap errors of the operating system: a wrong path is wrong usage, a bad disk is bad data, and a full
# disk may have room later.
_SYSTEM_ERRORS: Final = (records.LogStorageError, snapshot.SnapshotError)
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def failure_of(error: BaseException) -> Failure:
    """Message, exit code and hint for an error of a command."""
    code, hint = outcome(type(error))
    if isinstance(error, api.ConfigError):
        hint = _where_to_set(error.key)
    elif isinstance(error, records.LogMissingError):
        hint = _creation(error.url)
    if type(error) in _SYSTEM_ERRORS:
        if isinstance(error.__cause__, OSError):
            code, hint = outcome(type(error.__cause__))
        elif isinstance(error.__cause__, (ImportError, ValueError)):
            # fsspec does not know the URL's scheme, or lacks a package for it.
            code, hint = ExitCode.USAGE, ""
    system_error = error.__cause__ if type(error) in _SYSTEM_ERRORS else error
    if isinstance(system_error, OSError) and system_error.errno in _DISK_FULL and code is ExitCode.BAD_DATA:
        code, hint = ExitCode.NOT_READY, "Free some space, or choose another path."
    if code is ExitCode.DEFECT:
        return Failure(f"a defect in aclog: {type(error).__name__}: {_message(error)}", code, hint)
    return Failure(_message(error), code, hint)


def outcome(kind: type[BaseException]) -> tuple[ExitCode, str]:
    """Exit code and hint for a class of errors."""
    for base in kind.__mro__:
        if base in HINTS:
            return HINTS[base]
    return ExitCode.DEFECT, "Please report it with the traceback that `aclog --debug ...` prints."


def _where_to_set(key: str) -> str:
    """Where the user can set a configuration key."""
    # The table imports the parsers of all values, which `aclog --help` does not need.
    from authorizer.configuration.keys.table import BY_NAME

    known = BY_NAME.get(key)
    if known is None:
        # The key of a file, variable, listener or cluster, which the message names.
        return ""
    ways = ["in the --config file"]
    if known.environment:
        ways.append(f"by the variable {known.variable}")
    if (flag := _SETTING_FLAGS.get(key)) is not None and has_option(flag):
        ways.append(f"by {flag}")
    return f"Set it {', '.join(ways[:-1])}{' or ' if len(ways) > 1 else ''}{ways[-1]}."


def _creation(url: str) -> str:
    """How to create the log that is missing."""
    connection = words("--command-config", "--config") if "://" in url else ()
    flags = shlex.join(["--log", url, *connection])
    return f"Is that the right place? `aclog log create {flags}` creates an empty log."


def _message(error: BaseException) -> str:
    """The error's text and its notes."""
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    else:
        text = str(error) or type(error).__name__
    return "; ".join([text, *getattr(error, "__notes__", ())])


_NOTHING: Final = "nothing was written"
#: Errors that MetadataLog.append raises before it writes.
_BEFORE_APPEND: Final = (records.EncodeError, records.LogReadOnlyError)


@dataclass(slots=True)
class WriteAttempt:
    """Progress of a command that writes.

    ``appends``: whether an append has begun; from then on errors state whether it was written.
    """

    appends: bool = False
    written: str = ""


@contextmanager
def write_attempt() -> Iterator[WriteAttempt]:
    """Add to an error of the block what was written, unless its text states it."""
    attempt = WriteAttempt()
    try:
        yield attempt
    except Exception as error:
        is_before = not attempt.appends or isinstance(error, _BEFORE_APPEND)
        outcome = attempt.written or (_NOTHING if is_before else "")
        text = str(error) + (error.hint if isinstance(error, Failure) else "")
        if not outcome or outcome in text.lower():
            raise
        # click does not print notes.
        if isinstance(error, Failure):
            raise Failure(f"{error.message}; {outcome}", error.code, error.hint) from error
        if isinstance(error, click.UsageError):
            raise click.UsageError(f"{error.message}; {outcome}", error.ctx) from error
        error.add_note(outcome)
        raise
