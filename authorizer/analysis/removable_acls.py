"""Removable ACLs: each with its proof, and all together, so that the rest gives the same answers.

The effect of an ALLOW and a DENY extends from a prefix to what is below it, from every host to a named one
and from ``User:*`` to a principal. So an ALLOW is removable exactly if all its effects are covered by other
ACLs that are no narrower, or are denied. A DENY is removable if others deny the same, or if no
overlapping ALLOW allows what it denies. ALLOWs come first: without one, a DENY may become removable, never
the other way round. Narrow ACLs are removed and broad ones kept. Of the rest, an ACL for a network is removed
if others for parts of the network cover each of its addresses (`host_tree.covering_acls`): two DENYs of
half networks equal one DENY. The rest is irreducible: a needed ACL stays needed when others are removed.

Exceptions, all of which keep more ACLs:

- The effects of patterns with each of a topic's 65 characters after a prefix are not combined.
- Networks are not combined to cover an ACL for every host (``*``), nor are single IPv6 addresses.
- With ``allow.everyone.if.no.acl.found`` the last ACL that covers a pattern is kept, even if it allows
  everything to every principal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from authorizer.analysis.acl_comparison import for_networks
from authorizer.analysis.acl_tree import EVERY_HOST, AclForest, AclTree, DecidingAcls
from authorizer.analysis.host_tree import AddressMask, covering_acls
from authorizer.analysis.ineffective_acls import ineffective_field
from authorizer.analysis.patterns import PatternRows
from authorizer.analysis.removal_side_effects import (
    AllowEveryoneCoverage,
    explicit_operations,
    is_considered,
    substitutes_for,
)
from authorizer.api.ip_network import NETWORK_HOSTS
from authorizer.engine.index.masks import ALLOW_MASKS, EVERYTHING, decided_operations, denied_operations
from records.acl import AclOperation, ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord

#: ``dead``: it can match no request. ``super-user``: who it is for is allowed everything anyway.
#: ``shadowed``: an ALLOW of what is denied. ``broader-twin``: an ALLOW that is there a second time, with a
#: wildcard in one of its fields. ``redundant``: others say the same. ``idle-deny``: a DENY of what no
#: ALLOW allows.
RemovalRule = Literal["dead", "super-user", "shadowed", "broader-twin", "redundant", "idle-deny"]

# The literal `*` and the empty prefix: the empty text sorts first.
_EVERY_NAME: Final = 0
_ALLOW_ALL: Final = ALLOW_MASKS[int(AclOperation.ALL)]


class RemovableAcl(NamedTuple):
    """An ACL that can be removed.

    Attributes:
        row: of the table.
        why: see `RemovalRule`.
        by: the rows that are the reason; empty where no other ACL is.
        keeps_by_resource_type: whether authorize-by-resource-type surely gives the same answers without it.
        alone: whether it can be removed whatever else is; if not, ``by`` is an ALLOW to remove first.
    """

    row: int
    why: RemovalRule
    by: tuple[int, ...]
    keeps_by_resource_type: bool
    alone: bool = True


def find_removable(
    table: AclTable, settings: AuthorizerSettings, keeps: Callable[[RemovableAcl], bool] = lambda _: False
) -> list[RemovableAcl]:
    """Return all ACLs that can be removed together.

    Args:
        table: without repeats.
        settings: the super users, and what no ACL covers.
        keeps: called for each ACL before its removal; those for which it returns True are kept.
    """
    return list(_Search(table, settings, keeps))


class _Search:
    def __init__(
        self, table: AclTable, settings: AuthorizerSettings, keeps: Callable[[RemovableAcl], bool]
    ) -> None:
        self._table = table
        self._keeps = keeps
        self._covers = AllowEveryoneCoverage(table) if settings.allow_everyone else None
        # Where the release is not known, ACLs for networks may or may not match: they stay, and are no reason
        # for another one to go.
        is_known = settings.kafka_version is not None
        self._networks = settings.networks if is_known else NETWORK_HOSTS
        self._rows = rows = PatternRows.of(table, networks=self._networks)
        self._acls = DecidingAcls(rows, networks=self._networks.deny)
        self._at: list[int] = rows.at.tolist()
        supers = settings.super_users - {WILDCARD_PRINCIPAL}
        is_super = np.array([each in supers for each in rows.principal_texts], np.bool_)
        self._of_supers = np.flatnonzero(is_super[rows.principals])
        self._not_super_users = np.flatnonzero(~is_super[rows.principals])
        is_open = np.zeros(len(rows.at), np.bool_) if is_known else for_networks(table)[rows.at]
        self._judged = self._not_super_users[~is_open[self._not_super_users]]
        codes = {each: code for code, each in enumerate(rows.principal_texts)}
        self._nobody = len(codes)
        self._wildcard = codes.get(WILDCARD_PRINCIPAL, self._nobody)
        self._removed: set[int] = set()
        # Those with ACLs for names that cannot exist, to which authorize-by-resource-type listens.
        self._by_type_types: set[int] = set()

    def __iter__(self) -> Iterator[RemovableAcl]:
        yield from self._ineffective()
        for number in self._of_supers.tolist():
            found = self._removable(self._at[number], "super-user", (), keeps_by_resource_type=True)
            if self._try_remove(found):
                yield found
        is_allow = self._rows.masks & EVERYTHING != 0
        candidates = dict(self._candidate_allows())
        is_kept = is_allow.copy()
        is_kept[[*candidates]] = False
        self._denies = AclForest(self._rows, self._acls, self._judged[~is_allow[self._judged]], of_all=False)
        self._allows = AclForest(self._rows, self._acls, self._judged[is_kept[self._judged]], of_all=False)
        for number, is_denied in candidates.items():
            found = self._allow(number, is_denied=is_denied)
            if self._keeps(found):
                is_kept[number] = True
                if self._covers is not None:
                    self._covers.restore(found.row)
            else:
                yield found
        of_networks = [each for each in self._allows.numbers if self._acls.hosts[each] in self._acls.narrower]
        for number in sorted(of_networks, key=self._breadth):
            united = self._united_allow(number)
            if united is not None and self._try_remove(united):
                self._removed.add(number)
                is_kept[number] = False
                yield united
        allows = self._not_super_users[is_allow[self._not_super_users]]
        left, removed = allows[is_kept[allows]], allows[~is_kept[allows]]
        self._allows_left, self._allows_removed = (
            tuple(AclForest(self._rows, self._acls, each, of_all=of_all) for of_all in (False, True))
            for each in (left, removed)
        )
        for number in sorted(self._denies.numbers, key=self._breadth):
            if (idle := self._deny(number)) is not None and self._try_remove(idle):
                self._removed.add(number)
                yield idle

    def _try_remove(self, found: RemovableAcl) -> bool:
        """Whether it can be left out, and does not stay for another reason."""
        if (self._covers is not None and not self._covers.is_covered_without(found.row)) or self._keeps(
            found
        ):
            return False
        if self._covers is not None:
            self._covers.remove(found.row)
        return True

    def _ineffective(self) -> Iterator[RemovableAcl]:
        """What `PatternRows` leaves out."""
        is_ineffective = np.ones(len(self._table), np.bool_)
        is_ineffective[self._rows.at] = False
        ineffective = np.flatnonzero(is_ineffective)
        for row, record in zip(ineffective.tolist(), self._table.records(ineffective), strict=True):
            is_read_by_type = ineffective_field(
                record, networks=self._networks.of(record.permission_type)
            ) == "name" and is_considered(record)
            if is_read_by_type:
                self._by_type_types.add(record.resource_type)
            found = self._removable(row, "dead", (), keeps_by_resource_type=not is_read_by_type)
            if self._try_remove(found):
                yield found

    def _candidate_allows(self) -> Iterator[tuple[int, bool]]:
        """Each, and whether a DENY is about some of what it allows."""
        forest = AclForest(self._rows, self._acls, self._judged, of_all=False)
        for resource_type, principal, tree in forest.ranges():
            wildcard = self._nobody if principal == self._wildcard else self._wildcard
            wildcard_tree = forest.tree(resource_type, wildcard)
            for place in range(tree.first, tree.end):
                for number, is_denied in self._removable_at(place, tree, wildcard_tree, forest.keys[place]):
                    row = self._at[number]
                    if self._covers is not None:
                        if not self._covers.is_covered_without(row):
                            continue
                        self._covers.remove(row)
                    yield number, is_denied

    def _removable_at(
        self, place: int, tree: AclTree, wildcard_tree: AclTree, key: int
    ) -> Iterator[tuple[int, bool]]:
        masks, hosts = self._acls.masks, self._acls.hosts
        numbers = tree.at(place)
        outer, pattern_around = tree.outer[place - tree.first], wildcard_tree.pattern_around(key)
        by_host: dict[int, list[int]] = {}
        every = 0
        for number in numbers:
            host = hosts[number]
            by_host.setdefault(host, []).append(number)
            if host == EVERY_HOST:
                every |= masks[number]
        for host, here in by_host.items():
            combined_mask = tree.combined_mask(outer, host) | wildcard_tree.combined_mask(
                pattern_around, host
            )
            if host != EVERY_HOST:
                combined_mask |= every
                for wider in self._acls.wider.get(host, ()):
                    for number in by_host.get(wider, ()):
                        combined_mask |= masks[number]
            if len(here) == 1:
                allowed = masks[here[0]] & EVERYTHING
                if allowed and not allowed & ~decided_operations(combined_mask):
                    yield here[0], bool(allowed & denied_operations(combined_mask))
                continue
            # Of ACLs that differ in the operation alone those with the fewest go first.
            left = sorted(here, key=lambda each: (masks[each].bit_count(), each))
            for number in tuple(left):
                other_mask = combined_mask
                for each in left:
                    if each != number:
                        other_mask |= masks[each]
                allowed = masks[number] & EVERYTHING
                if allowed and not allowed & ~decided_operations(other_mask):
                    left.remove(number)
                    yield number, bool(allowed & denied_operations(other_mask))

    def _covering(self, number: int, forest: AclForest) -> list[int]:
        """The ACLs of a forest that are no narrower than this one, the broadest last."""
        acls = self._acls
        resource_type, whose = acls.types[number], acls.principals[number]
        key, host = acls.keys[number], acls.hosts[number]
        found = forest.tree(resource_type, whose).covering(key, host)
        if whose != self._wildcard:
            found += forest.tree(resource_type, self._wildcard).covering(key, host)
        return [each for each in found if each != number and each not in self._removed] if found else found

    def _allow(self, number: int, *, is_denied: bool) -> RemovableAcl:
        """Why an ALLOW is removable: by DENYs, and by needed ALLOWs."""
        masks = self._acls.masks
        allowed = masks[number] & EVERYTHING
        denies = self._covering(number, self._denies) if is_denied else []
        shadows = self._chosen(allowed, denies)
        if shadows is not None:
            return self._found(number, "shadowed", shadows, denies)
        allows = self._covering(number, self._allows)
        twin = next((each for each in reversed(allows) if self._is_twin(each, number)), None)
        if twin is not None:
            return self._found(number, "broader-twin", [twin], [*allows, *denies])
        # Those that allow come first: a DENY is named for what no other ACL allows.
        chosen = self._chosen(allowed, [*denies, *allows])
        return self._found(number, "redundant", chosen or [], [*allows, *denies])

    def _united_allow(self, number: int) -> RemovableAcl | None:
        """Why an ALLOW for a network is removable by ACLs for parts of it; None if it is not."""
        acls = self._acls
        key, host, whose = acls.keys[number], acls.hosts[number], acls.principals[number]
        denies = self._parts(key, host, acls.types[number], whose, self._denies)
        allows = self._parts(key, host, acls.types[number], whose, self._allows)
        allowed = acls.masks[number] & EVERYTHING
        chosen = covering_acls(
            acls.networks[host], allowed, [each for each in denies if each.number != number]
        )
        if chosen is not None:
            return self._found(number, "shadowed", sorted(chosen), ())
        other_acls = [each for each in (*denies, *allows) if each.number != number]
        chosen = covering_acls(acls.networks[host], allowed, other_acls)
        return None if chosen is None else self._found(number, "redundant", sorted(chosen), ())

    def _parts(
        self, key: int, host: int, resource_type: int, whose: int, forest: AclForest
    ) -> list[AddressMask]:
        """What ACLs that cover a place say to addresses of a network."""
        acls, network = self._acls, self._acls.networks[host]
        found = []
        for principal in dict.fromkeys((whose, self._wildcard)):
            tree = forest.tree(resource_type, principal)
            for number in (*tree.covering(key, host), *tree.covering_in_part(key, host)):
                if number not in self._removed:
                    host_code = acls.hosts[number]
                    place = network if host_code == EVERY_HOST else acls.networks[host_code]
                    found.append(AddressMask(place, decided_operations(acls.masks[number]), number))
        return found

    def _deny(self, number: int) -> RemovableAcl | None:
        """Why a DENY is removable; None if it is not."""
        acls = self._acls
        denied_bits = denied_operations(acls.masks[number])
        other_acls = self._covering(number, self._denies)
        chosen = self._chosen(denied_bits, other_acls)
        if chosen is not None:
            return self._found(number, "redundant", chosen, other_acls)
        if acls.hosts[number] in acls.narrower:
            key, host = acls.keys[number], acls.hosts[number]
            parts = self._parts(key, host, acls.types[number], acls.principals[number], self._denies)
            united = covering_acls(
                acls.networks[host], denied_bits, [each for each in parts if each.number != number]
            )
            if united is not None:
                return self._found(number, "redundant", sorted(united), other_acls)
        is_read_by_type = acls.types[number] in self._by_type_types
        for allow in self._overlapping(number, denied_bits, self._allows_left):
            if self._denies_alone(number, allow):
                return None
            is_read_by_type = True
        first = next(
            (
                allow
                for allow in self._overlapping(number, denied_bits, self._allows_removed)
                if self._denies_alone(number, allow)
            ),
            None,
        )
        by = () if first is None else (self._at[first],)
        idle = self._removable(self._at[number], "idle-deny", by, keeps_by_resource_type=not is_read_by_type)
        return idle._replace(alone=first is None)

    def _overlapping(self, number: int, bits: int, allows: tuple[AclForest, ...]) -> Iterator[int]:
        """The ALLOWs of some of these operations that share a name, a host and a principal with a DENY."""
        acls = self._acls
        key, host = acls.keys[number], acls.hosts[number]
        resource_type, whose = acls.types[number], acls.principals[number]
        by_principal, of_all = allows
        if whose == self._wildcard:
            trees = [of_all.tree(resource_type)]
        else:
            trees = [by_principal.tree(resource_type, each) for each in (whose, self._wildcard)]
        for tree in trees:
            yield from tree.overlapping(key, host, bits)

    def _denies_alone(self, number: int, allow: int) -> bool:
        """Whether a DENY denies some of what an overlapping ALLOW allows, and no other DENY does."""
        acls, wildcard = self._acls, self._wildcard
        # The names, hosts and principals of both, of which nothing narrower is said.
        key = max(acls.keys[number], acls.keys[allow])
        host = acls.narrower_of(acls.hosts[number], acls.hosts[allow])
        whose = acls.principals[allow] if acls.principals[number] == wildcard else acls.principals[number]
        rest = acls.masks[allow] & denied_operations(acls.masks[number])
        for each in dict.fromkeys((whose, wildcard)):
            for other in self._denies.tree(acls.types[number], each).covering(key, host):
                if other != number and other not in self._removed:
                    rest &= ~denied_operations(acls.masks[other])
        if not rest or host not in acls.narrower:
            return bool(rest)
        parts = self._parts(key, host, acls.types[number], whose, self._denies)
        return (
            covering_acls(acls.networks[host], rest, [each for each in parts if each.number != number])
            is None
        )

    def _chosen(self, wanted: int, among: Iterable[int]) -> list[int] | None:
        """A few ACLs that together settle these operations, the last first; None if all of them do not."""
        masks, chosen = self._acls.masks, []
        for each in reversed([*among]):
            if wanted & decided_operations(masks[each]):
                chosen.append(each)
                wanted &= ~decided_operations(masks[each])
                if not wanted:
                    return chosen
        return None

    def _is_twin(self, other: int, number: int) -> bool:
        """Whether ``other`` differs in one field, in which it has a wildcard."""
        acls = self._acls
        wider = 0
        for column, wildcard in (
            (acls.principals, self._wildcard),
            (acls.hosts, EVERY_HOST),
            (acls.keys, _EVERY_NAME),
            (acls.masks, _ALLOW_ALL),
        ):
            if column[other] != column[number]:
                if column[other] != wildcard:
                    return False
                wider += 1
        return wider == 1

    def _found(
        self, number: int, why: RemovalRule, chosen: list[int], other_acls: Iterable[int]
    ) -> RemovableAcl:
        row = self._at[number]
        record = self._record(number)
        wanted = explicit_operations(self._acls.masks[number]) if is_considered(record) else 0
        for each in other_acls:
            if wanted & explicit_operations(self._acls.masks[each]) and substitutes_for(
                self._record(each), record
            ):
                wanted &= ~explicit_operations(self._acls.masks[each])
        by = tuple(self._at[each] for each in chosen)
        return self._removable(row, why, by, keeps_by_resource_type=not wanted)

    def _removable(
        self, row: int, why: RemovalRule, by: tuple[int, ...], *, keeps_by_resource_type: bool
    ) -> RemovableAcl:
        # Authorize-by-resource-type asks for a name, also of the cluster, that only other types can have; and
        # what no ACL covers may be open.
        is_cluster_probed = (
            self._covers is not None and self._table.resource_types[row] == ResourceType.CLUSTER
        )
        return RemovableAcl(
            row, why, by, keeps_by_resource_type=keeps_by_resource_type and not is_cluster_probed
        )

    def _record(self, number: int) -> AccessControlEntryRecord:
        return self._table.acl(self._at[number]).record

    def _breadth(self, number: int) -> tuple[bool, bool, int, bool, int, int, int]:
        """Sorts narrow ACLs before broad ones."""
        acls = self._acls
        key, mask = acls.keys[number], acls.masks[number]
        return (
            acls.principals[number] == self._wildcard,
            not key & 1,
            -len(acls.texts[key >> 1]),
            acls.hosts[number] == EVERY_HOST,
            -len(acls.wider.get(acls.hosts[number], ())),
            mask.bit_count(),
            number,
        )
