"""The publishers of one loader: which image each holds, what each has heard, and what a raising one costs.

Rules:

- Publishers are called in the order in which they were added, on the loader's thread; those that get the
  whole state come after those that get a delta.
- One that does not hold the image that a delta is based on gets the whole state instead: a new one, and one
  whose last call raised, because what became of it is not known.
- The FaultHandler says whether the node may go on as ready while a publisher has failed. Either way the
  publisher is given the whole state again, with growing pauses, until it takes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from replay.backoff import Backoff
from replay.fault import FaultHandler, Verdict
from replay.manifest import LoaderManifest, ReloadManifest
from snapshot.delta import AclsDelta
from snapshot.fold import DeltaCounts
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from replay.clock import Clock
    from replay.metrics import LoaderMetrics
    from replay.publisher import Publisher

_NOTHING: Final = ""


@dataclass(slots=True, eq=False)
class _Subscription:
    """One publisher between two updates.

    Attributes:
        holds: the image of the last update that it took; EMPTY before the first, None once a call raised.
        heard: why the node is not ready, None for ready, as announced to it last.
        failure: why the node must not go on as ready, from when it raised until it takes an update.
    """

    publisher: Publisher
    holds: AclsImage | None = AclsImage.EMPTY
    heard: str | None = _NOTHING
    failure: str | None = None
    backoff: Backoff = field(default_factory=Backoff)
    retry_at_s: float = 0.0


class Subscriptions:
    """``add`` may be called from any thread, all else only from the loader's."""

    def __init__(self, faults: FaultHandler, clock: Clock, metrics: LoaderMetrics) -> None:
        self._faults = faults
        self._clock = clock
        self._metrics = metrics
        self._adding = threading.Lock()
        # Replaced, never changed: the loader may be going through it.
        self._all: tuple[_Subscription, ...] = ()
        self._image: AclsImage | None = None
        self._manifest: LoaderManifest | None = None

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
        self._image, self._manifest = image, manifest
        for known in self._all:
            if known.holds is delta.image:
                self._update(known, delta, image, manifest)
        self.bring_up()

    def withdraw(self) -> None:
        """The image published last is not to be given to a publisher any more."""
        self._image = self._manifest = None

    def bring_up(self) -> None:
        """Give those that do not hold the image published last the whole of it, if it is time to try."""
        image, manifest = self._image, self._manifest
        if image is None or manifest is None:
            return
        for known in self._all:
            if known.holds is not image and self._clock.monotonic_s() >= known.retry_at_s:
                whole = AclsDelta.between(AclsImage.EMPTY, image)
                self._update(known, whole, image, _as_whole(manifest))

    def announce(self, reason: str | None) -> None:
        """Pass on why the node is not ready to all; that it is (None), to those that are up to date."""
        for known in self._all:
            is_up_to_date = self._image is not None and known.holds is self._image
            if known.heard == reason or (reason is None and not is_up_to_date):
                continue
            known.heard = reason
            if reason is None:
                self._call(known, known.publisher.on_ready)
            else:
                self._call(known, partial(known.publisher.on_not_ready, reason))

    def close(self) -> None:
        """Close every publisher."""
        with self._adding:
            closing, self._all = self._all, ()
        for known in closing:
            self._call(known, known.publisher.close)

    def _update(
        self, known: _Subscription, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest
    ) -> None:
        if self._call(known, partial(known.publisher.on_update, delta, image, manifest)):
            known.holds = image
            known.failure = None
            known.backoff.reset()

    def _call(self, known: _Subscription, call: Callable[[], None]) -> bool:
        """Whether it went well. What one publisher raises must not stop the others."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - see above
            name = known.publisher.name
            self._metrics.publisher_faults += 1
            known.holds = None
            known.retry_at_s = self._clock.monotonic_s() + known.backoff.next_s()
            message = f"publisher {name} failed: {error}"
            if self._faults.handle(name, message, error) is Verdict.NOT_READY:
                known.failure = message
            return False
        return True


def _as_whole(manifest: LoaderManifest) -> ReloadManifest:
    """The manifest for a publisher that gets the state that this node has, with nothing read for it."""
    return ReloadManifest(
        identity=manifest.identity,
        provenance=manifest.provenance,
        batches=0,
        records=0,
        size_bytes=0,
        counts=DeltaCounts(),
        high_watermark=manifest.high_watermark,
        log_end_time_ms=manifest.log_end_time_ms,
        origin="this node's state",
    )
