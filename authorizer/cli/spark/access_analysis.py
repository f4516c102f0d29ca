"""The analysis of access_changes, which Spark's executors run, as rows of that table.

And how SQL functions compare hosts of ACLs: as the authorizer, by the release at an offset (KIP-1276).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

from authorizer.analysis.history.access_history import AclPeriods, access_steps, needs_all_principals
from authorizer.analysis.request_space.host_answers import is_client_host
from authorizer.analysis.request_space.host_tree import UNSPECIFIED, network_of_host
from authorizer.api.ip_address import EVERY_IPV4
from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG, VersionInForce
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG, SUPER_USERS_CONFIG
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import PatternType
from records.entries import SupportedLevels
from records.principal import WILDCARD_PRINCIPAL
from snapshot.jobs.changes.coverage import levels_at
from snapshot.jobs.changes.tables.access_rows import NO_END
from snapshot.jobs.changes.tables.schema import ANALYSED, DEFERRED, OMITTED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from authorizer.analysis.history.access_history import AccessStep, Bounds
    from authorizer.analysis.permissions.request_class import NameSet, RequestClass
    from authorizer.analysis.request_space.name_space import Key
    from authorizer.api.kafka_version import KafkaVersion
    from snapshot.jobs.changes.coverage import BrokerLevels
    from snapshot.jobs.changes.tables.access_rows import Periods


#: Names and exceptions that a row lists.
_NAMES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class SettingsAnalysis:
    """See snapshot.jobs.changes.tables.access_rows.AccessAnalysis.

    Attributes:
        settings: super users, allow.everyone.if.no.acl.found, and the release if it is configured; else
            it is that of the log's brokers.
        bounds: of one range; None: the default ones.
    """

    settings: AuthorizerSettings
    bounds: Bounds | None = None

    @classmethod
    def of_configs(cls, configs: Mapping[str, str]) -> Self:
        """The analysis of ``configs``, with the default bounds."""
        return cls(AuthorizerSettings.from_configs(configs))

    def configs(self) -> dict[str, str]:
        settings = self.settings
        configs = {
            SUPER_USERS_CONFIG: ";".join(sorted(settings.super_users)),
            ALLOW_EVERYONE_CONFIG: str(settings.allow_everyone).lower(),
        }
        if settings.kafka_version is not None:
            configs[KAFKA_VERSION_CONFIG] = settings.kafka_version.value
        return configs

    def needs_all_principals(self, changed: Collection[str]) -> bool:
        return needs_all_principals(changed, self.settings)

    def rows(
        self, periods: Periods, first: int, deferred: Collection[int], levels: Sequence[BrokerLevels]
    ) -> Iterator[dict[str, Any]]:
        for step in access_steps(
            AclPeriods(*periods),
            first,
            self.settings,
            self.bounds,
            deferred=deferred,
            settings_at=partial(settings_at, self.settings, levels),
        ):
            if step.is_deferred:
                yield {"offset": step.offset, "change": DEFERRED, "principal": _principal(step)}
                continue
            if step.offset in deferred:
                yield {"offset": step.offset, "change": ANALYSED}
            for change in step.changes:
                row = {
                    "offset": step.offset,
                    "change": change.direction,
                    "releases": change.releases,
                    **_class_row(change.request_class, has_all_excluded=not step.omitted_principals),
                }
                for operation in change.request_class.operations:
                    yield row | {"operation": operation.name}
            if step.omitted_principals or step.omitted_classes:
                yield _omitted(step)


def settings_at(
    settings: AuthorizerSettings, levels: Sequence[BrokerLevels], offset: int
) -> AuthorizerSettings:
    """The settings with the release at an offset: the configured one, else that of the log's brokers."""
    at = levels_at(levels, offset)
    brokers = {number: SupportedLevels(0, level) for number, level in enumerate(at.levels)}
    return settings.with_version_in_force(
        VersionInForce.of(settings.kafka_version, brokers, at.metadata_version)
    )


def _principal(step: AccessStep) -> str | None:
    return step.principals[0] if len(step.principals) == 1 else None


def _omitted(step: AccessStep) -> dict[str, Any]:
    return {
        "offset": step.offset,
        "change": OMITTED,
        "principal": _principal(step),
        "omitted_principals": step.omitted_principals,
        "omitted_classes": step.omitted_classes,
    }


def _class_row(requests: RequestClass, *, has_all_excluded: bool) -> dict[str, Any]:
    principals, hosts, witness = requests.principals, requests.hosts, requests.witness
    names, omitted = _names(requests.names)
    return {
        "principal": WILDCARD_PRINCIPAL if principals.principal is None else principals.principal,
        "excluded_principals": list(principals.excluded) if has_all_excluded else None,
        "resource_type": requests.resource_type.name,
        "names": names,
        "host": hosts.host or "*",
        "excluded_hosts": list(hosts.excluded),
        "witness": {
            "principal": witness.principal,
            "host": witness.host,
            "resource_name": witness.name,
        },
        "omitted_names": omitted,
    }


def _names(names: Sequence[NameSet]) -> tuple[list[dict[str, Any]], int]:
    """The names, and how many names and exceptions are not listed."""
    remaining, listed = _NAMES_MAX, []
    for text, is_name, excluded in names[:_NAMES_MAX]:
        if remaining <= 0:
            break
        shown = excluded[: remaining - 1]
        remaining -= 1 + len(shown)
        listed.append({**_name((text, is_name)), "excluded": list(map(_name, shown))})
    count = sum(1 + len(each.excluded) for each in names)
    return listed, count - (_NAMES_MAX - remaining)


def _name(key: Key) -> dict[str, Any]:
    text, is_name = key
    return {"name": text, "pattern_type": (PatternType.LITERAL if is_name else PatternType.PREFIXED).name}


@dataclass(frozen=True, slots=True)
class ReleaseHosts:
    """See snapshot.jobs.changes.tables.sql.HostRules.

    ``version`` overrides the release of the log's brokers; if neither is known, hosts are compared so that
    every release allows what is allowed.
    """

    version: KafkaVersion | None = None

    def rules(self, levels: Sequence[BrokerLevels]) -> Iterator[tuple[int, int, bool, bool]]:
        settings = AuthorizerSettings(kafka_version=self.version)
        begins = sorted({0, *(offset for each in levels for offset in (each.start, each.end))})
        for begin, end in pairwise((*begins, NO_END)):
            networks = settings_at(settings, levels, begin).networks
            yield begin, end, networks.allow, networks.deny

    def prefix(self, host: str) -> str | None:
        if not is_client_host(host, networks=True):
            return None
        network = network_of_host(host)
        if network is None or host == UNSPECIFIED:
            return host  # in no network
        bits = f"{network.prefix:0{network.length}b}" if network.length else ""
        return f"{4 if network.bits == EVERY_IPV4.bits else 6}{bits}"
