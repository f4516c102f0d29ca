"""``aclog-kafka-acls``: kafka-acls under another name, for scripts that were written for it.

Its flags, exit codes (0 and 1) and output are those of org.apache.kafka.tools.AclCommand 4.3.1, and a test
runs both side by side. What aclog needs comes from the environment: the log from ACLOG_LOG_URL. The rules:

- Arguments are taken apart as joptsimple does it, which is not how click does: ``-topic t`` and ``--topic=t``
  are ``--topic t``, and what belongs to no flag is passed by (``--cluster kafka-cluster``).
- Wrong usage goes to stderr, with the flags that there are. What Kafka's classes refuse, and whatever goes
  wrong later, goes to stdout after ``Error while executing ACL command:``; the hint goes to stderr.
- Three differences: no Java stack trace follows, the text of the flags is aclog's own, and stdin answers the
  question before a removal, be it a terminal or not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from enum import Enum
from typing import Any, Final, NoReturn

import click

from authorizer.cli.acls.command import acls_command, perform
from authorizer.cli.acls.kafka_acls import AclsFlags, ThrownError
from authorizer.cli.failure import ExitCode, Failure, failure_of
from authorizer.cli.main import drop_stdout, prepare_process
from authorizer.cli.options import PATTERN_TYPE
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

_BOOTSTRAP: Final = ("bootstrap-server", "bootstrap-controller")
_COMMAND_CONFIG: Final = "command-config"
_PATTERN_TYPE: Final = "resource-pattern-type"
_LOG_VARIABLE: Final = BY_NAME[LOG_URL].variable


class _Takes(Enum):
    """What comes after a flag."""

    NOTHING = "nothing"
    VALUE = "a value"
    PERHAPS = "perhaps a value"


#: The fields of AclsFlags that hold what was given, with their flags.
_ACLS_FLAGS: Final = tuple(
    (field.name, field.name.replace("_", "-"), _Takes.NOTHING if field.default is False else _Takes.VALUE)
    for field in fields(AclsFlags)
    if field.name != "resource_pattern_type"
)
#: Every flag of AclCommandOptions.
_TAKES: Final = {
    **{flag: takes for _, flag, takes in _ACLS_FLAGS},
    **dict.fromkeys((_PATTERN_TYPE, *_BOOTSTRAP), _Takes.VALUE),
    **dict.fromkeys(("force", "help", "version"), _Takes.NOTHING),
    _COMMAND_CONFIG: _Takes.PERHAPS,
}
#: Help for the flags that `aclog acls` does not have.
_OWN_HELP: Final = {
    "bootstrap-server": f"Taken, and not used: {_LOG_VARIABLE} names the log.",
    "bootstrap-controller": "As --bootstrap-server; one of the two must be there.",
    _COMMAND_CONFIG: "Taken, and not used: settings of the Kafka client are ACLOG_KAFKA_... variables.",
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
        click.echo(f"{_THROWN}{error.message}")
    except click.UsageError as error:
        click.echo(f"{error.message}\n{usage()}", nl=False, err=True)
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
    given = _parsed(args)
    if not args or "help" in given:
        raise click.UsageError(_TITLE)
    if "version" in given:
        click.echo(KAFKA_VERSION)
        return
    bootstraps = [flag for flag in _BOOTSTRAP if flag in given]
    if len(bootstraps) != 1:
        only = "Only one" if bootstraps else "One"
        raise click.UsageError(f"{only} of --bootstrap-server or --bootstrap-controller must be specified")
    flags = _checked(given)
    if _only(given, _COMMAND_CONFIG) is None and _COMMAND_CONFIG in given:
        click.echo("Did not load any properties since the property file is not specified")
    _only(given, *bootstraps)
    flags = _with_pattern_type(flags, given)
    workspace = Workspace.given()
    if workspace.config.log_url is None:
        raise ThrownError(f"the environment does not name the log: set {_LOG_VARIABLE}")
    from authorizer.cli.acls.log_acls import LogAcls

    perform(LogAcls(workspace), flags, force="force" in given)


def flags_of(args: Sequence[str]) -> AclsFlags:
    """What a command line with --add, --remove or --list asks for, wherever it is sent.

    Raises:
        click.UsageError: with kafka-acls' own message.
    """
    given = _parsed(args)
    return _with_pattern_type(_checked(given), given)


def _checked(given: dict[str, list[str]]) -> AclsFlags:
    values: dict[str, Any] = {
        name: True if takes is _Takes.NOTHING else tuple(given[flag])
        for name, flag, takes in _ACLS_FLAGS
        if flag in given
    }
    flags = AclsFlags(**values)
    flags.check()
    return flags


def _with_pattern_type(flags: AclsFlags, given: dict[str, list[str]]) -> AclsFlags:
    text = _only(given, _PATTERN_TYPE)
    if text is None:
        return flags
    try:
        return replace(flags, resource_pattern_type=PATTERN_TYPE.convert(text, None, None))
    except click.BadParameter as error:
        raise ThrownError(f"Cannot parse argument '{text}' of option {_PATTERN_TYPE}") from error


def _only(given: dict[str, list[str]], flag: str) -> str | None:
    """OptionSet.valueOf: the value of a flag that makes sense once."""
    values = given.get(flag, [])
    if len(values) > 1:
        raise ThrownError(f"Found multiple arguments for option {flag}, but you asked for only one")
    return values[0] if values else None


def _parsed(args: Sequence[str]) -> dict[str, list[str]]:
    """Flags with their values, as joptsimple.OptionParser finds them, abbreviations not allowed."""
    given: dict[str, list[str]] = {}
    rest = list(args)
    while rest and (argument := rest.pop(0)) != "--":
        if not _looks_like_a_flag(argument):
            continue
        is_long = argument.startswith("--")
        flag, _, value = argument.removeprefix("--" if is_long else "-").partition("=")
        takes = _TAKES.get(flag)
        if takes is None:
            # joptsimple names the first of letters that are put together.
            raise click.UsageError(f"{flag if is_long else flag[:1]} is not a recognized option")
        values = given.setdefault(flag, [])
        if takes is _Takes.NOTHING:
            continue
        if not value and rest and (takes is _Takes.VALUE or not _looks_like_a_flag(rest[0])):
            value = rest.pop(0)
        elif not value and takes is _Takes.VALUE:
            raise click.UsageError(f"Option {flag} requires an argument")
        if value or takes is _Takes.VALUE:
            values.append(value)
    return given


def _looks_like_a_flag(argument: str) -> bool:
    return argument.startswith("-") and argument not in ("-", "--")


def usage() -> str:
    """A line or more for each flag, as wrong usage prints them."""
    context = click.Context(acls_command)
    rows = [
        record
        for param in acls_command.params
        if param.opts[0].removeprefix("--") in _TAKES and (record := param.get_help_record(context))
    ]
    rows += [(f"--{flag}", text) for flag, text in _OWN_HELP.items()]
    formatter = click.HelpFormatter(width=_WIDTH)
    with formatter.section("Options"):
        formatter.write_dl(sorted(rows))
    return formatter.getvalue()


if __name__ == "__main__":
    main()
