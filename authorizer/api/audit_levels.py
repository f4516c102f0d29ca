"""Levels of the audit log.

An allowed action is logged at DEBUG if its ``log_if_allowed`` is set, a denied action at INFO if its
``log_if_denied`` is set, and any other action at TRACE. Python has no TRACE; it is level 5, below DEBUG.

Source: StandardAuthorizerData.logAuditMessage.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action

AUDIT_LOGGER_NAME: Final = "kafka.authorizer.logger"

TRACE: Final = 5
DEBUG: Final = logging.DEBUG
INFO: Final = logging.INFO
#: Higher than the level of any decision: nothing is written.
OFF: Final = logging.CRITICAL + 10

#: By the names of ``aclog.audit.level``.
AUDIT_LEVELS: Final = {"OFF": OFF, "INFO": INFO, "DEBUG": DEBUG, "TRACE": TRACE}

# Formatters, also structlog's, print level names.
logging.addLevelName(TRACE, "TRACE")


def audit_level(action: Action, *, allowed: bool) -> int:
    """The level at which Kafka logs a decision."""
    if allowed:
        return DEBUG if action.log_if_allowed else TRACE
    return INFO if action.log_if_denied else TRACE
