"""Leadership: which controller to ask, known from responses alone (KIP-595, KIP-853).

A controller that does not lead names the leader that it knows. An epoch never goes back, and has at most one
leader. If a controller cannot be reached, the next known one is asked: it may name another leader, or the
same at an address that can be reached (KAFKA-20514). Known are the given controllers and those named in
responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from records.log.protocol.response_values import Leader
    from records.log.url import Address

#: Limit of known controllers; no quorum has more.
_KNOWN_MAX: Final = 32


class Leadership:
    """What responses have reported so far. Not thread-safe.

    ``epoch``: the newest that any response named; 0 at first, which no leader has.
    """

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self.epoch = 0
        self.node_id: int | None = None
        self._known = list(bootstrap)
        self._next = 0
        self._named: Address | None = None

    @property
    def address(self) -> Address:
        """The controller to ask now."""
        return self._named or self._known[self._next]

    def update(self, leader: Leader) -> bool:
        """Take what a response reports; return whether it names a new leader."""
        if leader.epoch < self.epoch or (leader.epoch == self.epoch and leader.node_id is None):
            return False
        if leader.epoch > self.epoch:
            self.epoch, self.node_id, self._named = leader.epoch, None, None
        elif self.node_id not in (None, leader.node_id):
            return False  # an epoch has one leader
        is_news = self.node_id is None
        self.node_id = leader.node_id
        if leader.address is not None:
            self._named = leader.address
            self.add_controllers([leader.address])
        return is_news

    def add_controllers(self, controllers: Iterable[Address]) -> None:
        """Add controllers that may be asked."""
        for address in controllers:
            if address not in self._known and len(self._known) < _KNOWN_MAX:
                self._known.append(address)

    def confirm(self, address: Address) -> None:
        """The controller at this address leads: ask it again, whatever address others name."""
        self._named = address

    def mark_failed(self, address: Address) -> None:
        """No response, or not the leader's: ask the next controller."""
        if self._named == address:
            self._named = None
        if self._known[self._next] == address:
            self._next = (self._next + 1) % len(self._known)
