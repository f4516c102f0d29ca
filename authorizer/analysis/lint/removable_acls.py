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

from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import numpy as np

from authorizer.analysis.lint.acl_masks import AclMasks, masks_of_others
from authorizer.analysis.lint.acl_tree import EVERY_HOST, AclForest, DecidingRows
from authorizer.analysis.lint.ineffective_acls import ineffective_field
from authorizer.analysis.lint.removal_side_effects import (
    AllowEveryoneCoverage,
    explicit_operations,
    is_considered,
    substitutes_for,
)
from authorizer.analysis.permissions.acl_comparison import has_network_host
from authorizer.analysis.request_space.host_tree import AddressMask, covering_acls
from authorizer.analysis.request_space.patterns import PatternRows
from authorizer.api.ip_address import NETWORK_HOSTS
from authorizer.engine.index.masks import ALLOW_MASKS, EVERYTHING, decided_operations, denied_operations
from records.acl import AclOperation, ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

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


class Proof(NamedTuple):
    """Why an ACL can be removed.

    Attributes:
        by: the rows of the ACLs that are the reason; empty if there are none.
        keeps_by_resource_type: whether the answers of authorize-by-resource-type surely stay the same.
    """

    by: tuple[int, ...]
    keeps_by_resource_type: bool


class RemovableAcl(msgspec.Struct, gc=False):
    """An ACL that can be removed. Its proof is computed when it is read: few of many are shown.

    A garbage collection does not visit these objects, of which there are as many as findings.

    ``is_independent``: whether it can be removed first; if not, ``by`` is an ALLOW to remove before it.
    ``prove`` computes the proof; None: another search does.
    """

    row: int
    rule: RemovalRule
    is_independent: bool = True
    prove: Callable[[RemovableAcl], Proof] | None = None
    number: int = -1
    #: How many DENYs were removed before.
    removed: int = 0
    known_proof: Proof | None = None

    def without_proof(self, row: int) -> RemovableAcl:
        """Return the same ACL in a table where it has another row."""
        return RemovableAcl(row, self.rule, self.is_independent)

    @property
    def has_proof(self) -> bool:
        """Whether the proof is known or can be computed."""
        return self.known_proof is not None or self.prove is not None

    @property
    def proof(self) -> Proof:
        if self.known_proof is None:
            if self.prove is None:
                raise ValueError("this ACL has no proof")
            self.known_proof = self.prove(self)
        return self.known_proof

    @property
    def by(self) -> tuple[int, ...]:
        return self.proof.by

    @property
    def keeps_by_resource_type(self) -> bool:
        return self.proof.keeps_by_resource_type


def find_removable(
    table: AclTable,
    settings: AuthorizerSettings,
    keeps: Callable[[RemovableAcl], bool] = lambda _: False,
    rows: npt.NDArray[np.int64] | None = None,
) -> list[RemovableAcl]:
    """Return all ACLs that can be removed together, of a table without repeats.

    ``keeps`` is called for each removable ACL; the ACL is kept if it returns True. ``rows``: those among
    which to search, sorted; None: all.
    """
    return list(_Search(table, settings, keeps, np.arange(len(table)) if rows is None else rows))


