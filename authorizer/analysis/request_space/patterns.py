"""Patterns of a table: by principal and resource type, the leaf of each name and prefix.

Only ACLs that can decide a request are included: their resource type, host and name can exist.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from authorizer.analysis.request_space.host_answers import is_client_host
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.api.ip_address import EXACT_HOSTS, NetworkRules
from authorizer.engine.index.masks import (
    ALLOW_MASKS,
    DENY_MASKS,
    PatternLeaf,
    add_to_leaf,
    host_reader,
    shared_masks,
)
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import CLUSTER_NAME, WILDCARD, AclPermissionType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from records.columns.acl_table import AclTable
    from records.columns.text_column import TextColumn

#: A prefix, or with True a single name, and the leaf of its ACLs; sorted as in `name_map`.
PatternEntry = tuple[str, bool, PatternLeaf]

_CODES: Final = 1 << 8
_MASKS: Final = {
    is_allow: np.array([masks.get(code, 0) for code in range(_CODES)], np.int64)
    for is_allow, masks in ((True, ALLOW_MASKS), (False, DENY_MASKS))
}


class Patterns(NamedTuple):
    """The patterns of one principal and resource type."""

    principal: str
    resource_type: ResourceType
    entries: list[PatternEntry]


def patterns_of(table: AclTable, *, networks: NetworkRules) -> Iterator[Patterns]:
    """Yield the patterns by principal and resource type; ``networks``: whether hosts may be networks."""
    rows = PatternRows.of(table, networks=networks)
    read = host_reader(networks=networks.deny)  # rows have no ALLOW for a host that cannot be a network
    order = np.lexsort((rows.keys, rows.types, rows.principals))
    keys, masks = rows.keys[order], rows.masks[order]
    groups = rows.principals[order] * len(ResourceType) + rows.types[order]
    is_group_start = np.diff(groups, prepend=-1) != 0
    starts = np.flatnonzero(is_group_start | (np.diff(keys, prepend=-1) != 0))
    if not len(starts):
        return
    hosts = rows.hosts[order]
    is_specific_host = np.array([host != WILDCARD for host in rows.host_texts], np.bool_)
    has_hosts = np.logical_or.reduceat(is_specific_host[hosts], starts)
    leaves: list[PatternLeaf] = list(shared_masks(np.bitwise_or.reduceat(masks, starts).tolist()))
    ends = np.append(starts[1:], len(order))
    for position in np.flatnonzero(has_hosts).tolist():
        rows_here = slice(starts[position], ends[position])
        leaf: PatternLeaf | None = None
        for host, mask in zip(hosts[rows_here].tolist(), masks[rows_here].tolist(), strict=True):
            leaf = add_to_leaf(leaf, read(rows.host_texts[host]), mask)
        leaves[position] = leaf or 0
    entries = [(*key, leaf) for key, leaf in zip(rows.key_texts(keys[starts]), leaves, strict=True)]
    firsts = np.flatnonzero(is_group_start[starts]).tolist()
    for first, end in pairwise((*firsts, len(entries))):
        principal, resource_type = divmod(groups[starts[first]].item(), len(ResourceType))
        yield Patterns(rows.principal_texts[principal], ResourceType(resource_type), entries[first:end])


def patterns_with_acls(table: AclTable) -> dict[ResourceType, list[Key]]:
    """Return every name and prefix of any principal's ACLs by resource type, sorted."""
    rows = PatternRows.of(table, networks=EXACT_HOSTS, only_deciding=False)
    return {each: list(rows.key_texts(np.unique(rows.keys[rows.types == int(each)]))) for each in NAME_SPACES}


class PatternRows(NamedTuple):
    """The included rows, by column; ``positions`` are their positions in the table.

    A row's key is twice the rank of its prefix or name among the sorted texts, and one more for a name: keys
    sort as a `name_space.Key` does.
    """

    positions: npt.NDArray[np.int64]
    types: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    texts: Sequence[str]
    principals: npt.NDArray[np.int64]
    principal_texts: Sequence[str]
    hosts: npt.NDArray[np.int32]
    host_texts: Sequence[str]
    masks: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: AclTable, *, networks: NetworkRules, only_deciding: bool = True) -> PatternRows:
        is_allow = table.permission_types == int(AclPermissionType.ALLOW)
        operations = table.operations.view(np.uint8)
        masks = np.where(is_allow, _MASKS[True][operations], _MASKS[False][operations])
        is_included = np.ones(len(table), np.bool_)
        if only_deciding:
            is_included &= masks != 0
            has_clients = {each: _has_clients(table.hosts, networks=each) for each in {*networks}}
            is_included &= np.where(is_allow, has_clients[networks.allow], has_clients[networks.deny])
            is_included &= table.principals.where(lambda principal: ":" in principal)
        keys, texts = _keys(table, is_included)
        is_included &= keys >= 0
        return cls(
            np.flatnonzero(is_included),
            table.resource_types[is_included].astype(np.int64),
            keys[is_included],
            texts,
            table.principals.codes[is_included].astype(np.int64),
            table.principals.texts,
            table.hosts.codes[is_included],
            table.hosts.texts,
            masks[is_included],
        )

    def key_texts(self, keys: npt.NDArray[np.int64]) -> Iterator[Key]:
        return zip(
            map(self.texts.__getitem__, (keys >> 1).tolist()),
            (keys & 1).astype(np.bool_).tolist(),
            strict=True,
        )


def _has_clients(hosts: TextColumn, *, networks: bool) -> npt.NDArray[np.bool_]:
    """Which rows have a host that a client can have."""
    return hosts.where(lambda host: host == WILDCARD or is_client_host(host, networks=networks))


def _keys(table: AclTable, is_included: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The key of each row, -1 if no resource can have the name; and the sorted texts."""
    names = table.names.texts
    texts = sorted({"", CLUSTER_NAME, *names})
    ranks = {text: rank for rank, text in enumerate(texts)}
    ranks_of_names = np.fromiter(map(ranks.__getitem__, names), np.int64, len(names))
    every_name = next((2 * code for code, name in enumerate(names) if name == WILDCARD), -1)
    keys = np.full(len(table), -1, np.int64)
    is_prefix = table.pattern_types != LITERAL_PATTERN
    for resource_type, space in NAME_SPACES.items():
        rows = np.flatnonzero(is_included & (table.resource_types == int(resource_type)))
        distinct, inverse = np.unique(table.names.codes[rows] * 2 + is_prefix[rows], return_inverse=True)
        found = 2 * ranks_of_names[distinct >> 1] + (distinct & 1 == 0)
        found[distinct == every_name] = 0
        if not space.has_only([names[each >> 1] for each in distinct.tolist() if each != every_name]):
            patterns = (space.pattern(names[each >> 1], is_prefix=each & 1) for each in distinct.tolist())
            keys_or_none = [-1 if each is None else 2 * ranks[each[0]] + each[1] for each in patterns]
            found = np.array(keys_or_none, np.int64)
        keys[rows] = found[inverse]
    return keys, texts
