"""Options that name a source or a target of ACLs, and the one place that turns them into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from authorizer.cli.invocation import given, log_words, remember, words
from authorizer.cli.options import (
    config_option,
    json_option,
    log_option,
    release_option,
    shared,
    snapshots_option,
)
from authorizer.cli.rendering.output import note
from authorizer.cli.sidecar import CREDENTIALS, credentials_options
from authorizer.cli.workspace import Workspace
from records.log.url import polled_servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from authorizer.cli.acl_sources.acl_source import AclSet, AclSource, AclTarget, EditableAcls
    from authorizer.engine.decisions.state import AuthorizerSettings

_Command = TypeVar("_Command", bound="Callable[..., Any]")

#: Taken together: a broker's directory that is read, and the brokers that change what is in it.
BROKERS_OF_A_DIRECTORY: Final = ("--log", "--bootstrap-server")


def source_options(
    *,
    no_sidecar: str | None = None,
    no_acls: str | None = None,
    acls: Callable[[Any], Any] | None = None,
) -> Callable[[_Command], _Command]:
    """The options that name a source of ACLs: the same in every command.

    Args:
        no_sidecar: why the command cannot read a node, and what it can read; None if it can.
        no_acls: the same for any set of ACLs.
        acls: the option --acls of a command that takes several sets.
    """
    return shared(
        log_option,
        snapshots_option,
        _source_option(
            "--sidecar",
            "URL",
            "Instead of --log a running node: http://HOST:PORT (or https) of its sidecar, with "
            "/clusters/NAME appended if it follows several clusters, or unix:PATH of the aclog.sock in its "
            "log's directory.",
            no_sidecar,
        ),
        acls
        or _source_option(
            "--acls",
            "SET",
            "Instead of --log any set of ACLs that `aclog diff` takes: LOG@OFFSET, a snapshot store, a "
            "running node, a live cluster, a plan, a file.",
            no_acls,
        ),
        *([credentials_options] if no_sidecar is None else []),
    )


def _source_option(flag: str, metavar: str, text: str, refused: str | None) -> Callable[[_Command], _Command]:
    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is not None and refused is not None:
            raise click.UsageError(f"{flag} {value}: {refused}", ctx)
        return remember(ctx, param, value)

    hidden = refused is not None
    return click.option(
        flag, metavar=metavar, expose_value=False, callback=callback, hidden=hidden, help=text
    )


#: A set of ACLs, and how it is printed.
set_source_options: Final = shared(source_options(), config_option, release_option, json_option)
max_removed_option: Final = click.option(
    "--max-removed-percent",
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="The largest share of the ACLs that the plan may remove; for more `aclog apply` needs "
    "--allow-mass-removal.  [default: aclog.plan.max.removed.percent, 50]",
)


def named_set() -> str | None:
    """The set of --acls, or the node of --sidecar; None if the options name a log."""
    named: str | None = given("--acls") or given("--sidecar")
    return named


def require_fitting_options(*of_log: str) -> None:
    """click.UsageError for options that the source has no use for.

    ``of_log``: options for a log, in addition to those for its connection and its snapshots.
    """
    if given("--sidecar") is not None and (flags := words("--command-config", "--snapshots", *of_log)):
        raise click.UsageError(
            f"--sidecar cannot be used with --log or --snapshots: the node has a log and a store; "
            f"remove {flags[0]}"
        )
    if given("--acls") is not None and words("--snapshots"):
        raise click.UsageError("--snapshots is for a log: as --acls a store is a set by itself")
    if named_set() is None and (flags := words(*CREDENTIALS)):
        raise click.UsageError(f"{flags[0]} is for a node: name it with --sidecar")


def acl_source(workspace: Workspace) -> AclSource:
    """The source that the options name."""
    from authorizer.cli.acl_sources.named_acls import NamedAcls

    require_fitting_options()
    named = named_set()
    if named is None:
        return NamedAcls(workspace.log_url, workspace, has_store=True)
    return NamedAcls(named, workspace, is_node=given("--sidecar") is not None)


def acl_target(workspace: Workspace) -> AclTarget:
    """The target that the options name.

    A log of polled ACLs (describe://) is changed through the brokers that it polls.
    """
    bootstrap_servers = given("--bootstrap-server") or polled_servers(workspace.config.log_url)
    if bootstrap_servers is None or given("--sidecar") is not None:
        return editable_acls(workspace)
    from authorizer.cli.acl_sources.cluster_acls import ClusterAcls

    require_fitting_options()
    return ClusterAcls(bootstrap_servers, workspace)


def target_words(before: AclSet) -> tuple[str, ...]:
    """The options that name this command's target, for the command that applies its plan."""
    named = words("--sidecar", *CREDENTIALS)
    if before.is_changed_by_brokers and given("--bootstrap-server") is None:
        named = ("--bootstrap-server", "HOST:PORT")
    return (*log_words(), *named)


def editable_acls(workspace: Workspace) -> EditableAcls:
    """The node that --sidecar names, else the log."""
    require_fitting_options()
    sidecar = given("--sidecar")
    if sidecar is None:
        from authorizer.cli.acl_sources.log_acls import LogAcls

        return LogAcls(workspace)
    from authorizer.cli.acl_sources.node_acls import NodeAcls

    return NodeAcls(sidecar, workspace.config.acl_update_timeout_ms)


def load_set() -> tuple[AclSet, AuthorizerSettings]:
    """Load the set that the options name, with the settings of --config, and note what is unknown."""
    from authorizer.engine.decisions.notes import unknown_release, unknown_settings

    workspace = Workspace.given()
    found = acl_source(workspace).load()
    settings = workspace.settings(is_own=found.is_own).with_version_of(found.image)
    note(*unknown_release(found.state(settings)), *unknown_settings(settings))
    return found, settings
