"""Content of a report in any format: one state, and the changes that led to it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from authorizer.analysis.matrix.matrix import Matrix
from authorizer.analysis.permissions.decision_changes import DecisionChange, decide_changes
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.api.http.answers.decisions import KafkaRelease
from authorizer.cli.acl_sources.acl_source import AclSet
from authorizer.cli.rendering.output import Waiting, utc
from authorizer.cli.report.allowed_principals import AllowedPrincipals
from authorizer.cli.report.matrix_table import MatrixTable
from authorizer.console.history.history_json import change_entries
from authorizer.console.routes.decision_changes import find_decision_changes
from authorizer.console.routes.findings import ACLS_MAXIMUM, Findings, findings_by_acl
from authorizer.engine.decisions.listing import Listing, list_acls
from authorizer.engine.explanation.explain import explain
from records.acl import AclBindingFilter, PatternType, ResourcePattern
from records.principal import parse_kafka_principal
from snapshot.digest import digest_to_string
from snapshot.image import restore_image

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from authorizer.analysis.lint.rules import LintRules
    from authorizer.analysis.matrix.teams import Teams
    from authorizer.api.kafka_version import VersionInForce
    from authorizer.cli.report.source import Scope, Source
    from authorizer.engine.decisions.decision import Decision
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
    from authorizer.engine.explanation.explain import Explanation
    from records.ids import Uuid
    from snapshot.image import AclsImage

#: Epoch of sets of ACLs that are not from a log.
_NO_LOG_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of a report.

    Attributes:
        state, before: the complete state, and the state that it is compared with.
        meaning: the effective permissions within the scope.
        acls: the ACLs that concern the scope, in Kafka's order.
        findings: lint findings by ACL id; None: not computed.
        decision_changes: classes of requests whose decision changed.
        allowed: who may, for a page; None: not computed.
        lines_maximum: maximum number of listed changes and decision changes; None: all.
        left_out: what is missing, and how to get it.
    """

    source: Source
    scope: Scope
    made_ms: int
    version: VersionInForce
    state: AuthorizerState
    before: AuthorizerState | None
    meaning: EffectivePermissions
    teams: Teams
    matrices: list[MatrixTable]
    acls: Listing
    findings: Mapping[Uuid, list[dict[str, Any]]] | None
    decision_changes: list[DecisionChange]
    allowed: AllowedPrincipals | None
    lines_maximum: int | None
    left_out: list[str]

    def facts(self) -> dict[str, Any]:
        """The state, the rules that apply, and the scope."""
        settings = self.state.settings
        return {
            "source": self.source.name,
            "clusterId": self.source.cluster_id,
            "uncommittedFrom": self.source.uncommitted_from,
            **_state_json(self.source.image),
            "meaning": self.meaning.digest.hex() if self.scope.is_unrestricted else None,
            "kafkaVersion": to_builtins(KafkaRelease.of(self.version)),
            "superUsers": sorted(settings.super_users),
            "allowEveryoneIfNoAclFound": settings.allow_everyone,
            "narrowedTo": self.scope.words(),
            "since": None if self.source.before is None else _state_json(self.source.before),
            "leftOut": self.left_out,
            "aclogVersion": version("aclog"),
            "made": self.made_ms,
        }

    @property
    def title(self) -> str:
        """The source, its cluster, and the time of the state or the period."""
        source = self.source
        parts = [f"aclog report: {source.name}"]
        if source.cluster_id is not None:
            parts.append(f"cluster {source.cluster_id}")
        times = [_time(each) for each in (source.before, source.image) if each is not None]
        if any(times):
            parts.append(" to ".join(each or "the start" for each in times))
        return ", ".join(parts)

    def findings_of(self, acl_id: Uuid) -> list[dict[str, Any]]:
        return [] if self.findings is None else self.findings.get(acl_id, [])

    def changes(self) -> Iterator[dict[str, Any]]:
        """The listed changes, the newest first."""
        return islice(self._changes(), self.lines_maximum)

    def _changes(self) -> Iterator[dict[str, Any]]:
        for state in reversed(self.source.states):
            in_scope = tuple(
                each
                for each in state.changes or ()
                if any(acl is not None and self.scope.has_acl(acl.record) for acl in each.pair)
            )
            yield from change_entries(state._replace(changes=in_scope))

    def decided(self) -> Iterator[tuple[DecisionChange, list[tuple[Decision, Decision]]]]:
        """The decision changes, each with the decisions of its witness before and after, by operation."""
        if self.before is None:
            return iter(())
        before, after = (
            (each.index.image.merged().columns, each.settings) for each in (self.before, self.state)
        )
        return decide_changes(self.decision_changes, before, after)

    def explained(self, change: DecisionChange) -> list[Explanation]:
        """The explained decisions of the witness before and after."""
        witness = change.request_class.witness
        pattern = ResourcePattern(witness.resource_type, witness.name, PatternType.LITERAL)
        context = RequestContext(parse_kafka_principal(witness.principal), witness.host)
        action = Action(change.request_class.operations[0], pattern)
        return [explain(each, context, action) for each in (self.before, self.state) if each is not None]


