"""SharedSettings: the settings of all workers, changed whole or not at all, in each of them.

The supervisor has them: it reads the file again at a SIGHUP, checks what is put, logs what has changed, and
gives it to each worker. A worker that is started again begins with them. So whichever worker is asked,
changes come one after the other, and the answer comes when each worker that is there has taken them.
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
    """Of one worker."""

    def __init__(self, worker: Worker, settings: Mapping[str, Reconfiguration]) -> None:
        """Begin to follow them; ``settings``: the process's and each cluster's, by name."""
        self._worker = worker
        self._settings = settings
        self._answers: queue.SimpleQueue[SettingsResult] = queue.SimpleQueue()
        self._asking = threading.Lock()
        threading.Thread(target=self._follow, name="aclog-settings", daemon=True).start()

    def put(
        self, cluster: str, texts: Mapping[str, str | None], by: str, *, is_trial: bool = False
    ) -> list[Change]:
        """As ``Reconfiguration.put``, for all workers.

        Raises:
            HttpError: a value is not allowed, or a key is not dynamic; or it is not known in time.
        """
        with self._asking:
            self._worker.report(SettingsChange(cluster, texts, by, is_trial))
            try:
                answer = self._answers.get(timeout=_ANSWER_S)
            except queue.Empty:
                raise HttpError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    "it is not known whether the settings were changed: GET them",
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
                    self._settings[message.cluster].follow(message.given, message.put)
                    self._worker.report(SettingsApplied())
                case SettingsResult():
                    self._answers.put(message)
