"""``aclog token``: bearer tokens for the sidecar, in a file that stores only their hashes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from authorizer.cli.command import Group
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.options import Parsed, completes, json_option
from authorizer.cli.output_file import writing
from authorizer.cli.rendering.output import note, print_json, shown

if TYPE_CHECKING:
    from authorizer.sidecar.auth.stored_tokens import StoredToken
    from records.principal import KafkaPrincipal

_file_option = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar="ACLOG_AUTH_TOKENS_FILE",
    required=True,
    shell_complete=completes("file"),
    help="The file of tokens, which aclog.auth.tokens.file names.",
)


@click.group("token", cls=Group)
def token_command() -> None:
    """Create, list or revoke bearer tokens for the sidecar.

    A caller of `aclog serve` that sends `Authorization: Bearer TOKEN` has the token's principal. The file
    stores a hash of each token, never the token. A running sidecar applies a change within about a second.
    """


def _principal(text: str) -> KafkaPrincipal:
    from authorizer.sidecar.auth.stored_tokens import token_principal

    try:
        return token_principal(text)
    except ValueError as error:
        raise ValueError(f"`{text}`: {error}") from error


@token_command.command("create")
@click.option(
    "--principal",
    type=Parsed("TYPE:NAME", _principal),
    required=True,
    help="The token's principal, such as User:gateway.",
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    shell_complete=completes("file"),
    help="Add the token's line to this file; create the file with mode 0600 if it does not exist.  [default: "
    "print the line after the token]",
)
@json_option
def create_command(*, principal: KafkaPrincipal, file: Path | None, as_json: bool) -> None:
    """Create a token and print it; it is not stored and cannot be printed again.

    A token has 256 random bits. With --file it prints only the token, otherwise also the token's line for the
    file. A principal may have several tokens: to replace one, create another, then revoke the first.

    Exit code 0: created; 2: the file cannot be written.

    \b
    Examples:
      aclog token create --principal User:gateway --file tokens > gateway.token
      aclog token create --principal User:gateway
    """
    from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token

    token, stored = new_token(principal)
    if file is not None:
        with writing(file):
            TOKENS_FILE.put(file, stored)
    if as_json:
        print_json({**_json(stored), "token": token, "line": stored.line()})
        return
    click.echo(token)
    if file is None:
        click.echo(stored.line())
    note("the token is shown only once; store it where only its user can read it")


@token_command.command("list")
@_file_option
@json_option
def list_command(*, file: Path, as_json: bool) -> None:
    """List the tokens of a file: the id and principal of each.

    \b
    Examples:
      aclog token list --file tokens
      aclog token list --file tokens --json
    """
    from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE

    tokens = TOKENS_FILE.read(file)
    if as_json:
        print_json({"file": str(file), "tokens": [_json(token) for token in tokens]})
        return
    if not tokens:
        click.echo(f"no tokens in {shown(str(file))}")
    for token in tokens:
        click.echo(f"{token.id}  {shown(str(token.principal))}")


@token_command.command("revoke")
@click.argument("token_id", metavar="ID")
@_file_option
def revoke_command(*, token_id: str, file: Path) -> None:
    """Remove a token from the file; a running sidecar refuses it within about a second.

    ID is the part of a token between its underscores; `aclog token list` prints it.

    Exit code 0: removed; 1: there is no such token.

    \b
    Examples:
      aclog token revoke 5f0c9d1e2a3b4c5d --file tokens
    """
    from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE

    with writing(file):
        revoked = TOKENS_FILE.remove(file, token_id)
    if revoked is None:
        raise Failure(
            f"{file} has no token {shown(token_id)}", ExitCode.NO, "`aclog token list` prints its tokens."
        )
    click.echo(f"revoked {revoked.id} of {shown(str(revoked.principal))}")


def _json(token: StoredToken) -> dict[str, str]:
    return {"id": token.id, "principal": str(token.principal)}
