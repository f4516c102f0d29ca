"""Where ``allow.everyone.if.no.acl.found`` opens what no ACL covers: whether an ACL can go without that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from authorizer.analysis.acl_tree import NOWHERE, Acls, AclTree, Forest
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.patterns import Rows
from authorizer.api.ip_network import EXACT_HOSTS

if TYPE_CHECKING:
    from records.columns.acl_table import AclTable


class LastCovers:
    """How many ACLs are left at each place: of all principals, and whether they can decide or not."""

    def __init__(self, table: AclTable) -> None:
        rows = Rows.of(table, networks=EXACT_HOSTS, only_deciding=False)
        forest = Forest(rows, Acls(rows, networks=False), np.arange(len(rows.at)), of_all=True)
        at = rows.at.tolist()
        self._places: dict[int, tuple[AclTree, int]] = {}
        self._left: dict[int, int] = {}
        for resource_type in NAME_SPACES:
            tree = forest.tree(resource_type)
            for place in range(tree.first, tree.end):
                numbers = tree.at(place)
                self._left[place] = len(numbers)
                self._places.update((at[number], (tree, place)) for number in numbers)

    def can_go(self, row: int) -> bool:
        """Whether others cover all that this ACL does."""
        if row not in self._places:
            return True
        tree, place = self._places[row]
        if self._left[place] > 1:
            return True
        while (place := tree.outer[place - tree.first]) != NOWHERE:
            if self._left[place]:
                return True
        return False

    def went(self, row: int, count: int = 1) -> None:
        """It is gone; with a count of -1 it is back."""
        if row in self._places:
            self._left[self._places[row][1]] -= count
