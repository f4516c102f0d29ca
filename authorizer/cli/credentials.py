"""``aclog credentials``: users of SASL, in a file that stores only hashes of their passwords."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from authorizer.cli.command import Group
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.options import Parsed, completes, json_option
from authorizer.cli.output_file import writing
from authorizer.cli.rendering.output import print_json, shown
from records.entries import SCRAM_MECHANISMS

_file_option = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar="ACLOG_ADMIN_CREDENTIALS_FILE",
    required=True,
    shell_complete=completes("file"),
    help="The file of credentials, which aclog.admin.credentials.file names.",
)
_mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(list(SCRAM_MECHANISMS.values())),
    multiple=True,
    help="Only for this mechanism; may be repeated.  [default: both]",
)


def _user(text: str) -> str:
    from authorizer.authentication.scram import require_user

    try:
        return require_user(text)
    except ValueError as error:
        raise ValueError(f"`{text}`: {error}") from error


@click.group("credentials", cls=Group)
def credentials_command() -> None:
    """Add, list or remove users that log in by SASL over Kafka's protocol.

    A client that logs in has the principal User:NAME. The file stores SCRAM's hashes, never passwords; PLAIN
    is verified with the same hashes. A running server applies a change within about a second.
    """


@credentials_command.command("add")
@click.argument("user", type=Parsed("user", _user), metavar="USER")
@_file_option
@_mechanism_option
def add_command(*, user: str, file: Path, mechanisms: tuple[str, ...]) -> None:
    """Add a user, or give it another password.

    The password is the first line of stdin; on a terminal it is prompted for. The file is created with mode
    0600 if it does not exist.

    Exit code 0: added; 2: the file cannot be written, or there is no password.

    \b
    Examples:
      aclog credentials add alice --file credentials
      aclog credentials add alice --file credentials --mechanism SCRAM-SHA-512 < password
    """
    from authorizer.authentication.scram import CREDENTIALS_FILE, ScramCredential

    password = _password(user)
    for mechanism in mechanisms or SCRAM_MECHANISMS.values():
        with writing(file):
            CREDENTIALS_FILE.put(file, ScramCredential.create(user, mechanism, password))
        click.echo(f"added {mechanism} of {shown(user)}")


@credentials_command.command("list")
@_file_option
@json_option
def list_command(*, file: Path, as_json: bool) -> None:
    """List the users of a file and the mechanisms of each.

    \b
    Examples:
      aclog credentials list --file credentials
      aclog credentials list --file credentials --json
    """
    from authorizer.authentication.scram import CREDENTIALS_FILE

    found = CREDENTIALS_FILE.read(file)
    if as_json:
        entries = [
            {"user": each.user, "mechanism": each.mechanism, "iterations": each.iterations} for each in found
        ]
        print_json({"file": str(file), "credentials": entries})
        return
    if not found:
        click.echo(f"no credentials in {shown(str(file))}")
    for each in found:
        click.echo(f"{each.mechanism}  {shown(each.user)}")


@credentials_command.command("remove")
@click.argument("user", metavar="USER")
@_file_option
@_mechanism_option
def remove_command(*, user: str, file: Path, mechanisms: tuple[str, ...]) -> None:
    """Remove a user from the file; a running server refuses its logins within about a second.

    Exit code 0: removed; 1: there is no such user.

    \b
    Examples:
      aclog credentials remove alice --file credentials
    """
    from authorizer.authentication.scram import CREDENTIALS_FILE, credential_id

    removed = []
    for mechanism in mechanisms or SCRAM_MECHANISMS.values():
        with writing(file):
            removed.append(CREDENTIALS_FILE.remove(file, credential_id(user, mechanism)))
    for each in filter(None, removed):
        click.echo(f"removed {each.mechanism} of {shown(user)}")
    if not any(removed):
        raise Failure(
            f"{file} has no such credential of {shown(user)}",
            ExitCode.NO,
            "`aclog credentials list` prints its users.",
        )


def _password(user: str) -> str:
    if sys.stdin.isatty():
        typed: str = click.prompt(
            f"Password of {shown(user)}", hide_input=True, confirmation_prompt=True, err=True
        )
        return typed
    password = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not password or "\0" in password:
        raise click.UsageError("the password is the first line of stdin; it is empty or has a zero byte")
    return password
