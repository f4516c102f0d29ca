"""The audit log: Kafka's line, level and logger for each decision.

Source: StandardAuthorizerData.logAuditMessage and buildAuditMessage; kafka-facts.md 2.3. The rules:

- The logger is ``kafka.authorizer.logger``. An allowed action is DEBUG when the action says that access is
  really granted (``log_if_allowed``), a denied one INFO when access was really asked for (``log_if_denied``);
  anything else is TRACE, a level that Python does not have (5, below DEBUG).
- The event is Kafka's text line, to the letter; the same facts are keys beside it, so that JSON output can be
  searched without parsing the line. A question that came over HTTP is no request of Kafka's: the line has its
  own name there, one word as Kafka's names are, and keys say who asked (``caller``, ``caller_host``).
- Nothing that goes wrong here may change a decision: a failing logger is counted, and said once.

On the hot path a caller compares one int: ``if level >= audit.threshold``. The threshold is read from logging
when the level is set, not for each decision.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from authorizer.api import HttpRequestContext
from authorizer.api_keys import api_key_name
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from authorizer.api import Action, AuthorizableRequestContext
    from records.ids import Uuid

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

_log = logging.getLogger(__name__)


def audit_level(action: Action, *, allowed: bool) -> int:
    """At which level Kafka would write this decision."""
    if allowed:
        return DEBUG if action.log_if_allowed else TRACE
    return INFO if action.log_if_denied else TRACE


def audit_message(context: AuthorizableRequestContext, action: Action, *, allowed: bool, rule: object) -> str:
    """Kafka's line. ``rule`` prints as Kafka's rule does: ``DefaultDeny``, ``MatchingAcl(acl=...)``, ..."""
    resource = action.resource_pattern
    return (
        f"Principal = {context.principal} is {'Allowed' if allowed else 'Denied'} "
        f"operation = {action.operation.name} from host = {context.client_address} "
        f"on resource = {resource.resource_type.title}:{resource.pattern_type.name}:{resource.name} "
        f"for request = {_request_name(context)} "
        f"with resourceRefCount = {action.resource_reference_count} based on rule {rule}"
    )


def _request_name(context: AuthorizableRequestContext) -> str:
    if isinstance(context, HttpRequestContext):
        return context.request_name
    return api_key_name(context.request_type)


def _caller(context: AuthorizableRequestContext) -> dict[str, str]:
    """Keys that only a question over HTTP has."""
    if not isinstance(context, HttpRequestContext):
        return {}
    return {"caller": str(context.caller), "caller_host": context.caller_address}


class AuditLog:
    """Writes decisions down. Thread-safe; the level may change while decisions are made.

    Attributes:
        threshold: the lowest level that is written; compare before building anything.
        failures: how many lines could not be written.
    """

    __slots__ = ("_logger", "failures", "threshold")

    def __init__(self, level: int = INFO) -> None:
        self._logger = logging.getLogger(AUDIT_LOGGER_NAME)
        self.failures = 0
        self.threshold = OFF
        self.set_level(level)

    def set_level(self, level: int) -> None:
        """Write decisions of ``level`` and above; OFF writes none."""
        # The logger is everyone's in this process: it lets through what any audit log wants, and each has its
        # own threshold before it.
        if self._logger.level == logging.NOTSET or self._logger.level > level:
            self._logger.setLevel(level)
        # logging.disable() and the like count too, so that the int alone decides from here on.
        self.threshold = next(
            (each for each in (TRACE, DEBUG, INFO) if each >= level and self._logger.isEnabledFor(each)), OFF
        )

    def write(  # the hot path has compared levels already: this one builds and writes
        self,
        level: int,
        context: AuthorizableRequestContext,
        action: Action,
        *,
        allowed: bool,
        rule: object,
        acl_id: Uuid | None = None,
        offset: int | None = None,
    ) -> None:
        """Write one decision if ``level`` is enabled. Never raises.

        Args:
            level: as ``audit_level`` gives it.
            context: who asked.
            action: for what.
            allowed: the answer.
            rule: what decided; only its text is used.
            acl_id: id of the deciding ACL, if one decided.
            offset: end offset of the state that decided, if known.
        """
        if level < self.threshold:
            return
        try:
            resource = action.resource_pattern
            self._logger.log(
                level,
                # As an argument, so that a percent sign in a name is never taken for a placeholder.
                "%s",
                audit_message(context, action, allowed=allowed, rule=rule),
                extra={
                    "principal": str(context.principal),
                    "result": "ALLOWED" if allowed else "DENIED",
                    "operation": action.operation.name,
                    "host": context.client_address,
                    "resource_type": resource.resource_type.name,
                    "pattern_type": resource.pattern_type.name,
                    "resource_name": resource.name,
                    "request": _request_name(context),
                    "resource_reference_count": action.resource_reference_count,
                    "rule": str(rule),
                    "acl_id": None if acl_id is None else uuid_to_string(acl_id),
                    "offset": offset,
                    **_caller(context),
                },
            )
        except Exception as error:  # noqa: BLE001 - a decision stands, whatever a log handler does
            self._report(error)

    def _report(self, error: Exception) -> None:
        self.failures += 1
        if self.failures > 1:
            return
        with contextlib.suppress(Exception):
            _log.error("audit_log_failed", extra={"error": repr(error)})
