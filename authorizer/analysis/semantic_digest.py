"""The digest of a meaning, principal by principal: what says the same has the same, by whatever ACLs.

What a principal is answered depends on its own ACLs and on those for everybody. So after a change of other
principals' ACLs its digest is as it was, and that of the whole is made of all of them anew.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from authorizer.analysis.name_map import NameMap
    from records.acl import ResourceType

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
