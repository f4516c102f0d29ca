"""The audit log: Kafka's line, level and logger for each decision.

Source: StandardAuthorizerData.logAuditMessage and buildAuditMessage; kafka-facts.md 2.3. The rules:

- The logger is ``kafka.authorizer.logger``. An allowed action is DEBUG when the action says that access is
  really granted (``log_if_allowed``), a denied one INFO when access was really asked for (``log_if_denied``);
  anything else is TRACE, a level that Python does not have (5, below DEBUG).
- The event is Kafka's text line, to the letter; the same facts are keys beside it, so that JSON output can be
  searched without parsing the line. A question that came over HTTP is no request of Kafka's: the line has its
  own name there, one word as Kafka's names are, and keys say who asked (``caller``, ``caller_host``).
- Nothing that goes wrong here may change a decision: a failing logger is counted, and said once.

`AuditLog.wants` is asked before the ACL that decided is looked for. On the hot path a caller compares one int
before: ``level >= audit.threshold``. The threshold is read from logging when the level is set.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from authorizer.api import HttpRequestContext
from authorizer.api_keys import api_key_name
from records.acl import AclOperation, PatternType, ResourceType
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from authorizer.api import Action, AuthorizableRequestContext
    from authorizer.decisions.decision import Decision

AUDIT_LOGGER_NAME: Final = "kafka.authorizer.logger"

TRACE: Final = 5
DEBUG: Final = logging.DEBUG
INFO: Final = logging.INFO
#: Above every level that a decision has: nothing is written.
OFF: Final = logging.CRITICAL + 10

#: By the names of ``aclog.audit.level``.
AUDIT_LEVELS: Final = {"OFF": OFF, "INFO": INFO, "DEBUG": DEBUG, "TRACE": TRACE}

#: Attributes of a record beside Kafka's line, and those of a question over HTTP.
FACTS: Final[tuple[str, ...]] = (
    *("principal", "result", "operation", "host", "resource_type", "pattern_type", "resource_name"),
    *("request", "resource_reference_count", "rule", "acl_id", "offset"),
)
HTTP_FACTS: Final = ("caller", "caller_host")

# For every formatter that prints level names, structlog's own included.
logging.addLevelName(TRACE, "TRACE")

# Looked up once, not for each line: the name of an Enum's member costs as much as four look-ups in a tuple.
_TITLES: Final = tuple(resource_type.title for resource_type in ResourceType)
_RESOURCE_TYPES: Final = tuple(resource_type.name for resource_type in ResourceType)
_PATTERN_TYPES: Final = tuple(pattern_type.name for pattern_type in PatternType)
_OPERATIONS: Final = tuple(operation.name for operation in AclOperation)

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
        f"operation = {_OPERATIONS[action.operation]} from host = {context.client_address} "
        f"on resource = {_TITLES[resource.resource_type]}:{_PATTERN_TYPES[resource.pattern_type]}"
        f":{resource.name} "
        f"for request = {_request_name(context)} "
        f"with resourceRefCount = {action.resource_reference_count} based on rule {rule}"
    )


def _request_name(context: AuthorizableRequestContext) -> str:
    if isinstance(context, HttpRequestContext):
        return context.request_name
    return api_key_name(context.request_type)


def _facts(
    context: AuthorizableRequestContext, action: Action, decision: Decision, rule: str, end_offset: int
) -> dict[str, object]:
    """The same as keys."""
    resource, acl = action.resource_pattern, decision.acl
    facts: dict[str, object] = {
        "principal": str(context.principal),
        "result": decision.result.value,
        "operation": _OPERATIONS[action.operation],
        "host": context.client_address,
        "resource_type": _RESOURCE_TYPES[resource.resource_type],
        "pattern_type": _PATTERN_TYPES[resource.pattern_type],
        "resource_name": resource.name,
        "request": _request_name(context),
        "resource_reference_count": action.resource_reference_count,
        "rule": rule,
        "acl_id": None if acl is None else uuid_to_string(acl.record.id),
        "offset": end_offset,
    }
    if isinstance(context, HttpRequestContext):
        facts["caller"] = str(context.caller)
        facts["caller_host"] = context.caller_address
    return facts


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

    def wants(self, level: int) -> bool:
        """Whether a line of this level is written: it is enabled, and there is a handler to take it."""
        logger = self._logger
        return level >= self.threshold and logger.isEnabledFor(level) and logger.hasHandlers()

    def write(
        self,
        level: int,
        context: AuthorizableRequestContext,
        action: Action,
        decision: Decision,
        end_offset: int,
    ) -> None:
        """Write one decision; the caller has asked whether its level is wanted. Never raises.

        Args:
            level: as ``audit_level`` gives it.
            context: who asked.
            action: for what.
            decision: the answer and what decided.
            end_offset: of the state that decided.
        """
        try:
            rule = str(decision)
            line = audit_message(context, action, allowed=decision.is_allowed, rule=rule)
            # Not `Logger.log`, which looks through the stack for the caller: that is always this one. Without
            # arguments a percent sign in a name is never taken for a placeholder.
            record = logging.getLogRecordFactory()(AUDIT_LOGGER_NAME, level, __file__, 0, line, (), None)
            record.__dict__.update(_facts(context, action, decision, rule, end_offset))
            self._logger.handle(record)
        except Exception as error:  # noqa: BLE001 - a decision stands, whatever a log handler does
            self._report(error)

    def _report(self, error: Exception) -> None:
        self.failures += 1
        if self.failures > 1:
            return
        with contextlib.suppress(Exception):
            _log.error("audit_log_failed", extra={"error": repr(error)})
