"""A publisher that checks every call against the contract and the log's history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from records.columns.acl_table import AppliedAcl
from replay.manifest import LoaderManifest, ReloadManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support.sim_history import History, State, state_of

if TYPE_CHECKING:
    from records.ids import Uuid


class ViolationError(BaseException):
    """The loader broke its contract. Not an Exception, which the loader would blame on the publisher."""


def check(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ViolationError(otherwise)


class Witness:
    """Stores the calls that it gets.

    Attributes:
        image: the last published image.
        updates: (end offset, is a reload) of each update.
        manifests: of each update.
        calls: the names of all calls, in order.
        ready: the last reported readiness.
        reason: the last reported reason for not being ready.
        closed: number of ``close`` calls.
    """

    def __init__(self, history: Callable[[], History] | None = None, name: str = "witness") -> None:
        self._history = history
        self._name = name
        self.image = AclsImage.EMPTY
        self.updates: list[tuple[int, bool]] = []
        self.manifests: list[LoaderManifest] = []
        self.calls: list[str] = []
        self.ready = False
        self.reason = ""
        self.closed = 0

    @property
    def name(self) -> str:
        return self._name

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        is_reload = isinstance(manifest, ReloadManifest)
        end_offset = image.provenance.end_offset
        self.calls.append("on_update")
        is_whole = is_reload and delta.image is AclsImage.EMPTY
        check(delta.image is self.image or is_whole, "a delta on an image that was never published")
        check(manifest.provenance == image.provenance, "a manifest of another image")
        check(end_offset <= manifest.high_watermark, "an uncommitted record was published (I3)")
        check(
            _apply_to(delta) == {acl.record.id: acl for acl in image}, "the delta does not lead to the image"
        )
        if self._history is not None:
            self.check_state(image, [self._history().states])
        if self.updates and not is_reload:
            check(end_offset > self.updates[-1][0], "a published offset did not go on")
        self.image = image
        self.updates.append((end_offset, is_reload))
        self.manifests.append(manifest)

    def check_state(self, image: AclsImage, histories: Sequence[Mapping[int, State]]) -> None:
        """The image is a state that one of these histories has at its offset."""
        end_offset, state = image.provenance.end_offset, state_of(image)
        check(
            any(end_offset in states for states in histories),
            f"{end_offset} is within a batch or a transaction (I2)",
        )
        check(
            any(state == states.get(end_offset) for states in histories),
            f"the log never had this state at {end_offset}",
        )
        check(image.digest == state.digest, "the digest is not that of the content (I12)")
        check(len(image) == len(state.acls), "the count is not that of the content")

    def on_ready(self) -> None:
        self.calls.append("on_ready")
        check(bool(self.updates), "ready without a state")
        check(not self.ready, "on_ready was called twice")
        self.ready = True

    def on_not_ready(self, reason: str) -> None:
        self.calls.append("on_not_ready")
        check(bool(reason), "not ready, without a reason")
        self.ready, self.reason = False, reason

    def close(self) -> None:
        self.calls.append("close")
        self.closed += 1


def _apply_to(delta: AclsDelta) -> dict[Uuid, AppliedAcl]:
    """The ACLs of the former image with the delta's changes."""
    held = {acl.record.id: acl for acl in delta.image}
    for acl_id, after in delta.changes.items():
        if after is None:
            del held[acl_id]
        else:
            held[acl_id] = after
    return held
