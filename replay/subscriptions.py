"""The publishers of one loader: who holds which image, who was told what, and what a raising one costs.

Rules:

- Publishers are called in the order in which they were added, on the loader's thread.
- One that does not hold the image that a delta is based on gets the whole state instead: a new one, and one
  whose last update raised, because nobody knows what became of it.
- The FaultHandler says whether the node may go on as ready while a publisher has failed. Either way the
  publisher is given the whole state again, with growing pauses, until it takes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from replay.backoff import Backoff
from replay.fault import FaultHandler, Verdict
from replay.manifest import LoaderManifest, ReloadManifest
from snapshot.delta import AclsDelta, DeltaCounts
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from replay.clock import Clock
    from replay.metrics import LoaderMetrics
    from replay.publisher import Publisher

_OWN_STATE: Final = "this node's state"
_NEVER_TOLD: Final = ""


@dataclass(slots=True, eq=False)
class _Subscription:
    """One publisher between two updates.

    Attributes:
        holds: the image of the last update that it took; EMPTY before the first, None after one that raised.
        told: why the node is not ready, None for ready, as it was told last.
        failure: why the node must not go on as ready, from when it raised until it takes an update.
    """

    publisher: Publisher
    holds: AclsImage | None = AclsImage.EMPTY
    told: str | None = _NEVER_TOLD
    failure: str | None = None
    backoff: Backoff = field(default_factory=Backoff)
    retry_at_s: float = 0.0


class Subscriptions:
    """``add`` may be called from any thread, all else from the loader's."""

    def __init__(self, faults: FaultHandler, clock: Clock, metrics: LoaderMetrics) -> None:
        self._faults = faults
        self._clock = clock
        self._metrics = metrics
        self._adding = threading.Lock()
        # Replaced, never changed: the loader may be going through it.
        self._all: tuple[_Subscription, ...] = ()

    def add(self, publisher: Publisher) -> None:
        """The publisher gets the whole state when the loader comes by.

        Raises:
            ValueError: there is one of that name.
        """
        with self._adding:
            if any(known.publisher.name == publisher.name for known in self._all):
                raise ValueError(f"there is a publisher named `{publisher.name}` already")
            self._all = (*self._all, _Subscription(publisher))

    @property
    def failure(self) -> str | None:
        """Why the node must not be ready, as far as publishers decide that."""
        return next((known.failure for known in self._all if known.failure is not None), None)

    def publish(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """Give everyone the next image."""
        whole: tuple[AclsDelta, LoaderManifest] | None = None
        for known in self._all:
            if known.holds is delta.image:
                self._update(known, delta, image, manifest)
            else:
                whole = whole or _whole_state(image, manifest)
                self._update(known, whole[0], image, whole[1])

    def bring_up(self, image: AclsImage, manifest: LoaderManifest) -> None:
        """Give those that do not hold the image published last the whole of it, if it is time to try."""
        whole: tuple[AclsDelta, LoaderManifest] | None = None
        for known in self._all:
            if known.holds is not image and self._clock.monotonic_s() >= known.retry_at_s:
                whole = whole or _whole_state(image, manifest)
                self._update(known, whole[0], image, whole[1])

    def tell(self, reason: str | None) -> None:
        """Tell whoever does not know it that the node is ready (None), or why it is not."""
        for known in self._all:
            if known.told == reason:
                continue
            publisher = known.publisher
            if reason is not None:
                self._call(known, "on_not_ready", lambda: publisher.on_not_ready(reason))
            elif known.holds is None or known.told == _NEVER_TOLD and known.holds is AclsImage.EMPTY:
                continue  # it has no state to be ready with
            else:
                self._call(known, "on_ready", publisher.on_ready)
            known.told = reason

    def close(self) -> None:
        """Close every publisher."""
        with self._adding:
            closing, self._all = self._all, ()
        for known in closing:
            self._call(known, "close", known.publisher.close)
