"""Whom to ask: what is known of the quorum's leader, from answers alone (KIP-595, KIP-853).

A controller that does not lead says who does, as far as it knows. An epoch never goes back, and has one
leader at most. Who cannot be reached is not asked again before the next of the controllers that are known
was: it may name another leader, or be it under an address that can be reached (KAFKA-20514). Known are those
that were given, and those that answers named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from records.log.bootstrap_servers import Address
    from records.log.protocol.answers import Leader

#: Of the controllers that are known: no quorum has more.
_KNOWN_MAX: Final = 32


class Leadership:
    """What was learned so far. Not thread-safe.

    Attributes:
        epoch: the newest that any answer named; 0 at first, which no leader has.
        node_id: of its leader, if known.
    """

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self.epoch = 0
        self.node_id: int | None = None
        self._known = list(bootstrap)
        self._turn = 0
        self._named: Address | None = None

    @property
    def address(self) -> Address:
        """Whom to ask now."""
        return self._named or self._known[self._turn]

    def learn(self, leader: Leader) -> bool:
        """Take what an answer says; whether it was news that say where to ask next."""
        if leader.epoch < self.epoch or (leader.epoch == self.epoch and leader.node_id is None):
            return False
        if leader.epoch > self.epoch:
            self.epoch, self.node_id, self._named = leader.epoch, None, None
        elif self.node_id not in (None, leader.node_id):
            return False  # an epoch has one leader: who says otherwise is not believed
        is_news = self.node_id is None
        self.node_id = leader.node_id
        if leader.address is not None:
            self._named = leader.address
            self.know([leader.address])
        return is_news

    def know(self, controllers: Iterable[Address]) -> None:
        """These may be asked, too."""
        for address in controllers:
            if address not in self._known and len(self._known) < _KNOWN_MAX:
                self._known.append(address)

    def answered(self, address: Address) -> None:
        """The one at this address leads: it is asked again, whatever address others name."""
        self._named = address

    def failed(self, address: Address) -> None:
        """No answer, or not the leader's: ask the next one."""
        if self._named == address:
            self._named = None
        if self._known[self._turn] == address:
            self._turn = (self._turn + 1) % len(self._known)
