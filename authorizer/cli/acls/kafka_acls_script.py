"""``aclog-kafka-acls``: kafka-acls under another name, for scripts that were written for it.

Flags, exit codes (0 and 1) and output are those of org.apache.kafka.tools.AclCommand 4.3.1; a test runs both
side by side. The environment variable ACLOG_LOG_URL names the log. The rules:

- Arguments are split as joptsimple does (``analysis.files.kafka_acls_flags``).
- Wrong usage goes to stderr, with the list of flags. Arguments that Kafka's classes refuse and later errors
  go to stdout after ``Error while executing ACL command:``; the hint goes to stderr.
- Three differences: there is no Java stack trace, the help of the flags is aclog's, and the prompt before a
  removal reads stdin even if that is no terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from authorizer.analysis.files.kafka_acls_flags import (
    BOOTSTRAP_FLAGS,
    COMMAND_CONFIG,
    VALUES_BY_FLAG,
    KafkaAclsUsageError,
    ThrownError,
    checked_flags,
    parse_arguments,
    single_value,
    with_pattern_type,
)
from authorizer.cli.acls.command import acls_command, perform
from authorizer.cli.failure import ExitCode, Failure, failure_of
from authorizer.cli.main import drop_stdout, prepare_process
from authorizer.cli.rendering.streams import OutputError
from authorizer.cli.workspace import Workspace
from authorizer.configuration.keys.names import LOG_URL
from authorizer.configuration.keys.table import BY_NAME

#: The release of Kafka whose AclCommand this is; --version prints it.
KAFKA_VERSION: Final = "4.3.1"

_FAILED: Final = 1
_WIDTH: Final = 80
_TITLE: Final = "This tool helps to manage acls on kafka."
_THROWN: Final = "Error while executing ACL command: "

_LOG_VARIABLE: Final = BY_NAME[LOG_URL].variable


#: Help for the flags that `aclog acls` does not have.
_EXTRA_HELP: Final = {
    "bootstrap-server": f"Accepted and ignored: {_LOG_VARIABLE} names the log.",
    "bootstrap-controller": "As --bootstrap-server. One of the two is required.",
    COMMAND_CONFIG: "Accepted and ignored: client settings are variables ACLOG_KAFKA_...",
    "help": "Print usage information.",
    "version": "Display Kafka version.",
}


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    prepare_process()
    sys.exit(run(sys.argv[1:] if args is None else args))


def run(args: Sequence[str]) -> int:
    """Do what kafka-acls does; returns its exit code."""
    try:
        _execute(args)
        # Raises BrokenPipeError here, not at exit, if the reader of the pipe has ended.
        sys.stdout.flush()
    except ThrownError as error:
        click.echo(f"{_THROWN}{error}")
    except (click.UsageError, KafkaAclsUsageError) as error:
        message = error.message if isinstance(error, click.UsageError) else str(error)
        click.echo(f"{message}\n{usage()}", nl=False, err=True)
    except BrokenPipeError:
        drop_stdout()
        return ExitCode.OK  # Java's System.out hides the error
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - kafka-acls prints every error and ends with 1
        failure = error if isinstance(error, Failure) else failure_of(error)
        # If stdout failed, only stderr is available.
        click.echo(f"{_THROWN}{failure.message}", err=isinstance(error, OutputError))
        if failure.hint:
            click.echo(failure.hint, err=True)
    else:
        return ExitCode.OK
    return _FAILED


def _execute(args: Sequence[str]) -> None:
    """AclCommand.main: the same checks in the same order."""
    given = parse_arguments(args)
    if not args or "help" in given:
        raise click.UsageError(_TITLE)
    if "version" in given:
        click.echo(KAFKA_VERSION)
        return
    bootstraps = [flag for flag in BOOTSTRAP_FLAGS if flag in given]
    if len(bootstraps) != 1:
        only = "Only one" if bootstraps else "One"
        raise click.UsageError(f"{only} of --bootstrap-server or --bootstrap-controller must be specified")
    flags = checked_flags(given)
    if single_value(given, COMMAND_CONFIG) is None and COMMAND_CONFIG in given:
        click.echo("Did not load any properties since the property file is not specified")
    single_value(given, *bootstraps)
    flags = with_pattern_type(flags, given)
    workspace = Workspace.given()
    if workspace.config.log_url is None:
        raise ThrownError(f"Variable {_LOG_VARIABLE} is not set. Set it to the URL of the log.")
    from authorizer.cli.acl_sources.log_acls import LogAcls

    perform(LogAcls(workspace), flags, force="force" in given)


def usage() -> str:
    """The list of flags that wrong usage prints."""
    context = click.Context(acls_command)
    rows = [
        record
        for param in acls_command.params
        if param.opts[0].removeprefix("--") in VALUES_BY_FLAG and (record := param.get_help_record(context))
    ]
    rows += [(f"--{flag}", text) for flag, text in _EXTRA_HELP.items()]
    formatter = click.HelpFormatter(width=_WIDTH)
    with formatter.section("Options"):
        formatter.write_dl(sorted(rows))
    return formatter.getvalue()


if __name__ == "__main__":
    main()
