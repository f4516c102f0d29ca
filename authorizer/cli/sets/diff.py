"""``aclog diff``: the ACLs and the decisions in which two sets of ACLs differ."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from authorizer.api.kafka_version import KafkaVersion
from authorizer.cli.acl_sources.options import acl_source, source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode
from authorizer.cli.invocation import SOURCE_FLAGS, words
from authorizer.cli.options import RELEASE, config_option, json_option
from authorizer.cli.rendering.output import Waiting, note, print_json
from authorizer.cli.workspace import Workspace

if TYPE_CHECKING:
    from authorizer.cli.acl_sources.acl_source import AclSet, AclSource
    from authorizer.engine.decisions.state import AuthorizerSettings


@click.command("diff", cls=Command)
@click.argument("named", metavar="A [B]", nargs=-1)
@source_options()
@click.option(
    "--as",
    "releases",
    metavar="RELEASE",
    multiple=True,
    type=RELEASE,
    help="The Kafka release whose rules apply, for both sets; twice: for A, then for B. Without B it "
    "compares A under both releases: what an upgrade changes.",
)
@config_option
@json_option
def diff_command(*, named: tuple[str, ...], releases: tuple[str, ...], as_json: bool) -> None:
    """Compare two sets of ACLs and the permissions that they give.

    Prints the ACLs that only one set has. Then it prints every class of requests that the sets answer
    differently: principals, names, hosts and operations, with one concrete request and what decides it on
    both sides. What B grants and what B revokes are separate classes. The result is exact: it includes names
    that no ACL mentions, and other hosts and principals.

    A is also what --log, --bootstrap-server, --sidecar or --acls names, or the log of --config; the only
    argument is B then.

    A and B are each a log (file:DIR, DIR, kafka://HOST:PORT/TOPIC, a live cluster's kraft://HOST:PORT of its
    controllers or describe://HOST:PORT of its brokers, with aclog.kafka.* of --config), a log after one of
    its records (LOG@OFFSET), a snapshot store (its newest, or STORE@END-OFFSET) or one of Kafka's .checkpoint
    files, a running node (http://HOST:PORT of its sidecar), a plan of `aclog plan` (what there will be then),
    or a file: what kafka-acls --list prints, JSON lines, KIP-11's JSON or CSV; - is stdin.

    Super users and allow.everyone.if.no.acl.found come from --config, for both sets. Each set follows the
    rules of the Kafka release of --as, of --config, or that its brokers registered; else the release of the
    other set. If neither release is known, differences of single releases are marked with the releases.

    Exit code 0: every request has the same answer; 1: some answers differ.

    \b
    Examples:
      aclog diff /var/kafka/__cluster_metadata-0 wanted-acls.txt
      aclog diff file:DIR@281 file:DIR
      aclog diff file:DIR --as 4.3 --as 4.4
      aclog diff s3://bucket/snapshots http://127.0.0.1:8180 --config server.properties
      aclog diff --bootstrap-server HOST:9092 --command-config client.properties wanted-acls.txt
      kafka-acls --bootstrap-server HOST:9092 --list | aclog diff - kafka://HOST:9092/acls --json
    """
    from authorizer.analysis.permissions.acl_comparison import ChangedAcls, principals_with_networks
    from authorizer.analysis.permissions.decision_changes import decision_changes_between, decision_changes_by
    from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
    from authorizer.cli.acl_sources.named_acls import NamedAcls
    from authorizer.cli.sets.diff_report import Report
    from authorizer.engine.decisions.notes import unknown_release
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.principal import WILDCARD_PRINCIPAL

    flags = words(*SOURCE_FLAGS)
    if (*named, *flags).count("-") > 1:
        raise click.UsageError("A and B cannot both read stdin")
    workspace = Workspace.given()
    sources: list[AclSource] = [NamedAcls(each, workspace) for each in named]
    config, is_one_name = workspace.config, len(named) == 1 and len(releases) < len(("A", "B"))
    if flags or (is_one_name and (config.log_url or config.broker_log) is not None):
        sources.insert(0, acl_source(workspace))
    count = len(sources), len(releases)
    if count != (1, 2) and (count[0] != len(("A", "B")) or count[1] > len(("A", "B"))):
        is_a = f" ({shlex.join(flags)} is A)" if flags else ""
        raise click.UsageError(f"name A and B{is_a}; or A alone, and two releases: --as 4.3 --as 4.4")
    settings = AuthorizerSettings.from_configs(workspace.config.properties)
    first_set = sources[0].load()
    sets = first_set, sources[1].load() if sources[1:] else first_set
    by_release = _settings_by_release(settings, sets)
    labels = "A", "B"
    if releases:
        first, last = releases[0], releases[-1]
        by_release = settings.with_version(KafkaVersion(first)), settings.with_version(KafkaVersion(last))
        labels = labels if sources[1:] else (first, last)
    with Waiting("comparing"):
        changed = ChangedAcls.between(*(each.table() for each in sets))
        if by_release[0].networks == by_release[1].networks:
            decision_changes = decision_changes_by(changed, sets[0].table(), by_release[0])
        else:
            principals = changed.principals | principals_with_networks(sets[0].table())
            # An ACL for User:* may change any principal's permissions; another ACL only its principal's.
            compared = None if WILDCARD_PRINCIPAL in principals else principals
            meanings = (
                EffectivePermissions.of(each.table(), each_settings, compared)
                for each, each_settings in zip(sets, by_release, strict=True)
            )
            decision_changes = list(decision_changes_between(*meanings)) if principals else []
    if by_release[0].kafka_version is None or by_release[1].kafka_version is None:
        for each, each_settings in zip(sets, by_release, strict=True):
            note(*unknown_release(each.state(each_settings)))
    report = Report(sets, changed, decision_changes, by_release, labels)
    if as_json:
        for row in report.to_json():
            print_json(row)
    else:
        report.print()
    if decision_changes:
        raise click.exceptions.Exit(ExitCode.NO)


def _settings_by_release(
    settings: AuthorizerSettings, sets: tuple[AclSet, AclSet]
) -> tuple[AuthorizerSettings, AuthorizerSettings]:
    """The settings of each set; a set of unknown release follows the other one's."""
    versions = [settings.version_for(each.image) for each in sets]
    first, second = (settings.with_version_of(each.image) for each in sets)
    is_known = [each.source in ("configured", "brokers") for each in versions]
    if is_known == [True, False]:
        return first, first
    return (second, second) if is_known == [False, True] else (first, second)
