"""Publishers: receivers of the state (authorizer, snapshot generator, change feed), and their errors.

Rules:

- Publishers are called in the order in which they were added, on the loader's thread; those that get the
  complete state come after those that get a delta.
- A publisher that does not hold the image that a delta is based on gets the complete state: a new one, and
  one whose last call raised, because its outcome is unknown.
- The FaultHandler decides whether the node stays ready while a publisher has failed. In either case the
  publisher gets the complete state again, with growing pauses, until it accepts it.

Source: org.apache.kafka.image.publisher.MetadataPublisher, org.apache.kafka.server.fault.FaultHandler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from msgspec.structs import replace

from replay.clock import Backoff
from replay.manifest import LoaderManifest
from snapshot.delta import AclsDelta
from snapshot.fold import DeltaCounts
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from replay.clock import Clock
    from replay.status import LoaderMetrics


_log = structlog.get_logger(__name__)


class Publisher(Protocol):
    """Receives every published image, in order. All calls come from the loader's thread.

    ``delta.image`` is the same object as the previous update's image, or ``AclsImage.EMPTY``: then the
    update is the complete state and replaces the previous one. That is so for the first update, and
    for the first one after an update that raised, because its outcome is unknown.

    The loader's FaultHandler gets the errors of a publisher; the others still get the update. A subclass need
    not override what it does not use: by default readiness and the end change nothing.
    """

    @property
    def name(self) -> str:
        """Unique within a loader."""

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """The state is now ``image``, which differs from the one before by ``delta``.

        ``manifest`` is a LogDeltaManifest or a ReloadManifest. None of the three ever changes, and all may
        be retained; ``delta`` retains the previous image.
        """

    def on_ready(self) -> None:
        """The state is complete and sound from now on; called after the update (I4)."""
        return

    def on_not_ready(self, reason: str) -> None:
        """The state must not be used for decisions from now on; called again when the reason changes."""
        return

    def close(self) -> None:
        """Last call; made once."""
        return


class FaultHandler:
    """Logs and counts every fault, and fails closed unless the part makes no decisions.

    A fault is a failure of a part of this program: of a publisher that raised, or of the loader. A log that
    cannot be read or decoded is no fault: see I7. ``faults``: their number, by part.
    """

    def __init__(self, *, harmless: Iterable[str] = ()) -> None:
        """``harmless``: parts whose failure does not affect decisions (snapshots, metrics, feeds)."""
        self._harmless = frozenset(harmless)
        self.faults: dict[str, int] = {}

    def handle(self, part: str, message: str, error: Exception) -> bool:
        """Return whether the node may be ready before the part has recovered. On the loader's thread.

        ``part`` is a publisher's name, or ``loader``.
        """
        self.faults[part] = self.faults.get(part, 0) + 1
        is_harmless = part in self._harmless
        verdict = "go on" if is_harmless else "not ready"
        _log.error("fault", part=part, message=message, verdict=verdict, exc_info=error)
        return is_harmless


_NOT_ANNOUNCED: Final = ""


@dataclass(slots=True, eq=False)
class _Subscription:
    """State of one publisher between two updates.

    Attributes:
        holds: the image of its last successful update; EMPTY before the first, None after a call raised.
        announced_reason: the last announced reason why the node is not ready; None: ready.
        failure: why the node must not be ready, from an error until its next successful update.
    """

    publisher: Publisher
    holds: AclsImage | None = AclsImage.EMPTY
    announced_reason: str | None = _NOT_ANNOUNCED
    failure: str | None = None
    backoff: Backoff = field(default_factory=Backoff)
    retry_at_s: float = 0.0


class Subscriptions:
    """The publishers of one loader, and the image of each.

    ``add`` may be called from any thread, the rest only from the loader's.
    """

    def __init__(self, faults: FaultHandler, clock: Clock, metrics: LoaderMetrics) -> None:
        self._faults = faults
        self._clock = clock
        self._metrics = metrics
        self._adding = threading.Lock()
        # Replaced, never changed: the loader may be iterating over it.
        self._all: tuple[_Subscription, ...] = ()
        self._image: AclsImage | None = None
        self._manifest: LoaderManifest | None = None

    def add(self, publisher: Publisher) -> None:
        """Add a publisher, which gets the complete state in the loader's next iteration.

        Raises:
            ValueError: a publisher with that name exists.
        """
        with self._adding:
            if any(subscription.publisher.name == publisher.name for subscription in self._all):
                raise ValueError(f"there is a publisher named `{publisher.name}` already")
            self._all = (*self._all, _Subscription(publisher))

    @property
    def failure(self) -> str | None:
        """Why the node must not be ready because of a publisher; None if none failed."""
        return next(
            (subscription.failure for subscription in self._all if subscription.failure is not None), None
        )

    def publish(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """Give all publishers the next image."""
        self._image, self._manifest = image, manifest
        for subscription in self._all:
            if subscription.holds is delta.image:
                self._update(subscription, delta, image, manifest)
        self.update_outdated()

    def withdraw(self) -> None:
        """Give the last published image to no further publisher."""
        self._image = self._manifest = None

    def update_outdated(self) -> None:
        """Give outdated publishers the complete last state, unless a retry is not due yet."""
        image, manifest = self._image, self._manifest
        if image is None or manifest is None:
            return
        for subscription in self._all:
            if subscription.holds is not image and self._clock.monotonic_s() >= subscription.retry_at_s:
                complete = AclsDelta.between(AclsImage.EMPTY, image)
                # Nothing was read for it.
                unread = replace(manifest, batches=0, records=0, size_bytes=0, counts=DeltaCounts())
                self._update(subscription, complete, image, unread.as_reload("this node's state"))

    def announce(self, reason: str | None) -> None:
        """Tell all why the node is not ready, or (None) the up-to-date ones that it is."""
        for subscription in self._all:
            is_up_to_date = self._image is not None and subscription.holds is self._image
            if subscription.announced_reason == reason or (reason is None and not is_up_to_date):
                continue
            subscription.announced_reason = reason
            if reason is None:
                self._call(subscription, subscription.publisher.on_ready)
            else:
                self._call(subscription, partial(subscription.publisher.on_not_ready, reason))

    def close(self) -> None:
        with self._adding:
            closing, self._all = self._all, ()
        for subscription in closing:
            self._call(subscription, subscription.publisher.close)

    def _update(
        self, subscription: _Subscription, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest
    ) -> None:
        if self._call(subscription, partial(subscription.publisher.on_update, delta, image, manifest)):
            subscription.holds = image
            subscription.failure = None
            subscription.backoff.reset()

    def _call(self, subscription: _Subscription, call: Callable[[], None]) -> bool:
        """Whether the call succeeded. An error of one publisher must not stop the others."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - see above
            name = subscription.publisher.name
            self._metrics.publisher_faults += 1
            subscription.holds = None
            subscription.retry_at_s = self._clock.monotonic_s() + subscription.backoff.next_s()
            message = f"publisher {name} failed: {error}"
            if not self._faults.handle(name, message, error):
                subscription.failure = message
            return False
        return True
