"""An image made of the ACLs that are in force, for whatever is neither a log nor a stored snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from records.columns.acl_table import AppliedAcl
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def restore_image(
    acls: Iterable[AppliedAcl], *, features: Mapping[str, int], provenance: Provenance
) -> AclsImage:
    """The image that holds these ACLs and nothing else; the later one of two with one id (I8)."""
    delta = AclsDelta(AclsImage.EMPTY)
    delta.set_features(features)
    for acl in acls:
        delta.put(acl)
    return delta.apply(provenance)
