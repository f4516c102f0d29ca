"""Options that name a sidecar and the caller's credentials, and the client that uses them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.api.errors import SidecarUnavailableError
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.invocation import given
from authorizer.cli.options import completes, remembered_option, shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.api.http.answers.node import NodeState
    from authorizer.client import Client


#: For scripts that get secrets by environment variables.
_TOKEN_VARIABLE: Final = "ACLOG_SIDECAR_TOKEN"  # noqa: S105 - no password

#: Includes the time in which a node that has just started loads its log.
_ANSWER_TIMEOUT_S: Final = 10.0


def _file(flag: str, text: str) -> Any:
    return remembered_option(
        flag,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        shell_complete=completes("file"),
        help=text,
    )


credentials_options: Final = shared(
    _file(
        "--token-file",
        "A file with the bearer token for a node.  [default: the token in ACLOG_SIDECAR_TOKEN]",
    ),
    _file(
        "--ca-file",
        "PEM: certificate authorities for a node's certificate.  [default: the system's authorities]",
    ),
    _file("--certificate-file", "PEM: the client certificate with its key (mutual TLS)."),
)
CREDENTIALS: Final = ("--token-file", "--ca-file", "--certificate-file")


@contextmanager
def sidecar_client(
    url: str, *, timeout_s: float = _ANSWER_TIMEOUT_S, names_caller: bool = True
) -> Iterator[Client]:
    """A client of the sidecar at ``url``, with the credentials that the command was given.

    Without ``names_caller`` none are sent: the owner of a log needs none on the socket in its directory.
    """
    import ssl

    from authorizer.client import Client, Credentials

    credentials = None
    if names_caller:
        credentials = Credentials(
            token=_token(given("--token-file")),
            ca_file=given("--ca-file"),
            certificate_file=given("--certificate-file"),
        )
    try:
        # Without retries a wrong address is reported immediately.
        client = Client(url, credentials=credentials, timeout_s=timeout_s, retries_unanswered=False)
    except ssl.SSLError as error:
        raise Failure(
            f"--ca-file and --certificate-file are PEM files, the latter with its key: {error}",
            ExitCode.USAGE,
        ) from error
    except ValueError as error:
        raise Failure(str(error), ExitCode.USAGE) from error
    with client:
        yield client


def _token(file: Path | None) -> str | None:
    """The bearer token of the file or the environment; None without one."""
    text = os.environ.get(_TOKEN_VARIABLE) if file is None else file.read_text("utf-8", "replace")
    if text is None:
        return None
    from authorizer.client.address import bearer_token

    try:
        return bearer_token(text)
    except ValueError as error:
        raise Failure(f"{file or _TOKEN_VARIABLE}: {error}", ExitCode.USAGE) from error


def node_state(url: str) -> NodeState:
    """Ask the node whose sidecar listens at ``http://HOST:PORT``, with the command's credentials."""
    from authorizer.client import calls

    with sidecar_client(url.rstrip("/").removesuffix("/v1/state")) as client:
        state = client.ask(calls.state())
    if state.cluster_id is None:
        raise SidecarUnavailableError(f"{url}: not ready: {state.reason}")
    return state


def is_node(url: str) -> bool:
    """Whether a URL names a running node rather than a log or a store."""
    return url.lower().startswith(("http://", "https://", "unix:"))
