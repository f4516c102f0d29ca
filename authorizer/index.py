"""AclIndex: all ACLs of one image, arranged for decisions. Immutable; the next shares what did not change.

    AclIndex
    |-- image                              the ACLs by id (snapshot.image)
    |-- resources[type]: ResourceIndex     by *name*, whoever an ACL is for: which ACLs cover a name? For the
    |   |-- literals  name   -> Bucket     default, the audit log, explanations and listings. A Bucket holds
    |   `-- prefixes  prefix -> Bucket     the ACLs: a small tuple, or a crowd by principal and host.
    `-- principals[principal type][principal name][type]: Rights
        |-- literals  name -> Leaf         by *principal*: what may it do? All that a decision reads. A Leaf
        |-- star      Leaf of literal "*"  is an int of allow and deny bits, or such an int for each host
        `-- prefixes  PrefixRanges         (authorizer.masks); the Leaf of all of a name's prefixes together
                                           is found by one bisection (authorizer.prefix_ranges).

A decision reads the Rights of two principals, the asker's and those of ``User:*``, and ors at most three
leaves of each. What a leaf says is worked out anew from its bucket whenever one of the ACLs there changes: a
removal needs no arithmetic, and an equal ACL under two ids is in force until both are gone (I8).

Building looks at each ACL once. ``advanced`` costs what changed, however large the rest is: no table with
many entries is ever copied (authorizer.overlay).

Codes: a resource type without a name counts as UNKNOWN, a pattern type other than LITERAL as PREFIXED, as
Kafka decides them (architecture.md 8.4). The principal's type ends at its first colon; an ACL principal
without one matches nobody, and is in `resources` only (8.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.buckets import SMALL_MAXIMUM, Bucket, CrowdedBucket, by_host, replacing
from authorizer.masks import ALLOW_MASKS, DENY_MASKS, Leaf, add_to_leaf, changed_leaf
from authorizer.overlay import Table, with_entries
from authorizer.prefix_ranges import PrefixRanges
from authorizer.resource_index import ResourceIndex
from authorizer.rights import Rights
from records.acl import WILDCARD, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from records.entries import AccessControlEntryRecord
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage, AppliedAcl

_TYPES: Final = len(ResourceType)
_LITERAL: Final = int(PatternType.LITERAL)
_ALLOW: Final = int(AclPermissionType.ALLOW)

#: Rights by resource type.
PrincipalRights = tuple[Rights | None, ...]
NO_RIGHTS: Final[PrincipalRights] = (None,) * _TYPES

_NO_NAMES: Final[dict[str, Leaf]] = {}
_NO_LEAVES: Final = Rights(_NO_NAMES, None)
_PATTERNS: Final = frozenset({int(PatternType.LITERAL), int(PatternType.PREFIXED)})
_PERMISSIONS: Final = frozenset({int(AclPermissionType.ALLOW), int(AclPermissionType.DENY)})

# A delta that changes more than this is not followed step by step: building anew is quicker.
_REBUILD_MINIMUM: Final = 1_000
_REBUILD_SHARE: Final = 8

# Where one ACL is: resource type, name, and whether that is a prefix.
_Place = tuple[int, str, bool]


class AclIndex:
    """See the module.

    Attributes:
        everyone: the rights of ``User:*``, kept apart because every question needs them.
        count: ACLs, by id.
        odd: for each resource type, how many ACLs have a pattern or permission type that is none of Kafka's
            four; masks decide them rightly, but authorize-by-resource-type has rules of its own for them.
    """

    __slots__ = ("count", "everyone", "image", "odd", "principals", "resources")

    def __init__(
        self,
        image: AclsImage,
        resources: tuple[ResourceIndex, ...],
        principals: Mapping[str, Table[str, PrincipalRights]],
        count: int,
        odd: tuple[int, ...],
    ) -> None:
        self.image = image
        self.resources = resources
        self.principals = principals
        self.everyone = principals.get("User", {}).get(WILDCARD) or NO_RIGHTS
        self.count = count
        self.odd = odd

    @classmethod
    def of(cls, image: AclsImage) -> AclIndex:
        """All of an image."""
        # A million times at worst. So the place is one number, the type or that + _TYPES for prefixes; small
        # buckets are the tuples that they will stay; and nothing is called that can be looked up.
        buckets: list[dict[str, tuple[AppliedAcl, ...] | list[AppliedAcl]]] = [{} for _ in range(2 * _TYPES)]
        leaves: dict[str, dict[int, dict[str, Leaf]]] = {}
        count = 0
        odd = [0] * _TYPES
        for acl in image:
            count += 1
            record = acl.record
            kind = record.resource_type
            if not 0 <= kind < _TYPES:
                kind = 0
            if record.pattern_type not in _PATTERNS or record.permission_type not in _PERMISSIONS:
                odd[kind] += 1
            if record.pattern_type != _LITERAL:
                kind += _TYPES
            name = record.resource_name
            bucket = buckets[kind].get(name)
            if bucket is None:
                buckets[kind][name] = (acl,)
            elif isinstance(bucket, list):
                bucket.append(acl)
            elif len(bucket) < SMALL_MAXIMUM:
                buckets[kind][name] = (*bucket, acl)
            else:
                buckets[kind][name] = [*bucket, acl]

            by_kind = leaves.get(record.principal)
            if by_kind is None:
                by_kind = leaves[record.principal] = {}
            by_name = by_kind.get(kind)
            if by_name is None:
                by_name = by_kind[kind] = {}
            masks = ALLOW_MASKS if record.permission_type == _ALLOW else DENY_MASKS
            mask = masks.get(record.operation, 0)
            leaf = by_name.get(name)
            if leaf is None and record.host == WILDCARD:
                by_name[name] = mask
            else:
                by_name[name] = add_to_leaf(leaf, record.host, mask)
        frozen = [_frozen(each) for each in buckets]
        return cls(
            image,
            tuple(map(ResourceIndex.of, frozen[:_TYPES], frozen[_TYPES:])),
            _principals(leaves),
            count,
            tuple(odd),
        )

    def advanced(self, delta: AclsDelta, image: AclsImage) -> AclIndex:
        """The index of ``image``, which is this one's image with the changes of ``delta``."""
        if len(delta.changes) > max(_REBUILD_MINIMUM, len(image) // _REBUILD_SHARE):
            return AclIndex.of(image)
        buckets: dict[_Place, Bucket | None] = {}
        touched: set[tuple[str, _Place, str]] = set()
        count, odd = self.count, list(self.odd)
        for before, after in delta.changed():
            for old, new in _in_place(before, after):
                record = (new or old).record  # type: ignore[union-attr] # one of the two is there
                kind, name, prefixed = place = _place(record)
                bucket = (
                    buckets[place] if place in buckets else self.resources[kind].get(name, prefixed=prefixed)
                )
                buckets[place] = replacing(bucket, old, new)
                touched.add((record.principal, place, record.host))
                change = (new is not None) - (old is not None)
                count += change
                odd[kind] += change * is_odd(record)
        return AclIndex(
            image,
            self._resources_with(buckets),
            self._principals_with(self._leaves(touched, buckets)),
            count,
            tuple(odd),
        )

    def rights_of(self, acl_principal: str) -> PrincipalRights | None:
        """What the ACLs for exactly this principal say; None if there are none, or it matches nobody."""
        principal_type, colon, name = acl_principal.partition(":")
        names = self.principals.get(principal_type) if colon else None
        return None if names is None else names.get(name)

    def _leaves(
        self, touched: Iterable[tuple[str, _Place, str]], buckets: Mapping[_Place, Bucket | None]
    ) -> dict[str, dict[_Place, Leaf | None]]:
        """The leaf of each touched place, by principal, as the new buckets have it."""
        leaves: dict[str, dict[_Place, Leaf | None]] = {}
        for principal, place, host in touched:
            here = leaves.setdefault(principal, {})
            leaf = here[place] if place in here else self._leaf(principal, place)
            here[place] = changed_leaf(leaf, by_host(buckets[place], principal), host)
        return leaves

    def _leaf(self, principal: str, place: _Place) -> Leaf | None:
        kind, name, prefixed = place
        mine = self.rights_of(principal)
        rights = None if mine is None else mine[kind]
        return None if rights is None else rights.get(name, prefixed=prefixed)

    def _resources_with(self, buckets: Mapping[_Place, Bucket | None]) -> tuple[ResourceIndex, ...]:
        by_kind: dict[int, dict[tuple[str, bool], Bucket | None]] = {}
        for (kind, name, prefixed), bucket in buckets.items():
            by_kind.setdefault(kind, {})[name, prefixed] = bucket
        resources = list(self.resources)
        for kind, of_kind in by_kind.items():
            resources[kind] = resources[kind].with_buckets(of_kind)
        return tuple(resources)

    def _principals_with(
        self, leaves: Mapping[str, Mapping[_Place, Leaf | None]]
    ) -> dict[str, Table[str, PrincipalRights]]:
        changes: dict[str, dict[str, PrincipalRights | None]] = {}
        for principal, by_place in leaves.items():
            split = split_principal(principal)
            if split is None:
                continue
            by_kind: dict[int, dict[tuple[str, bool], Leaf | None]] = {}
            for (kind, name, prefixed), leaf in by_place.items():
                by_kind.setdefault(kind, {})[name, prefixed] = leaf
            mine = list(self.rights_of(principal) or NO_RIGHTS)
            for kind, of_kind in by_kind.items():
                rights = mine[kind]
                mine[kind] = (_NO_LEAVES if rights is None else rights).with_leaves(of_kind)
            principal_type, name = split
            changes.setdefault(principal_type, {})[name] = (
                None if all(each is None for each in mine) else tuple(mine)
            )
        principals = dict(self.principals)
        for principal_type, by_name in changes.items():
            principals[principal_type] = with_entries(principals.get(principal_type, {}), by_name)
        return principals


def split_principal(principal: str) -> tuple[str, str] | None:
    """(type, name) of an ACL's principal; None without a colon, when it matches nobody."""
    principal_type, colon, name = principal.partition(":")
    return (principal_type, name) if colon else None


def _place(record: AccessControlEntryRecord) -> _Place:
    return (
        _known_type(record.resource_type),
        record.resource_name,
        record.pattern_type != _LITERAL,
    )


def _known_type(code: int) -> int:
    return code if 0 <= code < _TYPES else 0


def is_odd(record: AccessControlEntryRecord) -> bool:
    """Whether the pattern or permission type is one that only a filter has, or none that Kafka knows."""
    return record.pattern_type not in _PATTERNS or record.permission_type not in _PERMISSIONS


def _in_place(
    before: AppliedAcl | None, after: AppliedAcl | None
) -> tuple[tuple[AppliedAcl | None, AppliedAcl | None], ...]:
    """One ACL's change as changes of one bucket, principal and host each: out of the old, into the new."""
    if before is None or after is None:
        return ((before, after),)
    return ((before, None), (None, after))


def _frozen(buckets: dict[str, tuple[AppliedAcl, ...] | list[AppliedAcl]]) -> dict[str, Bucket]:
    """The same with crowds made of the lists; changes ``buckets``, which nearly always has none."""
    crowds = {name: CrowdedBucket.of(acls) for name, acls in buckets.items() if isinstance(acls, list)}
    buckets.update(crowds)  # type: ignore[arg-type]
    return buckets  # type: ignore[return-value]


def _principals(
    leaves: Mapping[str, Mapping[int, dict[str, Leaf]]],
) -> dict[str, dict[str, PrincipalRights]]:
    principals: dict[str, dict[str, PrincipalRights]] = {}
    for principal, by_kind in leaves.items():
        split = split_principal(principal)
        if split is None:
            continue
        mine: list[Rights | None] = [None] * _TYPES
        for kind in range(_TYPES):
            literals, prefixes = by_kind.get(kind), by_kind.get(kind + _TYPES)
            if literals or prefixes:
                mine[kind] = Rights(
                    _NO_NAMES if literals is None else literals,
                    None if prefixes is None else PrefixRanges.of(prefixes),
                )
        principal_type, name = split
        by_name = principals.setdefault(principal_type, {})
        by_name[name] = tuple(mine)
    return principals
