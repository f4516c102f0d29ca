"""Options that name a source or a target of ACLs, and the one place that turns them into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.invocation import log_words, words
from authorizer.cli.options import acls_option, config_option, json_option, log_option, release_option, shared
from authorizer.cli.rendering.output import note
from authorizer.cli.sidecar import CREDENTIALS, credentials_options, require_one_source
from authorizer.cli.workspace import Workspace
from records.log.open import polled_servers

if TYPE_CHECKING:
    from authorizer.cli.acl_sources.acl_source import AclSet, AclSource, AclTarget, EditableAcls
    from authorizer.engine.decisions.state import AuthorizerSettings

#: Taken together: a broker's directory that is read, and the brokers that change what is in it.
BROKERS_OF_A_DIRECTORY: Final = ("--log", "--bootstrap-server")
#: A set of ACLs, and how it is printed.
set_source_options: Final = shared(
    log_option,
    acls_option,
    credentials_options,
    config_option,
    release_option,
    json_option,
)
bootstrap_option: Final = click.option(
    "--bootstrap-server",
    "bootstrap_servers",
    metavar="HOST:PORT",
    help="A Kafka cluster that is changed with Kafka's protocol, as kafka-acls does it. Client settings "
    "(SASL, TLS) are aclog.kafka.* of --config.",
)
max_removed_option: Final = click.option(
    "--max-removed-percent",
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="The largest share of the ACLs that the plan may remove; for more `aclog apply` needs "
    "--allow-mass-removal.  [default: aclog.plan.max.removed.percent, 50]",
)


def acl_source(workspace: Workspace, *, acls: str | None) -> AclSource:
    """The source that --acls names, else the log."""
    from authorizer.cli.acl_sources.named_acls import NamedAcls

    return NamedAcls(workspace.log_url if acls is None else acls, workspace)


def acl_target(workspace: Workspace, *, sidecar: str | None, bootstrap_servers: str | None) -> AclTarget:
    """The target that --bootstrap-server or --sidecar names, else the log.

    A log of polled ACLs (describe://) is changed through the brokers that it polls.
    """
    if sidecar is not None and bootstrap_servers is not None:
        raise click.UsageError("--sidecar and --bootstrap-server cannot be used together")
    if bootstrap_servers is None and sidecar is None:
        bootstrap_servers = polled_servers(workspace.config.log_url)
    if bootstrap_servers is None:
        return editable_acls(workspace, sidecar=sidecar)
    from authorizer.cli.acl_sources.cluster_acls import ClusterAcls

    require_one_source(None)
    return ClusterAcls(bootstrap_servers, workspace)


def target_words(before: AclSet, *, sidecar: str | None, bootstrap_servers: str | None) -> tuple[str, ...]:
    """The options that name this command's target, for the command that applies its plan."""
    named = {"--sidecar": sidecar, "--bootstrap-server": bootstrap_servers}
    found = [word for flag, value in named.items() if value is not None for word in (flag, value)]
    if before.is_changed_by_brokers and not found:
        found = ["--bootstrap-server", "HOST:PORT"]
    return (*log_words(), *words(*CREDENTIALS), *found)


def editable_acls(workspace: Workspace, *, sidecar: str | None) -> EditableAcls:
    """The node that --sidecar names, else the log."""
    require_one_source(sidecar)
    if sidecar is None:
        from authorizer.cli.acl_sources.log_acls import LogAcls

        return LogAcls(workspace)
    from authorizer.cli.acl_sources.node_acls import NodeAcls

    return NodeAcls(sidecar, workspace.config.acl_update_timeout_ms)


def load_set(acls: str | None) -> tuple[AclSet, AuthorizerSettings]:
    """Load the set that --acls or --log names, with the settings of --config, and note what is unknown."""
    from authorizer.engine.decisions.notes import unknown_release, unknown_settings

    workspace = Workspace.given()
    found = acl_source(workspace, acls=acls).load()
    settings = workspace.settings(is_own=found.is_own).with_version_of(found.image)
    for each in (*unknown_release(found.state(settings)), *unknown_settings(settings)):
        note(f"note: {each}")
    return found, settings
