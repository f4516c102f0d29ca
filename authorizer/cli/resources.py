"""The flags that name a resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from authorizer.analysis.files.resources import RESOURCES
from records.acl import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping


def flag_of(parameter: str) -> str:
    """``--transactional-id``."""
    return f"--{parameter.replace('_', '-')}"


def only_resource(given: Mapping[str, Any]) -> tuple[ResourceType, str]:
    """The type and name of the resource that flags name.

    Args:
        given: by the flag's parameter; None, or False for --cluster, where it is not there.

    Raises:
        click.UsageError: none is there, or several are; or the name is empty, as a script's variable was:
            Kafka's authorizer would decide on it, and no broker asks about one.
    """
    flags = [flag for flag in RESOURCES if given[flag] not in (None, False)]
    if len(flags) != 1:
        raise click.UsageError(f"Name exactly one resource: {', '.join(map(flag_of, RESOURCES))}.")
    (flag,) = flags
    if given[flag] == "":
        raise click.BadParameter("the name is empty", param_hint=f"'{flag_of(flag)}'")
    return RESOURCES[flag], CLUSTER_NAME if given[flag] is True else given[flag]
