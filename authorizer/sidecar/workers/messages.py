"""What the supervisor and a worker say to each other, over a pipe of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.configuration.load import ConfigInputs
    from authorizer.node.reconfiguration import Change


class Listening(NamedTuple):
    """A worker answers on these URLs; ``writable``: its node can change ACLs."""

    urls: list[str]
    writable: bool


class LogReady(NamedTuple):
    """A worker has a log: whatever happens from here on, it is started again."""


class WorkerStopping(NamedTuple):
    """A worker cannot go on: as the command line would say it."""

    message: str
    code: int
    hint: str


class SettingsChange(NamedTuple):
    """A worker was asked to change settings, of a cluster if it has a name: as ``Reconfiguration.put``."""

    cluster: str
    texts: Mapping[str, str | None]
    by: str
    is_trial: bool


class SettingsResult(NamedTuple):
    """The supervisor's answer to that: what has changed, in all workers; or why nothing has."""

    changes: list[Change]
    refusal: str | None


class NewSettings(NamedTuple):
    """The supervisor has checked these, of a cluster if it has a name: to be taken."""

    cluster: str
    given: ConfigInputs
    put: Mapping[str, str]


class SettingsApplied(NamedTuple):
    """A worker has taken them."""


Report = Listening | LogReady | WorkerStopping | SettingsChange | SettingsApplied
