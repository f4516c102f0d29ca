"""Levels of the audit log: which decisions are how loud.

An allowed action is DEBUG when the action says that access is really granted (``log_if_allowed``), a denied
one INFO when access was really asked for (``log_if_denied``); anything else is TRACE, a level that Python
does not have (5, below DEBUG).

Source: StandardAuthorizerData.logAuditMessage; kafka-facts.md 2.3.
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
#: Above every level that a decision has: nothing is written.
OFF: Final = logging.CRITICAL + 10

#: By the names of ``aclog.audit.level``.
AUDIT_LEVELS: Final = {"OFF": OFF, "INFO": INFO, "DEBUG": DEBUG, "TRACE": TRACE}

# For every formatter that prints level names, structlog's own included.
logging.addLevelName(TRACE, "TRACE")


def audit_level(action: Action, *, allowed: bool) -> int:
    """At which level Kafka would write this decision."""
    if allowed:
        return DEBUG if action.log_if_allowed else TRACE
    return INFO if action.log_if_denied else TRACE
