"""AclSource and AclTarget: where commands read ACLs, and where they change them.

Also the commands that change the ACLs of a source, for texts that propose one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from authorizer.cli.command_name import command_words
from authorizer.cli.invocation import words
from records.log.url import POLLED, QUORUM, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.analysis.plans.plan import AclPlan, PlanOrigin, PlanResult
    from authorizer.api.authorizer_api import AclCreateResult, AclDeleteResult
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
    from records.acl import AclBinding, AclBindingFilter, ResourcePatternFilter
    from records.columns.acl_table import AclTable
    from snapshot.image import AclsImage

#: For a cluster whose address is not known.
KAFKA_ACLS: Final = ("kafka-acls", "--bootstrap-server", "HOST:PORT")
_BOOTSTRAP_FLAGS: Final = {POLLED: "--bootstrap-server", QUORUM: "--bootstrap-controller"}


class AclSet(NamedTuple):
    """The ACLs of a source at one state.

    Attributes:
        origin: the log for which plans are made; None for a source that is not a target.
        is_own: whether the log is managed by aclog, so that no broker decides by these ACLs.
        editing_command: the command that changes the ACLs, see ``editing_commands``.
        is_changed_by_brokers: whether it is the directory of a broker, which only the broker writes.
    """

    name: str
    image: AclsImage
    cluster_id: str | None = None
    origin: PlanOrigin | None = None
    is_own: bool = False
    editing_command: tuple[str, ...] = KAFKA_ACLS
    is_changed_by_brokers: bool = False

    @property
    def plan_origin(self) -> PlanOrigin:
        """The log for which plans are made, of a target."""
        if self.origin is None:
            raise TypeError(f"{self.name} is not a target of plans")
        return self.origin

    @property
    def has_offsets(self) -> bool:
        """Whether the ACLs are those of a log, or of a stored snapshot of one."""
        return self.cluster_id is not None

    def table(self) -> AclTable:
        """The ACLs by column."""
        return self.image.merged().columns

    def state(self, settings: AuthorizerSettings) -> AuthorizerState:
        """The state that decides single requests."""
        from authorizer.engine.decisions.state import AuthorizerState

        return AuthorizerState(settings.index(self.image), settings)


class AclSource(Protocol):
    """Any place that has ACLs."""

    def load(self) -> AclSet:
        """Read the ACLs; a target sets ``origin``.

        Raises:
            click.UsageError: the source does not exist.
            LogError, SnapshotError, DecodeError, SidecarError, Failure: it cannot be read.
        """


class AclTarget(AclSource, Protocol):
    """A log, a running node or a Kafka cluster, for which plans are made and applied."""

    def apply(self, plan: AclPlan, max_removed_percent: int | None) -> tuple[int | None, PlanResult]:
        """Apply a plan; ``max_removed_percent``: as of PlanMutator.

        Returns the log's end offset, None for a target without one, and the changes.

        Raises:
            MassRemovalError: the plan removes a larger share of the ACLs than allowed.
            PlanOutdatedError: the plan is for another log, or the effective permissions have changed.
            AclogError: the plan was not applied; the error says what was written.
        """


class EditableAcls(AclTarget, Protocol):
    """A log or a running node, whose ACLs `aclog acls` changes. Each call also returns an end offset."""

    def list_acls(self, filters: Sequence[ResourcePatternFilter]) -> tuple[int, AclTable]:
        """ACLs of one state: at least those that a filter matches; without a filter all."""

    def create(self, bindings: Sequence[AclBinding]) -> tuple[int, list[AclCreateResult]]:
        """Create ACLs: one result for each binding, once the ACLs can be read."""

    def delete(self, filters: Sequence[AclBindingFilter]) -> tuple[int, list[AclDeleteResult]]:
        """Delete ACLs: one result for each filter, once the deletions can be read."""


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
