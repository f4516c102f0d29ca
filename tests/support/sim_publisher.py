"""A publisher that believes nothing: it checks every call against the contract and the log's history."""

from __future__ import annotations

from collections.abc import Callable

from replay.manifest import LoaderManifest, ReloadManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support.sim_history import EMPTY_STATE, History, State, state_of


class Witness:
    """Keeps what it was told.

    Attributes:
        updates: (end offset, is a reload) of each update.
        calls: the names of all calls, in order.
        ready: what it was told last.
        reason: why not, as it was told last.
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
        assert delta.image is self.image or (is_reload and delta.image is AclsImage.EMPTY)
        assert manifest.provenance == image.provenance
        assert end_offset <= manifest.high_watermark
        _check_delta(delta, image)
        if self._history is not None:
            states = self._history().states
            assert end_offset in states, f"{end_offset} is within a batch or a transaction"
            state = state_of(image)
            assert state == states[end_offset], f"the log never had this state at {end_offset}"
            assert image.digest == state.digest
            assert len(image) == len(state.acls)
        if self.updates and not is_reload:
            assert end_offset > self.updates[-1][0], "a published offset did not go on"
        self.image = image
        self.updates.append((end_offset, is_reload))
        self.manifests.append(manifest)

    def on_ready(self) -> None:
        self.calls.append("on_ready")
        assert self.updates, "ready without a state"
        assert not self.ready, "told twice"
        self.ready = True

    def on_not_ready(self, reason: str) -> None:
        self.calls.append("on_not_ready")
        assert reason, "no reason"
        self.ready, self.reason = False, reason

    def close(self) -> None:
        self.calls.append("close")
        self.closed += 1

    @property
    def state(self) -> State:
        return state_of(self.image) if self.updates else EMPTY_STATE


def _check_delta(delta: AclsDelta, image: AclsImage) -> None:
    """Whoever applies the changes to what it holds must end with the image."""
    held = {acl.record.id: acl for acl in delta.image}
    for acl_id, after in delta.changes.items():
        if after is None:
            del held[acl_id]
        else:
            held[acl_id] = after
    assert held == {acl.record.id: acl for acl in image}
