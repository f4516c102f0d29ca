"""The clusters of a review by Spark: the ACLs of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from authorizer.cli.rendering.output import shown
from authorizer.cli.reviews.options import LOGGED
from authorizer.cli.sets.source import load_set
from authorizer.cli.workspace import Workspace
from authorizer.engine.decisions.state import AuthorizerSettings
from snapshot.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.cli.sets.source import AclSet
    from records.request_traffic import Traffic


@dataclass(frozen=True, slots=True)
class Sets:
    """The ACLs of each cluster: by its name, of a store that has all, or (``""``) those of the only one."""

    workspace: Workspace
    settings: AuthorizerSettings
    by_cluster: Mapping[str, str]

    @classmethod
    def of_one(cls, sources: tuple[str, ...]) -> Sets:
        """What --acls or --log names."""
        if len(sources) > 1:
            raise click.UsageError(
                "--acls: several sets are for a fleet (--cluster-column, --cluster-pattern)"
            )
        workspace = Workspace.given()
        return cls._of(workspace, {"": sources[0] if sources else workspace.log_url})

    @classmethod
    def of_fleet(cls, sources: tuple[str, ...]) -> Sets:
        """What --acls says of each."""
        by_cluster: dict[str, str] = {}
        for each in sources:
            cluster, equals, name = each.partition("=")
            if equals:
                by_cluster[cluster] = name
            else:
                store = SnapshotStore(each)
                store.require()
                by_cluster = dict.fromkeys(store.clusters(), each) | by_cluster
        if not by_cluster:
            raise click.UsageError(
                "--acls: a fleet needs CLUSTER=SET for each, or a store with all snapshots"
            )
        return cls._of(Workspace.given(), by_cluster)

    @classmethod
    def _of(cls, workspace: Workspace, by_cluster: Mapping[str, str]) -> Sets:
        return cls(workspace, AuthorizerSettings.from_configs(workspace.config.properties), by_cluster)

    def load(self, cluster: str) -> AclSet:
        """Those of one cluster."""
        return load_set(self.by_cluster[cluster], self.workspace, cluster or None)

    def lacks(self, cluster: str, traffic: Traffic) -> str | None:
        """Why nothing can be said of a cluster."""
        lines = f"{traffic.coverage.lines:,} lines"
        if not cluster:
            return f"{lines} are of no cluster, and passed by"
        if cluster not in self.by_cluster:
            return f"{lines} of cluster {shown(cluster)} are passed by: no --acls has its ACLs"
        if not traffic.has_allowed:
            return (
                f"nothing was allowed in the {lines} of cluster {shown(cluster)}: it is passed by. {LOGGED}"
            )
        return None
