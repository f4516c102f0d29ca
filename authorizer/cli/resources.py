"""The options that name a resource, defined once for all commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from authorizer.analysis.files.parsing import RESOURCES
from authorizer.cli.options import shared
from records.acl import CLUSTER_NAME, ResourceType

#: Metavar and help by parameter; the cluster has one name, and needs no value.
_NAMED: Final = {
    "topic": ("NAME", "Topic"),
    "group": ("NAME", "Consumer group"),
    "transactional_id": ("ID", "Transactional id"),
    "delegation_token": ("TOKEN", "Delegation token"),
    "user_principal": ("TYPE:NAME", "User as a resource, for CreateTokens and DescribeTokens"),
}
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def resource_options(
    *, prefixes: bool = False, wildcard: bool = False, multiple: bool = False
) -> Callable[[_Command], _Command]:
    """``--topic``, ``--group``, ``--cluster`` and so on.

    ``prefixes``: NAME* is a prefix of names; ``wildcard``: * is the wildcard resource.
    """

    def option(parameter: str) -> Callable[[_Command], _Command]:
        if parameter not in _NAMED:
            return click.option(flag_of(parameter), is_flag=True, help="The cluster itself.")
        metavar, noun = _NAMED[parameter]
        names = f"; {metavar}* for all with this prefix" if prefixes else "; '*' for all" if wildcard else ""
        return click.option(
            flag_of(parameter),
            metavar=metavar,
            multiple=multiple,
            help=f"{noun}{names}.{' Repeatable.' if multiple else ''}",
        )

    return shared(*map(option, RESOURCES))


def flag_of(parameter: str) -> str:
    """``--transactional-id``."""
    return f"--{parameter.replace('_', '-')}"


def only_resource(given: Mapping[str, Any]) -> tuple[ResourceType, str]:
    """The type and name of the resource that options name; None, or False for --cluster: not given.

    Raises:
        click.UsageError: the options name no resource or several, or an empty name. Kafka's authorizer
            decides on an empty name, but no broker sends one.
    """
    flags = [flag for flag in RESOURCES if given[flag] not in (None, False)]
    if len(flags) != 1:
        raise click.UsageError(f"Name exactly one resource: {', '.join(map(flag_of, RESOURCES))}.")
    (flag,) = flags
    if given[flag] == "":
        raise click.BadParameter("the name is empty", param_hint=f"'{flag_of(flag)}'")
    return RESOURCES[flag], CLUSTER_NAME if given[flag] is True else given[flag]
