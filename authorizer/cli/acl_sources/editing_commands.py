"""Commands that change the ACLs of a source, without the change: for texts that propose one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from authorizer.cli.command_name import command_words
from authorizer.cli.invocation import words
from records.log.open import POLLED, QUORUM, kind_of

#: For a cluster whose address is not known.
KAFKA_ACLS: Final = ("kafka-acls", "--bootstrap-server", "HOST:PORT")
_BOOTSTRAP_FLAGS: Final = {POLLED: "--bootstrap-server", QUORUM: "--bootstrap-controller"}


def acls_command(flags: Sequence[str]) -> tuple[str, ...]:
    """`aclog acls` with the options that name the source."""
    return (*command_words(), "acls", *flags)


def editing_commands(
    url: str, flags: Sequence[str], *, is_writable: bool, is_of_cluster: bool
) -> list[tuple[str, ...]]:
    """The commands that can change the ACLs of a log, which ``flags`` of `aclog acls` name.

    ``is_of_cluster``: brokers decide by its ACLs, so that Kafka's tool changes them.
    """
    commands = [acls_command(flags)] if is_writable else []
    if is_of_cluster:
        flag = _BOOTSTRAP_FLAGS.get(kind_of(url))
        servers = url.partition("://")[2].partition("/")[0]
        connection = (flag, servers, *words("--command-config")) if flag else KAFKA_ACLS[1:]
        commands.append((KAFKA_ACLS[0], *connection))
    return commands
