"""Listeners that the console is switched on for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import CONSOLE_LISTENERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api.authorizer_api import Endpoint

#: In place of names: every listener.
EVERY_LISTENER: Final = "*"


def console_listeners(named: Sequence[str], listeners: Sequence[Endpoint]) -> tuple[str, ...]:
    """The names that are meant. Raises ConfigError: one that no listener has."""
    known = [endpoint.listener_name or "" for endpoint in listeners]
    if tuple(named) == (EVERY_LISTENER,):
        return tuple(known)
    for name in named:
        if name not in known:
            allowed = f"{EVERY_LISTENER}, or names out of {', '.join(known)}"
            raise ConfigError(CONSOLE_LISTENERS, name, allowed)
    return tuple(named)
