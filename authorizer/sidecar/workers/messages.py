"""Messages between the supervisor and a worker, sent over a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.configuration.load import ConfigInputs
    from authorizer.node.reconfiguration import Change


class Listening(NamedTuple):
    """The worker accepts requests at these URLs.

    Attributes:
        urls: of HTTP.
        other_urls: of other protocols.
    """

    urls: list[str]
    writable: bool
    other_urls: list[str]


class LogReady(NamedTuple):
    """The worker has opened its log; from now on the supervisor restarts it whenever it ends."""


class WorkerStopping(NamedTuple):
    """The worker cannot continue: the error as the command line reports it."""

    message: str
    code: int
    hint: str


class SettingsChange(NamedTuple):
    """A request to change the process's or a cluster's settings, as ``Reconfiguration.put``."""

    cluster: str
    texts: Mapping[str, str | None]
    by: str
    is_trial: bool


class SettingsResult(NamedTuple):
    """The supervisor's answer: the changes in all workers, or the reason why nothing was changed."""

    changes: list[Change]
    refusal: str | None


class NewSettings(NamedTuple):
    """Validated settings of the process or of a cluster, which the worker must apply."""

    cluster: str
    given: ConfigInputs
    put: Mapping[str, str]


class SettingsApplied(NamedTuple):
    """The worker has applied the new settings."""


Report = Listening | LogReady | WorkerStopping | SettingsChange | SettingsApplied
