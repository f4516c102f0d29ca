"""Removable ACLs: each with its proof; without all of them together, every answer is the same.

The effect of an ALLOW and a DENY extends from a prefix to longer names, from every host to a named one and
from ``User:*`` to a principal. So:

- An ALLOW is removable exactly if ACLs that are no narrower allow or deny all that it allows.
- A DENY is removable if others deny the same, or if no overlapping ALLOW allows what it denies. ALLOWs are
  checked first: without one, a DENY may become removable, never the other way round.
- Narrow ACLs are removed and broad ones kept.
- An ACL for a network is also removable if others for parts of the network cover each of its addresses
  (`host_tree.covering_acls`): two DENYs of half networks equal one DENY.

The rest is irreducible: a needed ACL stays needed when others are removed. Exceptions, which keep more ACLs:

- Patterns with each of a topic's 65 characters after a prefix are not combined to that prefix.
- Networks are not combined to cover an ACL for every host (``*``), nor are single IPv6 addresses.
- With ``allow.everyone.if.no.acl.found`` the last ACL that covers a pattern is kept, even if it allows
  everything to every principal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from authorizer.analysis.acl_comparison import has_network_host
from authorizer.analysis.acl_tree import EVERY_HOST, AclForest, AclTree, DecidingRows
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

#: ``dead``: it can match no request. ``super-user``: its principal is allowed everything anyway.
#: ``shadowed``: an ALLOW whose requests are denied. ``broader-twin``: an ALLOW with an equal one that has a
#: wildcard in one field. ``redundant``: others have the same effects. ``idle-deny``: a DENY whose requests no
#: ALLOW allows.
RemovalRule = Literal["dead", "super-user", "shadowed", "broader-twin", "redundant", "idle-deny"]

# The literal `*` and the empty prefix: the empty text sorts first.
_EVERY_NAME: Final = 0
_ALLOW_ALL: Final = ALLOW_MASKS[int(AclOperation.ALL)]


class RemovableAcl(NamedTuple):
    """An ACL that can be removed.

    Attributes:
        row: its row in the table.
        rule: see `RemovalRule`.
        by: the rows of the ACLs that are the reason; empty if there are none.
        keeps_by_resource_type: whether the answers of authorize-by-resource-type surely stay the same.
        is_independent: whether it can be removed first; if not, ``by`` is an ALLOW to remove before it.
    """

    row: int
    rule: RemovalRule
    by: tuple[int, ...]
    keeps_by_resource_type: bool
    is_independent: bool = True


def find_removable(
    table: AclTable, settings: AuthorizerSettings, keeps: Callable[[RemovableAcl], bool] = lambda _: False
) -> list[RemovableAcl]:
    """Return all ACLs that can be removed together.

    Args:
        table: the ACLs, without repeats.
        settings: the super users, and the answer where no ACL covers a name.
        keeps: called for each removable ACL; the ACL is kept if it returns True.
    """
    return list(_Search(table, settings, keeps))


class _Search:
    def __init__(
        self, table: AclTable, settings: AuthorizerSettings, keeps: Callable[[RemovableAcl], bool]
    ) -> None:
        self._table = table
        self._keeps = keeps
        self._covers = AllowEveryoneCoverage(table) if settings.allow_everyone else None
        # If the release is unknown, ACLs for networks may or may not match: they are kept, and no other ACL
        # is removed because of them.
        is_known = settings.kafka_version is not None
        self._networks = settings.networks if is_known else NETWORK_HOSTS
        self._rows = rows = PatternRows.of(table, networks=self._networks)
        self._acls = DecidingRows(rows, networks=self._networks.deny)
        self._row_of: list[int] = rows.positions.tolist()
        super_users = settings.super_users - {WILDCARD_PRINCIPAL}
        is_super = np.array([each in super_users for each in rows.principal_texts], np.bool_)
        self._super_user_rows = np.flatnonzero(is_super[rows.principals])
        self._not_super_users = np.flatnonzero(~is_super[rows.principals])
        is_open = (
            np.zeros(len(rows.positions), np.bool_) if is_known else has_network_host(table)[rows.positions]
        )
        self._considered = self._not_super_users[~is_open[self._not_super_users]]
        codes = {each: code for code, each in enumerate(rows.principal_texts)}
        self._no_principal = len(codes)
        self._wildcard = codes.get(WILDCARD_PRINCIPAL, self._no_principal)
        self._removed: set[int] = set()
        # Resource types with ACLs for impossible names, which authorize-by-resource-type reads.
        self._types_with_impossible_names: set[int] = set()

    def __iter__(self) -> Iterator[RemovableAcl]:
        yield from self._ineffective()
        for number in self._super_user_rows.tolist():
            found = self._removable(self._row_of[number], "super-user", (), keeps_by_resource_type=True)
            if self._try_remove(found):
                yield found
        is_allow = self._rows.masks & EVERYTHING != 0
        candidates = dict(self._candidate_allows())
        is_retained = is_allow.copy()
        is_retained[[*candidates]] = False
        self._denies = AclForest(
            self._rows, self._acls, self._considered[~is_allow[self._considered]], is_shared=False
        )
        self._allows = AclForest(
            self._rows, self._acls, self._considered[is_retained[self._considered]], is_shared=False
        )
        for number, is_denied in candidates.items():
            found = self._allow(number, is_denied=is_denied)
            if self._keeps(found):
                is_retained[number] = True
                if self._covers is not None:
                    self._covers.restore(found.row)
            else:
                yield found
        of_networks = [each for each in self._allows.numbers if self._acls.hosts[each] in self._acls.narrower]
        for number in sorted(of_networks, key=self._breadth):
            combination = self._allow_covered_in_parts(number)
            if combination is not None and self._try_remove(combination):
                self._removed.add(number)
                is_retained[number] = False
                yield combination
        allows = self._not_super_users[is_allow[self._not_super_users]]
        retained, removed = allows[is_retained[allows]], allows[~is_retained[allows]]
        self._retained_allows, self._removed_allows = (
            tuple(AclForest(self._rows, self._acls, each, is_shared=is_shared) for is_shared in (False, True))
            for each in (retained, removed)
        )
        for number in sorted(self._denies.numbers, key=self._breadth):
            if (idle := self._deny(number)) is not None and self._try_remove(idle):
                self._removed.add(number)
                yield idle

    def _try_remove(self, found: RemovableAcl) -> bool:
        """Whether it is removed: it is not the last ACL of its names, and the caller does not keep it."""
        if (self._covers is not None and not self._covers.is_covered_without(found.row)) or self._keeps(
            found
        ):
            return False
        if self._covers is not None:
            self._covers.remove(found.row)
        return True

    def _ineffective(self) -> Iterator[RemovableAcl]:
        """The ACLs that `PatternRows` does not include."""
        is_ineffective = np.ones(len(self._table), np.bool_)
        is_ineffective[self._rows.positions] = False
        ineffective = np.flatnonzero(is_ineffective)
        for row, record in zip(ineffective.tolist(), self._table.records(ineffective), strict=True):
            is_read_by_type = ineffective_field(
                record, networks=self._networks.of(record.permission_type)
            ) == "name" and is_considered(record)
            if is_read_by_type:
                self._types_with_impossible_names.add(record.resource_type)
            found = self._removable(row, "dead", (), keeps_by_resource_type=not is_read_by_type)
            if self._try_remove(found):
                yield found

    def _candidate_allows(self) -> Iterator[tuple[int, bool]]:
        """The removable ALLOWs, and whether a DENY denies some of what each allows."""
        forest = AclForest(self._rows, self._acls, self._considered, is_shared=False)
        for resource_type, principal, tree in forest.ranges():
            wildcard = self._no_principal if principal == self._wildcard else self._wildcard
            wildcard_tree = forest.tree(resource_type, wildcard)
            for pattern in range(tree.first, tree.end):
                for number, is_denied in self._removable_at(
                    pattern, tree, wildcard_tree, forest.keys[pattern]
                ):
                    row = self._row_of[number]
                    if self._covers is not None:
                        if not self._covers.is_covered_without(row):
                            continue
                        self._covers.remove(row)
                    yield number, is_denied

    def _removable_at(
        self, pattern: int, tree: AclTree, wildcard_tree: AclTree, key: int
    ) -> Iterator[tuple[int, bool]]:
        masks, hosts = self._acls.masks, self._acls.hosts
        numbers = tree.acls_of(pattern)
        outer, pattern_around = tree.outer[pattern - tree.first], wildcard_tree.pattern_around(key)
        by_host: dict[int, list[int]] = {}
        every = 0
        for number in numbers:
            host = hosts[number]
            by_host.setdefault(host, []).append(number)
            if host == EVERY_HOST:
                every |= masks[number]
        for host, numbers_of_host in by_host.items():
            combined_mask = tree.combined_mask(outer, host) | wildcard_tree.combined_mask(
                pattern_around, host
            )
            if host != EVERY_HOST:
                combined_mask |= every
                for wider in self._acls.wider.get(host, ()):
                    for number in by_host.get(wider, ()):
                        combined_mask |= masks[number]
            if len(numbers_of_host) == 1:
                (number,) = numbers_of_host
                allowed = masks[number] & EVERYTHING
                if allowed and not allowed & ~decided_operations(combined_mask):
                    yield number, bool(allowed & denied_operations(combined_mask))
                continue
            # Of ACLs that differ only in the operation, those with the fewest operations are removed first.
            retained = sorted(numbers_of_host, key=lambda each: (masks[each].bit_count(), each))
            for number in tuple(retained):
                other_mask = combined_mask
                for each in retained:
                    if each != number:
                        other_mask |= masks[each]
                allowed = masks[number] & EVERYTHING
                if allowed and not allowed & ~decided_operations(other_mask):
                    retained.remove(number)
                    yield number, bool(allowed & denied_operations(other_mask))

    def _covering(self, number: int, forest: AclForest) -> list[int]:
        """The ACLs of a forest that are no narrower than this one, the broadest last."""
        acls = self._acls
        resource_type, principal_code = acls.types[number], acls.principals[number]
        key, host = acls.keys[number], acls.hosts[number]
        found = forest.tree(resource_type, principal_code).covering(key, host)
        if principal_code != self._wildcard:
            found += forest.tree(resource_type, self._wildcard).covering(key, host)
        return [each for each in found if each != number and each not in self._removed] if found else found

    def _allow(self, number: int, *, is_denied: bool) -> RemovableAcl:
        """The proof that an ALLOW is removable: by DENYs, and by retained ALLOWs."""
        masks = self._acls.masks
        allowed = masks[number] & EVERYTHING
        denies = self._covering(number, self._denies) if is_denied else []
        shadows = self._choose(allowed, denies)
        if shadows is not None:
            return self._removable_by(number, "shadowed", shadows, denies)
        allows = self._covering(number, self._allows)
        twin = next((each for each in reversed(allows) if self._is_twin(each, number)), None)
        if twin is not None:
            return self._removable_by(number, "broader-twin", [twin], [*allows, *denies])
        # ALLOWs are chosen first, DENYs for the rest.
        chosen = self._choose(allowed, [*denies, *allows])
        return self._removable_by(number, "redundant", chosen or [], [*allows, *denies])

    def _allow_covered_in_parts(self, number: int) -> RemovableAcl | None:
        """The proof that ACLs for parts of a network make an ALLOW removable, or None."""
        acls = self._acls
        key, host, principal_code = acls.keys[number], acls.hosts[number], acls.principals[number]
        denies = self._parts(key, host, acls.types[number], principal_code, self._denies)
        allows = self._parts(key, host, acls.types[number], principal_code, self._allows)
        allowed = acls.masks[number] & EVERYTHING
        chosen = covering_acls(
            acls.networks[host], allowed, [each for each in denies if each.number != number]
        )
        if chosen is not None:
            return self._removable_by(number, "shadowed", sorted(chosen), ())
        other_acls = [each for each in (*denies, *allows) if each.number != number]
        chosen = covering_acls(acls.networks[host], allowed, other_acls)
        return None if chosen is None else self._removable_by(number, "redundant", sorted(chosen), ())

    def _parts(
        self, key: int, host: int, resource_type: int, principal_code: int, forest: AclForest
    ) -> list[AddressMask]:
        """The effects of ACLs that cover a pattern on addresses of a network."""
        acls, network = self._acls, self._acls.networks[host]
        found = []
        for principal in dict.fromkeys((principal_code, self._wildcard)):
            tree = forest.tree(resource_type, principal)
            for number in (*tree.covering(key, host), *tree.covering_in_part(key, host)):
                if number not in self._removed:
                    host_code = acls.hosts[number]
                    pattern = network if host_code == EVERY_HOST else acls.networks[host_code]
                    found.append(AddressMask(pattern, decided_operations(acls.masks[number]), number))
        return found

    def _deny(self, number: int) -> RemovableAcl | None:
        """The proof that a DENY is removable, or None."""
        acls = self._acls
        denied_bits = denied_operations(acls.masks[number])
        other_acls = self._covering(number, self._denies)
        chosen = self._choose(denied_bits, other_acls)
        if chosen is not None:
            return self._removable_by(number, "redundant", chosen, other_acls)
        if acls.hosts[number] in acls.narrower:
            key, host = acls.keys[number], acls.hosts[number]
            parts = self._parts(key, host, acls.types[number], acls.principals[number], self._denies)
            combination = covering_acls(
                acls.networks[host], denied_bits, [each for each in parts if each.number != number]
            )
            if combination is not None:
                return self._removable_by(number, "redundant", sorted(combination), other_acls)
        is_read_by_type = acls.types[number] in self._types_with_impossible_names
        for allow in self._overlapping(number, denied_bits, self._retained_allows):
            if self._is_only_deny_of(number, allow):
                return None
            is_read_by_type = True
        first = next(
            (
                allow
                for allow in self._overlapping(number, denied_bits, self._removed_allows)
                if self._is_only_deny_of(number, allow)
            ),
            None,
        )
        by = () if first is None else (self._row_of[first],)
        idle = self._removable(
            self._row_of[number], "idle-deny", by, keeps_by_resource_type=not is_read_by_type
        )
        return idle._replace(is_independent=first is None)

    def _overlapping(self, number: int, bits: int, allows: tuple[AclForest, ...]) -> Iterator[int]:
        """The ALLOWs of any of these operations that share a name, a host and a principal with a DENY."""
        acls = self._acls
        key, host = acls.keys[number], acls.hosts[number]
        resource_type, principal_code = acls.types[number], acls.principals[number]
        by_principal, is_shared = allows
        if principal_code == self._wildcard:
            trees = [is_shared.tree(resource_type)]
        else:
            trees = [by_principal.tree(resource_type, each) for each in (principal_code, self._wildcard)]
        for tree in trees:
            yield from tree.overlapping(key, host, bits)

    def _is_only_deny_of(self, number: int, allow: int) -> bool:
        """Whether a DENY denies some of what an overlapping ALLOW allows, and no other DENY does."""
        acls, wildcard = self._acls, self._wildcard
        # The names, hosts and principals that both match.
        key = max(acls.keys[number], acls.keys[allow])
        host = acls.narrower_of(acls.hosts[number], acls.hosts[allow])
        principal_code = (
            acls.principals[allow] if acls.principals[number] == wildcard else acls.principals[number]
        )
        rest = acls.masks[allow] & denied_operations(acls.masks[number])
        for each in dict.fromkeys((principal_code, wildcard)):
            for other in self._denies.tree(acls.types[number], each).covering(key, host):
                if other != number and other not in self._removed:
                    rest &= ~denied_operations(acls.masks[other])
        if not rest or host not in acls.narrower:
            return bool(rest)
        parts = self._parts(key, host, acls.types[number], principal_code, self._denies)
        return (
            covering_acls(acls.networks[host], rest, [each for each in parts if each.number != number])
            is None
        )

    def _choose(self, required_bits: int, candidates: Iterable[int]) -> list[int] | None:
        """A few ACLs that together decide these operations, the last first; None if all together do not."""
        masks, chosen = self._acls.masks, []
        for each in reversed([*candidates]):
            if required_bits & decided_operations(masks[each]):
                chosen.append(each)
                required_bits &= ~decided_operations(masks[each])
                if not required_bits:
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

    def _removable_by(
        self, number: int, rule: RemovalRule, chosen: list[int], other_acls: Iterable[int]
    ) -> RemovableAcl:
        row = self._row_of[number]
        record = self._record(number)
        required_bits = explicit_operations(self._acls.masks[number]) if is_considered(record) else 0
        for each in other_acls:
            if required_bits & explicit_operations(self._acls.masks[each]) and substitutes_for(
                self._record(each), record
            ):
                required_bits &= ~explicit_operations(self._acls.masks[each])
        by = tuple(self._row_of[each] for each in chosen)
        return self._removable(row, rule, by, keeps_by_resource_type=not required_bits)

    def _removable(
        self, row: int, rule: RemovalRule, by: tuple[int, ...], *, keeps_by_resource_type: bool
    ) -> RemovableAcl:
        # Authorize-by-resource-type requests an impossible name of the cluster, which may be open to every
        # principal.
        is_cluster_probed = (
            self._covers is not None and self._table.resource_types[row] == ResourceType.CLUSTER
        )
        return RemovableAcl(
            row, rule, by, keeps_by_resource_type=keeps_by_resource_type and not is_cluster_probed
        )

    def _record(self, number: int) -> AccessControlEntryRecord:
        return self._table.acl(self._row_of[number]).record

    def _breadth(self, number: int) -> tuple[bool, bool, int, bool, int, int, int]:
        """Sort key: narrow ACLs before broad ones."""
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