def gather(
    source: Source,
    scope: Scope,
    settings: AuthorizerSettings,
    made_ms: int,
    teams: Teams,
    rules: LintRules,
    lines_maximum: int | None = None,
    allowed_maximum: int | None = None,
) -> Report:
    """Compute the content. Takes seconds for each 100,000 ACLs.

    ``allowed_maximum``: of the classes of who may; None: do not compute them.
    """
    left_out = []
    current = settings.with_version_of(source.image)
    with Waiting("computing effective permissions"):
        state, now, meaning = _evaluate(source.image, scope, current)
        before, then = None, None
        if source.before is not None:
            previous = settings.with_version_of(source.before)
            before, earlier, was = _evaluate(source.before, scope, previous)
            then = {each: (Matrix.of(earlier.index, previous, each), was) for each in scope.types}
        matrices = [
            MatrixTable(
                Matrix.of(now.index, current, each), meaning, scope, None if then is None else then[each]
            )
            for each in scope.types
        ]
    acls = list_acls(now.index, AclBindingFilter())
    findings = None
    if len(source.image) > ACLS_MAXIMUM:
        left_out.append(
            f"findings: {len(source.image):,} ACLs are more than the {ACLS_MAXIMUM:,} that a report checks; "
            "`aclog lint` checks all"
        )
    else:
        with Waiting("checking the ACLs"):
            ids = {each.record.id for each in acls.acls()}
            found = Findings.of(source.image, current, rules)
        findings = findings_by_acl(found, ids)
        if found.accepted:
            left_out.append(f"{len(found.accepted):,} findings that the rules of lint accept")
    decision_changes = []
    if before is not None:
        with Waiting("comparing"):
            decision_changes = [
                each for each in find_decision_changes(before, state) if scope.has_some(each.request_class)
            ]
    allowed = None
    if allowed_maximum is not None:
        with Waiting("listing who may"):
            allowed = AllowedPrincipals.of(matrices, scope, state, source.history, allowed_maximum)
        if allowed.rows < allowed.rows_total:
            left_out.append(
                f"who may, and since when, is listed for {allowed.rows:,} of {allowed.rows_total:,} names "
                "and prefixes, and by operation for fewer: restrict the report with "
                "--topic 'NAME*' or another resource's flag, or use "
                "`aclog who-can`"
            )
    changes = sum(len(each.changes or ()) for each in source.states)
    for total, what in (
        (changes, "changes"),
        (len(decision_changes), "classes of requests whose decision changed"),
    ):
        if lines_maximum is not None and total > lines_maximum:
            left_out.append(
                f"only {lines_maximum:,} of {total:,} {what} are listed: use --format json or a later --since"
            )
    return Report(
        source=source,
        scope=scope,
        made_ms=made_ms,
        version=settings.version_for(source.image),
        state=state,
        before=before,
        meaning=meaning,
        teams=teams,
        matrices=matrices,
        acls=acls,
        findings=findings,
        decision_changes=decision_changes,
        allowed=allowed,
        lines_maximum=lines_maximum,
        left_out=left_out,
    )


def _evaluate(
    image: AclsImage, scope: Scope, settings: AuthorizerSettings
) -> tuple[AuthorizerState, AuthorizerState, EffectivePermissions]:
    """The complete state, the state of the ACLs in the scope, and the effective permissions of these."""
    state = AclSet("", image).state(settings)
    if scope.is_unrestricted:
        return state, state, EffectivePermissions.of(image.merged().columns, settings)
    table = scope.table(image.merged().columns)
    part = restore_image([table], provenance=image.provenance, metadata=image.metadata)
    return (
        state,
        AclSet("", part).state(settings),
        EffectivePermissions.of(table, settings, scope.principals or None),
    )


def _time(image: AclsImage) -> str:
    """The time of a state of a log; empty if it is not known."""
    provenance = image.provenance
    return (
        utc(provenance.timestamp_ms) if provenance.timestamp_ms and provenance.epoch != _NO_LOG_EPOCH else ""
    )


def _state_json(image: AclsImage) -> dict[str, Any]:
    provenance = image.provenance
    is_from_log = provenance.epoch != _NO_LOG_EPOCH
    return {
        "endOffset": provenance.end_offset,
        "epoch": provenance.epoch if is_from_log else None,
        "timestamp": provenance.timestamp_ms if is_from_log and provenance.timestamp_ms else None,
        "aclCount": len(image),
        "digest": digest_to_string(image.digest),
    }
