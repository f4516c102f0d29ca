"""How SQL functions compare hosts of ACLs: as the authorizer, by the release at an offset (KIP-1276)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from authorizer.analysis.request_space.host_answers import is_client_host
from authorizer.analysis.request_space.host_tree import UNSPECIFIED, network_of_host
from authorizer.api.ip_network import EVERY_IPV4
from authorizer.cli.spark.access_analysis import settings_at
from authorizer.engine.decisions.state import AuthorizerSettings
from snapshot.jobs.changes.tables.access_rows import NO_END

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.api.kafka_version import KafkaVersion
    from snapshot.jobs.changes.coverage import BrokerLevels


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