class _Search:
    def __init__(
        self,
        table: AclTable,
        settings: AuthorizerSettings,
        keeps: Callable[[RemovableAcl], bool],
        searched: npt.NDArray[np.int64],
    ) -> None:
        self._table = table
        self._searched = searched
        self._keeps = keeps
        self._covers = AllowEveryoneCoverage(table) if settings.allow_everyone else None
        # If the release is unknown, ACLs for networks may or may not match: they are kept, and no other ACL
        # is removed because of them.
        is_known = settings.kafka_version is not None
        self._networks = settings.networks if is_known else NETWORK_HOSTS
        part = table if len(searched) == len(table) else table.take(searched)
        self._rows = rows = PatternRows.of(part, networks=self._networks)
        self._acls = DecidingRows(rows, networks=self._networks.deny)
        self._row_of: list[int] = searched[rows.positions].tolist()
        super_users = settings.super_users - {WILDCARD_PRINCIPAL}
        is_super = np.array([each in super_users for each in rows.principal_texts], np.bool_)
        self._super_user_rows = np.flatnonzero(is_super[rows.principals])
        self._not_super_users = np.flatnonzero(~is_super[rows.principals])
        is_open = (
            np.zeros(len(rows.positions), np.bool_) if is_known else has_network_host(part)[rows.positions]
        )
        self._considered = self._not_super_users[~is_open[self._not_super_users]]
        codes = {each: code for code, each in enumerate(rows.principal_texts)}
        self._no_principal = len(codes)
        self._wildcard = codes.get(WILDCARD_PRINCIPAL, self._no_principal)
        # In the order of their removal: a later proof must not use ACLs that were removed before.
        self._removed: dict[int, int] = {}
        # Resource types with ACLs for impossible names, which authorize-by-resource-type reads.
        self._types_with_impossible_names: set[int] = set()

    def __iter__(self) -> Iterator[RemovableAcl]:
        yield from self._ineffective()
        for number in self._super_user_rows.tolist():
            row = self._row_of[number]
            proof = self._proof(row, (), keeps_by_resource_type=True)
            found = RemovableAcl(row, "super-user", known_proof=proof)
            if self._try_remove(found):
                yield found
        is_allow = self._rows.masks & EVERYTHING != 0
        self._denying = self._considered[~is_allow[self._considered]]
        is_retained = is_allow.copy()
        candidates, is_shadowed = self._candidate_allows()
        is_retained[candidates] = False
        self._allowing = self._considered[is_retained[self._considered]]
        rules = self._rules_of(candidates, is_shadowed)
        prove = self._prove_allow
        for number, rule in zip(candidates.tolist(), rules, strict=True):
            found = RemovableAcl(self._row_of[number], rule, prove=prove, number=number)
            if self._is_kept(found):
                is_retained[number] = True
            else:
                yield found
        if self._acls.narrower:
            is_network = np.isin(self._acls.host_codes[self._allowing], [*self._acls.narrower])
            for number in self._narrow_first(self._allowing[is_network]).tolist():
                combination = self._allow_covered_in_parts(number)
                if combination is not None and self._try_remove(combination):
                    self._removed[number] = len(self._removed)
                    is_retained[number] = False
                    yield combination
        allows = self._not_super_users[is_allow[self._not_super_users]]
        self._retained, self._no_more_retained = allows[is_retained[allows]], allows[~is_retained[allows]]
        prove = self._prove_deny
        for number, clear_rule in self._candidate_denies():
            match clear_rule:
                case "redundant":
                    row, removed = self._row_of[number], len(self._removed)
                    deny: RemovableAcl | None = RemovableAcl(
                        row, "redundant", prove=prove, number=number, removed=removed
                    )
                case "idle-deny":
                    deny = self._idle_deny(number, None, is_read_by_type=False)
                case _:
                    deny = self._deny(number)
            if deny is not None and self._try_remove(deny):
                self._removed[number] = len(self._removed)
                yield deny

    @cached_property
    def _denies(self) -> AclForest:
        return AclForest(self._rows, self._acls, self._denying, is_shared=False)

    @cached_property
    def _allows(self) -> AclForest:
        """The ALLOWs that prove that others are removable."""
        return AclForest(self._rows, self._acls, self._allowing, is_shared=False)

    @cached_property
    def _retained_allows(self) -> tuple[AclForest, AclForest]:
        return self._by_principal_and_shared(self._retained)

    @cached_property
    def _removed_allows(self) -> tuple[AclForest, AclForest]:
        return self._by_principal_and_shared(self._no_more_retained)

    def _by_principal_and_shared(self, numbers: npt.NDArray[np.int64]) -> tuple[AclForest, AclForest]:
        one, other = (
            AclForest(self._rows, self._acls, numbers, is_shared=is_shared) for is_shared in (False, True)
        )
        return one, other

    def _try_remove(self, found: RemovableAcl) -> bool:
        """Whether it is removed: it is not the last ACL of its names, and the caller does not keep it."""
        return self._remove_if_covered(found.row) and not self._is_kept(found)

    def _remove_if_covered(self, row: int) -> bool:
        """Count an ACL as removed for `AllowEveryoneCoverage`, unless it is the last one of its names."""
        if self._covers is None:
            return True
        if not self._covers.is_covered_without(row):
            return False
        self._covers.remove(row)
        return True

    def _is_kept(self, found: RemovableAcl) -> bool:
        """Whether the caller keeps an ACL that counts as removed; then it counts as kept."""
        if not self._keeps(found):
            return False
        if self._covers is not None:
            self._covers.restore(found.row)
        return True

    def _ineffective(self) -> Iterator[RemovableAcl]:
        """The ACLs that `PatternRows` does not include."""
        ineffective = np.delete(self._searched, self._rows.positions)
        for row, record in zip(ineffective.tolist(), self._table.records(ineffective), strict=True):
            is_read_by_type = ineffective_field(
                record, networks=self._networks.of(record.permission_type)
            ) == "name" and is_considered(record)
            if is_read_by_type:
                self._types_with_impossible_names.add(record.resource_type)
            proof = self._proof(row, (), keeps_by_resource_type=not is_read_by_type)
            found = RemovableAcl(row, "dead", known_proof=proof)
            if self._try_remove(found):
                yield found

    def _candidate_allows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The removable ALLOWs, and whether DENYs deny all that each allows."""
        rows, numbers = self._rows, self._considered
        acls = AclMasks(rows, self._acls, numbers, self._wildcard)
        around = acls.around(numbers, includes_same=False)[acls.patterns.order]
        patterns, ordered = acls.patterns, numbers[acls.patterns.order]
        # Of ACLs that differ only in the operation, those with the fewest operations are removed first.
        order = np.lexsort((np.bitwise_count(rows.masks[ordered]), patterns.of_rows))
        ordered, masks = ordered[order], rows.masks[ordered[order]]
        is_removable, other_masks = _removable_by_others(masks, patterns.starts, around)
        found = np.flatnonzero(is_removable)
        allowed = masks[found] & EVERYTHING
        is_shadowed = allowed & ~denied_operations(other_masks[found]) == 0
        numbers = ordered[found]
        # In the order of patterns: with `_covers` the last ACLs of a name are kept.
        first = (
            np.minimum.reduceat(ordered, patterns.starts)[patterns.of_rows[found]] if len(found) else found
        )
        order = np.lexsort((first, rows.keys[numbers], rows.principals[numbers], rows.types[numbers]))
        numbers, is_shadowed = numbers[order], is_shadowed[order]
        if self._covers is not None:
            rows_of = map(self._row_of.__getitem__, numbers.tolist())
            is_covered = np.array([*map(self._remove_if_covered, rows_of)], np.bool_)
            numbers, is_shadowed = numbers[is_covered], is_shadowed[is_covered]
        return numbers, is_shadowed

    def _rules_of(
        self, numbers: npt.NDArray[np.int64], is_shadowed: npt.NDArray[np.bool_]
    ) -> list[RemovalRule]:
        rows = self._rows
        allows = AclMasks(rows, self._acls, self._allowing, self._wildcard)
        has_twin = (
            (rows.principals[numbers] != self._wildcard) & allows.have(numbers, principal=self._wildcard)
            | (self._acls.host_codes[numbers] != EVERY_HOST) & allows.have(numbers, host=EVERY_HOST)
            | (rows.keys[numbers] != _EVERY_NAME) & allows.have(numbers, key=_EVERY_NAME)
            | (rows.masks[numbers] != _ALLOW_ALL) & allows.have(numbers, mask=_ALLOW_ALL)
        )
        found: list[RemovalRule] = np.select(
            (is_shadowed, has_twin), ("shadowed", "broader-twin"), "redundant"
        ).tolist()
        return found

    def _candidate_denies(self) -> Iterator[tuple[int, str]]:
        """The DENYs that may be removable, the narrowest first, each with its rule.

        The rule is empty where it depends on the ACLs that were removed before.
        """
        numbers, rows, acls = self._narrow_first(self._denying), self._rows, self._acls
        if not len(numbers):
            return
        retained = AclMasks(
            rows, acls, self._retained[np.isin(self._retained, self._considered)], self._wildcard
        )
        every_host = AclMasks(
            rows,
            acls,
            np.sort(np.concatenate((self._retained, self._no_more_retained))),
            self._wildcard,
            by_host=False,
        )
        denied = denied_operations(rows.masks[numbers])
        broader, same = self._masks_of_other_denies(numbers)
        undenied = denied & ~denied_operations(broader | same)
        has_parts = np.isin(acls.host_codes[numbers], [*acls.narrower])
        # It is the only DENY of what an ALLOW at its pattern allows.
        is_required = undenied & retained.around(numbers, includes_same=True) != 0
        is_exact = (undenied != 0) & ~has_parts
        is_idle = (
            is_exact
            & (rows.keys[numbers] & 1 != 0)
            & (rows.principals[numbers] != self._wildcard)
            & (denied & every_host.around(numbers, includes_same=True) == 0)
        )
        # A broader DENY is checked later: none of them is removed yet.
        is_redundant = denied & ~denied_operations(broader) == 0
        rules = np.select((is_redundant, is_idle), ("redundant", "idle-deny"), "")
        is_candidate = is_redundant | ~(is_exact & is_required)
        yield from zip(numbers[is_candidate].tolist(), rules[is_candidate].tolist(), strict=True)

    def _masks_of_other_denies(
        self, numbers: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The union of the masks of broader DENYs, and of those that differ in the operation only."""
        denies = AclMasks(self._rows, self._acls, self._denying, self._wildcard)
        ordered = self._denying[denies.patterns.order]
        same = np.zeros(len(self._rows.masks), np.int64)
        same[ordered] = masks_of_others(self._rows.masks[ordered], denies.patterns.starts)
        return denies.around(numbers, includes_same=False), same[numbers]

    def _covering(self, number: int, forest: AclForest) -> list[int]:
        """The ACLs of a forest that are no narrower than this one, the broadest last."""
        acls = self._acls
        resource_type, principal_code = acls.types[number], acls.principals[number]
        key, host = acls.keys[number], acls.hosts[number]
        found = forest.tree(resource_type, principal_code).covering(key, host)
        if principal_code != self._wildcard:
            found += forest.tree(resource_type, self._wildcard).covering(key, host)
        return [each for each in found if each != number]

    def _prove_allow(self, found: RemovableAcl) -> Proof:
        """The proof that an ALLOW is removable: by DENYs, and by ALLOWs that are not removable."""
        number, rule = found.number, found.rule
        allowed = self._acls.masks[number] & EVERYTHING
        denies = self._covering(number, self._denies)
        if rule == "shadowed":
            return self._proof_by(number, self._choose(allowed, denies) or [], denies)
        allows = self._covering(number, self._allows)
        if rule == "broader-twin":
            twin = next(each for each in reversed(allows) if self._is_twin(each, number))
            return self._proof_by(number, [twin], [*allows, *denies])
        # ALLOWs are chosen first, DENYs for the rest.
        chosen = self._choose(allowed, [*denies, *allows])
        return self._proof_by(number, chosen or [], [*allows, *denies])

    def _allow_covered_in_parts(self, number: int) -> RemovableAcl | None:
        """The proof that ACLs for parts of a network make an ALLOW removable, or None."""
        acls = self._acls
        key, host = acls.keys[number], acls.hosts[number]
        parts = self._parts(number, key, host, acls.principals[number], (self._denies, self._allows))
        denies = [each for each in parts if not acls.masks[each.number] & EVERYTHING]
        rule: RemovalRule
        for rule, candidates in (("shadowed", denies), ("redundant", parts)):
            chosen = covering_acls(acls.networks[host], acls.masks[number] & EVERYTHING, candidates)
            if chosen is not None:
                return self._removable_by(number, rule, sorted(chosen), ())
        return None

    def _parts(
        self, number: int, key: int, host: int, principal_code: int, forests: Sequence[AclForest]
    ) -> list[AddressMask]:
        """The effects of other ACLs that cover a pattern on addresses of a network; none if none is narrower.

        ``number`` is the ACL that is not included.
        """
        acls, network = self._acls, self._acls.networks[host]
        trees = [
            forest.tree(acls.types[number], principal)
            for forest in forests
            for principal in dict.fromkeys((principal_code, self._wildcard))
        ]
        narrower = [[*tree.covering_in_part(key, host)] for tree in trees]
        found: list[AddressMask] = []
        for tree, in_part in zip(trees, narrower, strict=True) if any(narrower) else ():
            for other in (*tree.covering(key, host), *in_part):
                if other != number and other not in self._removed:
                    host_code = acls.hosts[other]
                    pattern = network if host_code == EVERY_HOST else acls.networks[host_code]
                    found.append(AddressMask(pattern, decided_operations(acls.masks[other]), other))
        return found

    def _other_denies(self, number: int, removed: int) -> list[int]:
        """The DENYs that are no narrower than one, without the first ``removed`` ones that were removed."""
        order = self._removed
        return [each for each in self._covering(number, self._denies) if order.get(each, removed) >= removed]

    def _prove_deny(self, found: RemovableAcl) -> Proof:
        number = found.number
        other_acls = self._other_denies(number, found.removed)
        chosen = self._choose(denied_operations(self._acls.masks[number]), other_acls)
        return self._proof_by(number, chosen or [], other_acls)

    def _deny(self, number: int) -> RemovableAcl | None:
        acls = self._acls
        denied_bits = denied_operations(acls.masks[number])
        other_acls = self._other_denies(number, len(self._removed))
        chosen = self._choose(denied_bits, other_acls)
        if chosen is not None:
            return self._removable_by(number, "redundant", chosen, other_acls)
        if acls.hosts[number] in acls.narrower:
            key, host = acls.keys[number], acls.hosts[number]
            parts = self._parts(number, key, host, acls.principals[number], (self._denies,))
            combination = covering_acls(acls.networks[host], denied_bits, parts)
            if combination is not None:
                return self._removable_by(number, "redundant", sorted(combination), other_acls)
        is_read_by_type = False
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
        return self._idle_deny(number, first, is_read_by_type=is_read_by_type)

    def _idle_deny(self, number: int, allow: int | None, *, is_read_by_type: bool) -> RemovableAcl:
        """A DENY that denies nothing, or only what a removable ALLOW allows."""
        row = self._row_of[number]
        by = () if allow is None else (self._row_of[allow],)
        is_read_by_type = is_read_by_type or self._acls.types[number] in self._types_with_impossible_names
        proof = self._proof(row, by, keeps_by_resource_type=not is_read_by_type)
        return RemovableAcl(row, "idle-deny", is_independent=allow is None, known_proof=proof)

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
        parts = self._parts(number, key, host, principal_code, (self._denies,))
        return covering_acls(acls.networks[host], rest, parts) is None

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
        proof = self._proof_by(number, chosen, other_acls)
        return RemovableAcl(self._row_of[number], rule, known_proof=proof)

    def _proof_by(self, number: int, chosen: list[int], other_acls: Iterable[int]) -> Proof:
        record = self._record(number)
        required_bits = explicit_operations(self._acls.masks[number]) if is_considered(record) else 0
        for each in other_acls:
            if required_bits & explicit_operations(self._acls.masks[each]) and substitutes_for(
                self._record(each), record
            ):
                required_bits &= ~explicit_operations(self._acls.masks[each])
        by = tuple(self._row_of[each] for each in chosen)
        return self._proof(self._row_of[number], by, keeps_by_resource_type=not required_bits)

    def _proof(self, row: int, by: tuple[int, ...], *, keeps_by_resource_type: bool) -> Proof:
        # Authorize-by-resource-type requests an impossible name of the cluster, which may be open to every
        # principal.
        is_cluster_probed = (
            self._covers is not None and self._table.resource_types[row] == ResourceType.CLUSTER
        )
        return Proof(by, keeps_by_resource_type and not is_cluster_probed)

    def _record(self, number: int) -> AccessControlEntryRecord:
        return self._table.acl(self._row_of[number]).record

    def _narrow_first(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        rows, acls = self._rows, self._acls
        keys, masks, hosts = rows.keys[numbers], rows.masks[numbers], acls.host_codes[numbers]
        lengths = np.fromiter(map(len, rows.texts), np.int64, len(rows.texts))
        network_lengths = np.zeros(len(rows.host_texts) + 1, np.int64)  # the last one is `EVERY_HOST`
        for host, network in acls.networks.items():
            network_lengths[host] = network.length
        order = np.lexsort(
            (
                numbers,
                np.bitwise_count(masks),
                -network_lengths[hosts],
                hosts == EVERY_HOST,
                -lengths[keys >> 1],
                keys & 1 == 0,
                rows.principals[numbers] == self._wildcard,
            )
        )
        return numbers[order]


def _removable_by_others(
    masks: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], around: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which ALLOWs are removable if those of a pattern are removed in order, and the masks of all others."""
    is_removable, other_masks = np.zeros(len(masks), np.bool_), around.copy()
    sizes = np.diff(starts, append=len(masks))
    # The ACLs with the same position in their patterns, at a time.
    positions: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    patterns = np.flatnonzero(sizes)
    while len(patterns):
        positions.append((patterns, starts[patterns] + len(positions)))
        patterns = patterns[sizes[patterns] > len(positions)]
    later = np.zeros(len(starts), np.int64)
    for patterns, at in reversed(positions):
        other_masks[at] |= later[patterns]
        later[patterns] |= masks[at]
    retained = np.zeros(len(starts), np.int64)
    for patterns, at in positions:
        other_masks[at] |= retained[patterns]
        allowed = masks[at] & EVERYTHING
        is_removable[at] = (allowed != 0) & (
            allowed & ~(other_masks[at] | denied_operations(other_masks[at])) == 0
        )
        retained[patterns] |= np.where(is_removable[at], 0, masks[at])
    return is_removable, other_masks
