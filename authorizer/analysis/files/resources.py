"""Names of resources as files and flags write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from records.acl import ResourceType

if TYPE_CHECKING:
    from authorizer.analysis.name_space import Key

#: Resource types by the key of a file or the parameter of a flag.
RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}


def names_of(text: str) -> Key:
    """A name, or a prefix of names for ``NAME*``."""
    return (text[:-1], False) if text.endswith("*") else (text, True)
