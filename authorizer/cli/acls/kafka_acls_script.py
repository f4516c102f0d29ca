"""``aclog-kafka-acls``: kafka-acls under another name, for scripts that were written for it.

Its flags, exit codes (0 and 1) and output are those of org.apache.kafka.tools.AclCommand 4.3.1, and a test
runs both side by side. What aclog needs comes from the environment: the log from ACLOG_LOG_URL. The rules:

- Arguments are split as joptsimple does (``analysis.files.kafka_acls_flags``).
- Wrong usage goes to stderr, with the flags that there are. What Kafka's classes refuse, and whatever goes
  wrong later, goes to stdout after ``Error while executing ACL command:``; the hint goes to stderr.
- Three differences: no Java stack trace follows, the text of the flags is aclog's own, and stdin answers the
  question before a removal, be it a terminal or not.
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

#: Whose AclCommand this is; what --version prints.
KAFKA_VERSION: Final = "4.3.1"

_FAILED: Final = 1
_WIDTH: Final = 80
_TITLE: Final = "This tool helps to manage acls on kafka."
_THROWN: Final = "Error while executing ACL command: "

_LOG_VARIABLE: Final = BY_NAME[LOG_URL].variable


#: Help for the flags that `aclog acls` does not have.
_OWN_HELP: Final = {
    "bootstrap-server": f"Taken, and not used: {_LOG_VARIABLE} names the log.",
    "bootstrap-controller": "As --bootstrap-server; one of the two must be there.",
    COMMAND_CONFIG: "Taken, and not used: settings of the Kafka client are ACLOG_KAFKA_... variables.",
    "help": "Print usage information.",
    "version": "Display Kafka version.",
}


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    prepare_process()
    sys.exit(run(sys.argv[1:] if args is None else args))


def run(args: Sequence[str]) -> int:
    """Do what kafka-acls would do, and return its exit code."""
    try:
        _execute(args)
        # As in aclog's own commands: a reader that has gone is noticed here.
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
    except Exception as error:  # noqa: BLE001 - whatever it is, kafka-acls says so and ends with 1
        failure = error if isinstance(error, Failure) else failure_of(error)
        # Where stdout is what failed, stderr is left.
        click.echo(f"{_THROWN}{failure.message}", err=isinstance(error, OutputError))
        if failure.hint:
            click.echo(failure.hint, err=True)
    else:
        return ExitCode.OK
    return _FAILED


def _execute(args: Sequence[str]) -> None:
    """AclCommand.main, in its order: what is wrong first is said."""
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
        raise ThrownError(f"the environment does not name the log: set {_LOG_VARIABLE}")
    from authorizer.cli.acl_sources.log_acls import LogAcls

    perform(LogAcls(workspace), flags, force="force" in given)


def usage() -> str:
    """A line or more for each flag, as wrong usage prints them."""
    context = click.Context(acls_command)
    rows = [
        record
        for param in acls_command.params
        if param.opts[0].removeprefix("--") in VALUES_BY_FLAG and (record := param.get_help_record(context))
    ]
    rows += [(f"--{flag}", text) for flag, text in _OWN_HELP.items()]
    formatter = click.HelpFormatter(width=_WIDTH)
    with formatter.section("Options"):
        formatter.write_dl(sorted(rows))
    return formatter.getvalue()


if __name__ == "__main__":
    main()
