"""Name space: the names of a resource type that can exist, and what a pattern covers of these.

No request can have any other name: an ACL for it is ineffective, and it can be no witness.

- Topics: 1 to 249 of the characters ``a-z A-Z 0-9 . _ -``, but neither ``.`` nor ``..``.
- The cluster: only ``kafka-cluster``.
- Any other type: every text, also the empty one (the group of a simple consumer).

Source: org.apache.kafka.common.internals.Topic, org.apache.kafka.common.resource.Resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Final

from records.acl import CLUSTER_NAME, WILDCARD, ResourceType
from records.topic_name import NO_TOPICS, TOPIC_CHARACTERS, TOPIC_LENGTH_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: A prefix, or with True a single name. A prefix sorts before the name that is equal, and before all that
#: begins with it.
Key = tuple[str, bool]

# Witnesses are for people: letters come first.
_TRIED_FIRST: Final = ascii_letters[:26] + digits + "-_." + ascii_letters[26:]
#: Where any character may be.
_TRIED_NEXT: Final = "~!#%&=@"
_TRIED_LENGTH: Final = 3


@dataclass(frozen=True, slots=True)
class NameSpace:
    """The names of one resource type.

    Attributes:
        characters: allowed in a name; None for all.
        max_length: in characters; None without a limit.
        never: names of allowed characters that still cannot exist.
    """

    characters: str | None = None
    max_length: int | None = None
    never: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Return whether a resource can have this name."""
        return self._is_text(name) and name not in self.never

    def pattern(self, name: str, *, is_prefix: bool) -> Key | None:
        """Return what an ACL's name covers, of names that can exist; None for nothing.

        The literal ``*`` covers what the empty prefix does. A prefix that nothing can follow is a name.
        """
        if name == WILDCARD and not is_prefix:
            return "", False
        if is_prefix:
            if not self._is_text(name):
                return None
            if len(name) != self.max_length:
                return name, False
        return (name, True) if self.has(name) else None

    def shortest(self, prefix: str, but: Iterable[Key]) -> str | None:
        """Return the shortest name with this prefix that is no excluded name and has no excluded prefix.

        None if there is none among continuations by three characters, which are more than 200,000.
        """
        names = {name for name, is_name in but if is_name}
        prefixes = tuple(name for name, is_name in but if not is_name)
        characters = _TRIED_FIRST if self.characters else _TRIED_FIRST + _TRIED_NEXT
        room = _TRIED_LENGTH if self.max_length is None else min(_TRIED_LENGTH, self.max_length - len(prefix))
        for length in range(room + 1):
            for more in product(characters, repeat=length):
                name = prefix + "".join(more)
                if self.has(name) and name not in names and not name.startswith(prefixes):
                    return name
        return None

    def _is_text(self, text: str) -> bool:
        if self.max_length is not None and len(text) > self.max_length:
            return False
        return self.characters is None or not text.strip(self.characters)


@dataclass(frozen=True, slots=True)
class OneName(NameSpace):
    """The name space of a type with one resource."""

    name: str = CLUSTER_NAME

    def has(self, name: str) -> bool:
        return name == self.name

    def pattern(self, name: str, *, is_prefix: bool) -> Key | None:
        covers = self.name.startswith(name) if is_prefix else name in (self.name, WILDCARD)
        return (self.name, True) if covers else None

    def shortest(self, prefix: str, but: Iterable[Key]) -> str | None:
        is_left = all(
            self.name != name if is_name else not self.name.startswith(name) for name, is_name in but
        )
        return self.name if is_left and self.name.startswith(prefix) else None


#: Of the resource types that a request can have.
NAME_SPACES: Final[Mapping[ResourceType, NameSpace]] = {
    ResourceType.TOPIC: NameSpace(TOPIC_CHARACTERS, TOPIC_LENGTH_MAX, NO_TOPICS),
    ResourceType.GROUP: NameSpace(),
    ResourceType.CLUSTER: OneName(),
    ResourceType.TRANSACTIONAL_ID: NameSpace(),
    ResourceType.DELEGATION_TOKEN: NameSpace(),
    ResourceType.USER: NameSpace(),
}
