"""SharedSettings: settings of all workers; a change applies to every worker, completely or not at all.

The supervisor owns the settings. It reloads the file at a SIGHUP, validates changes, logs them and sends them
to each worker, also to a restarted one. Changes are serialized, whichever worker receives the request. The
response follows once every running worker has applied the change.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.workers.messages import NewSettings, SettingsApplied, SettingsChange, SettingsResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.node.reconfiguration import Change, Reconfiguration
    from authorizer.sidecar.workers.worker import Worker

_ANSWER_S: Final = 10.0


class SharedSettings:
    """One worker's access to them."""

    def __init__(self, worker: Worker, settings: Mapping[str, Reconfiguration]) -> None:
        """Start the receiving thread; ``settings``: the process's and each cluster's, by name."""
        self._worker = worker
        self._settings = settings
        self._answers: queue.SimpleQueue[SettingsResult] = queue.SimpleQueue()
        self._asking = threading.Lock()
        threading.Thread(target=self._follow, name="aclog-settings", daemon=True).start()

    def put(
        self, cluster: str, texts: Mapping[str, str | None], by: str, *, is_trial: bool = False
    ) -> list[Change]:
        """Change settings in all workers, as ``Reconfiguration.put``; all errors become HttpErrors."""
        with self._asking:
            self._worker.report(SettingsChange(cluster, texts, by, is_trial))
            try:
                answer = self._answers.get(timeout=_ANSWER_S)
            except queue.Empty:
                raise HttpError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    "it is unknown whether the settings were changed: GET them",
                ) from None
        if answer.refusal is not None:
            raise HttpError(ErrorCode.INVALID_CONFIG, answer.refusal)
        return answer.changes

    def _follow(self) -> None:
        while True:
            try:
                message = self._worker.pipe.recv()
            except (EOFError, OSError):
                return
            match message:
                case NewSettings():
                    self._settings[message.cluster].adopt(message.given, message.put)
                    self._worker.report(SettingsApplied())
                case SettingsResult():
                    self._answers.put(message)
