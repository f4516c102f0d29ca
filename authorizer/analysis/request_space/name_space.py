"""Name space: the names of a resource type that can exist.

No request can have any other name: an ACL for it is ineffective, and no witness uses it.

- Topics: 1 to 249 of the characters ``a-z A-Z 0-9 . _ -``, but neither ``.`` nor ``..``.
- The cluster: only ``kafka-cluster``.
- Any other type: every text, also the empty one (the group of a simple consumer).

Source: org.apache.kafka.common.internals.Topic, org.apache.kafka.common.resource.Resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_letters, digits
from typing import Final

from records.acl import CLUSTER_NAME, WILDCARD, ResourceType
from records.topic_name import NO_TOPICS, TOPIC_CHARACTERS, TOPIC_LENGTH_MAX

#: A prefix, or with True a single name. A prefix sorts before the equal name, and before all that it covers.
Key = tuple[str, bool]

# People read witnesses: letters come first.
_FIRST_CHARACTERS: Final = ascii_letters[:26] + digits + "-_." + ascii_letters[26:]
# For types whose names may have any character.
_NEXT_CHARACTERS: Final = "~!#%&=@"
_SUFFIX_LENGTH_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class NameSpace:
    """The names of one resource type.

    Attributes:
        characters: the valid characters; None: all.
        max_length: in characters; None: no limit.
        reserved: names of valid characters that cannot exist.
    """

    characters: str | None = None
    max_length: int | None = None
    reserved: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Return whether a resource can have this name."""
        return self._is_text(name) and name not in self.reserved

    def pattern(self, name: str, *, is_prefix: bool) -> Key | None:
        """Return the key of the existing names that an ACL's name covers; None if it covers none.

        The literal ``*`` equals the empty prefix. A prefix of the maximum length is a name.
        """
        if name == WILDCARD and not is_prefix:
            return "", False
        if is_prefix:
            if not self._is_text(name):
                return None
            if len(name) != self.max_length:
                return name, False
        return (name, True) if self.has(name) else None

    def has_only(self, names: Sequence[str]) -> bool:
        """Return whether each text is a name of a resource, and a prefix of longer names."""
        if self.max_length is not None and max(map(len, names), default=0) >= self.max_length:
            return False
        if self.characters is not None:
            text = "".join(names)
            if not text.isascii() or text.encode("ascii").translate(None, self.characters.encode("ascii")):
                return False
        return self.reserved.isdisjoint(names)

    def shortest_name(self, prefix: str, excluded: Iterable[Key]) -> str | None:
        """Return the shortest name with this prefix that is no excluded name and has no excluded prefix.

        None if there is none among continuations by three characters, which are more than 200,000.
        """
        names = {name for name, is_name in excluded if is_name}
        prefixes = tuple(name for name, is_name in excluded if not is_name)
        characters = _FIRST_CHARACTERS if self.characters else _FIRST_CHARACTERS + _NEXT_CHARACTERS
        length_max = (
            _SUFFIX_LENGTH_MAX
            if self.max_length is None
            else min(_SUFFIX_LENGTH_MAX, self.max_length - len(prefix))
        )
        for length in range(length_max + 1):
            for suffix in product(characters, repeat=length):
                name = prefix + "".join(suffix)
                if self.has(name) and name not in names and not name.startswith(prefixes):
                    return name
        return None

    def _is_text(self, text: str) -> bool:
        if self.max_length is not None and len(text) > self.max_length:
            return False
        return self.characters is None or not text.strip(self.characters)


@dataclass(frozen=True, slots=True)
class SingleName(NameSpace):
    """The name space of a type with one resource."""

    name: str = CLUSTER_NAME

    def has(self, name: str) -> bool:
        return name == self.name

    def pattern(self, name: str, *, is_prefix: bool) -> Key | None:
        covers = self.name.startswith(name) if is_prefix else name in (self.name, WILDCARD)
        return (self.name, True) if covers else None

    def has_only(self, names: Sequence[str]) -> bool:
        return False  # a part of the name is no name

    def shortest_name(self, prefix: str, excluded: Iterable[Key]) -> str | None:
        is_allowed = all(
            self.name != name if is_name else not self.name.startswith(name) for name, is_name in excluded
        )
        return self.name if is_allowed and self.name.startswith(prefix) else None


#: The resource types that a request can have.
NAME_SPACES: Final[Mapping[ResourceType, NameSpace]] = {
    ResourceType.TOPIC: NameSpace(TOPIC_CHARACTERS, TOPIC_LENGTH_MAX, NO_TOPICS),
    ResourceType.GROUP: NameSpace(),
    ResourceType.CLUSTER: SingleName(),
    ResourceType.TRANSACTIONAL_ID: NameSpace(),
    ResourceType.DELEGATION_TOKEN: NameSpace(),
    ResourceType.USER: NameSpace(),
}
