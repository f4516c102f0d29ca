"""Meaning: what a set of ACLs answers to every question there can be, canonical and as short as it can be.

A question is a principal, a host, an operation and a resource that can exist. What everybody is answered is
said once for each resource type; of a principal only where it is answered otherwise. Two sets of ACLs have
equal meanings if and only if each question has the same answer.

Source: StandardAuthorizerData.authorize; `engine.decisions.authorize` answers one question alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec
import numpy as np

from authorizer.analysis.host_answers import Answer
from authorizer.analysis.name_map import NameMap
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.patterns import covered, patterns_of
from authorizer.analysis.wildcard_principal import Everybody
from records.acl import ResourceType

if TYPE_CHECKING:
    import numpy.typing as npt

    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.columns.acl_table import AclTable

#: ACLs for this principal are everybody's.
EVERYBODY: Final = "User:*"

Answers = NameMap[Answer]
Departures = NameMap[Answer | None]

#: Of the ACLs that are worked on at once where only the digest is wanted.
_SLICE_ROWS: Final = 20_000
_NONE: Final[Departures] = NameMap(None)


def never_cancelled() -> None:
    """For computations that nobody cancels."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """See the module.

    Attributes:
        everybody: for each resource type what a principal without ACLs of its own is answered.
        principals: of the others, as ``Type:name``, where they are answered otherwise, and how.
    """

    everybody: Mapping[ResourceType, Answers]
    principals: Mapping[str, Mapping[ResourceType, Departures]]

    @classmethod
    def of(
        cls,
        table: AclTable,
        settings: AuthorizerSettings,
        principals: Collection[str] | None = None,
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> Self:
        """From ACLs by column; of some principals and everybody, where not all are wanted.

        ``check_cancelled`` is called for each principal; what it raises ends the computation.
        """
        everybody = _everybody(table, settings)
        chosen = table if principals is None else of_principals(table, principals)
        found = dict(_departing(chosen, everybody, settings, check_cancelled))
        return cls(
            {each: theirs.answers for each, theirs in everybody.items()}, found | _supers(everybody, settings)
        )

    @staticmethod
    def digest_of(
        table: AclTable,
        settings: AuthorizerSettings,
        principals: Collection[str] | None = None,
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> MeaningDigest:
        """The digest alone, of some principals and everybody where not all are wanted.

        The meaning is never held as a whole, and other threads are not kept waiting for much of it.
        ``check_cancelled`` is as in `of`.
        """
        everybody = _everybody(table, settings)
        chosen = table if principals is None else of_principals(table, principals)
        found = {
            principal: digest_of(theirs)
            for part in _slices(chosen, check_cancelled)
            for principal, theirs in _departing(part, everybody, settings, check_cancelled)
        }
        found |= {principal: digest_of(theirs) for principal, theirs in _supers(everybody, settings).items()}
        return MeaningDigest(digest_of({each: theirs.answers for each, theirs in everybody.items()}), found)

    @staticmethod
    def digest_after(
        before: MeaningDigest,
        table: AclTable,
        settings: AuthorizerSettings,
        principals: Collection[str],
        *,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> MeaningDigest:
        """The digest of another table, in which the ACLs of these principals alone are others."""
        if EVERYBODY in principals:
            return Meaning.digest_of(table, settings, check_cancelled=check_cancelled)
        part = Meaning.digest_of(table, settings, principals, check_cancelled=check_cancelled)
        return before.changed(part, {*principals, *settings.super_users})

    def departures(self, principal: str, resource_type: ResourceType) -> Departures:
        """Where a principal is answered otherwise than everybody."""
        return self.principals.get(principal, {}).get(resource_type, _NONE)

    @property
    def digest(self) -> bytes:
        """16 bytes for all answers to all principals: equal if and only if each of them is."""
        principals = {principal: digest_of(theirs) for principal, theirs in self.principals.items()}
        return MeaningDigest(digest_of(self.everybody), principals).whole


def of_principals(table: AclTable, principals: Collection[str]) -> AclTable:
    """The ACLs for exactly these principals."""
    return table.taken(np.flatnonzero(is_of(table, principals)))


def is_of(table: AclTable, principals: Collection[str]) -> npt.NDArray[np.bool_]:
    """For each ACL whether it is for one of exactly these principals."""
    texts = table.principals.texts
    is_wanted = np.fromiter((text in principals for text in texts), np.bool_, len(texts))
    return is_wanted[table.principals.codes]


def _slices(table: AclTable, check_cancelled: Callable[[], None]) -> Iterator[AclTable]:
    """All rows, those of a principal together."""
    codes = table.principals.codes
    ends = np.cumsum(np.bincount(codes, minlength=len(table.principals.texts)))
    slice_of = ends // _SLICE_ROWS
    for each in np.unique(slice_of).tolist():
        check_cancelled()
        yield table.taken(np.flatnonzero(slice_of[codes] == each))


def _everybody(table: AclTable, settings: AuthorizerSettings) -> dict[ResourceType, Everybody]:
    patterns = patterns_of(of_principals(table, (EVERYBODY,)), networks=settings.networks)
    said = {each.resource_type: each.said for each in patterns}
    about = covered(table) if settings.allow_everyone else {}
    return {
        each: Everybody(said.get(each, ()), space, about.get(each)) for each, space in NAME_SPACES.items()
    }


def _departing(
    table: AclTable,
    everybody: Mapping[ResourceType, Everybody],
    settings: AuthorizerSettings,
    check_cancelled: Callable[[], None],
) -> Iterator[tuple[str, Mapping[ResourceType, Departures]]]:
    """Each principal that is answered otherwise than everybody somewhere; super users apart."""
    found: dict[str, dict[ResourceType, Departures]] = {}
    for principal, resource_type, said in patterns_of(table, networks=settings.networks):
        check_cancelled()
        if principal != EVERYBODY and principal not in settings.super_users:
            theirs = everybody[resource_type].departures(said)
            if theirs != _NONE:
                found.setdefault(principal, {})[resource_type] = theirs
    yield from found.items()


def _supers(
    everybody: Mapping[ResourceType, Everybody], settings: AuthorizerSettings
) -> dict[str, Mapping[ResourceType, Departures]]:
    """The super users, if they are answered otherwise than everybody."""
    supers = {each: theirs.to_everything() for each, theirs in everybody.items()}
    supers = {each: theirs for each, theirs in supers.items() if theirs != _NONE}
    return dict.fromkeys(settings.super_users, supers) if supers else {}


_DIGEST_BYTES: Final = 16


class MeaningDigest(NamedTuple):
    """See the module; 16 bytes each.

    Attributes:
        everybody: of what a principal without ACLs of its own is answered.
        principals: of where the others are answered otherwise, and how; none for one that is nowhere.
    """

    everybody: bytes
    principals: Mapping[str, bytes]

    @property
    def whole(self) -> bytes:
        """Of all answers to all principals: equal if and only if each of them is."""
        return _digest([self.everybody, sorted(self.principals.items())])

    def changed(self, part: MeaningDigest, principals: Collection[str]) -> MeaningDigest:
        """With ``part`` in place of what was of these principals, and of everybody."""
        kept = {each: digest for each, digest in self.principals.items() if each not in principals}
        return MeaningDigest(part.everybody, {**kept, **part.principals})


def digest_of(maps: Mapping[ResourceType, NameMap[Any]]) -> bytes:
    """Of what is said for each resource type."""
    return _digest([(int(each), maps[each].default, maps[each].places) for each in sorted(maps)])


def _digest(value: object) -> bytes:
    return blake2b(_encoder.encode(value), digest_size=_DIGEST_BYTES).digest()


_encoder: Final = msgspec.msgpack.Encoder()
