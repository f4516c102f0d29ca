"""Audit log: Kafka's line, level and logger for each decision.

Source: StandardAuthorizerData.logAuditMessage and buildAuditMessage. The rules:

- The logger is ``kafka.authorizer.logger``; `audit_levels` has the level.
- The event is exactly Kafka's text line. The same facts are also keys, so that JSON output can be searched
  without parsing the line. A request over HTTP is not one of Kafka's: the line has aclog's name for it, one
  word as Kafka's names are, and the keys ``caller`` and ``caller_host`` identify its sender.
- An error here never changes a decision: a failing logger is counted, and reported once.

An audit log gets the DecidedAction; the deciding ACL is found when the line is created. The hot path compares
one int first: ``level >= audit.threshold``. The threshold is read from logging when the level is set.
"""

from __future__ import annotations

import contextlib
import logging
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, UnsetType

from authorizer.api.api_keys import api_key_name
from authorizer.api.audit_levels import AUDIT_LEVELS, AUDIT_LOGGER_NAME, DEBUG, INFO, OFF, TRACE
from authorizer.api.authorizer_api import AuthorizationResult, HttpRequestContext
from records.acl import AclOperation, PatternType, ResourceType
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.decisions.decision import DecidedAction, Decision
    from authorizer.engine.decisions.state import AuthorizerState
    from records.columns.acl_table import AppliedAcl

# Computed once: reading the name of an Enum's member costs as much as four look-ups in a tuple.
_TITLES: Final = tuple(resource_type.title for resource_type in ResourceType)
_RESOURCE_TYPES: Final = tuple(resource_type.name for resource_type in ResourceType)
_PATTERN_TYPES: Final = tuple(pattern_type.name for pattern_type in PatternType)
_OPERATIONS: Final = tuple(operation.name for operation in AclOperation)
_LEVELS: Final = {level: name.lower() for name, level in AUDIT_LEVELS.items()}
_ALLOWED: Final = AuthorizationResult.ALLOWED

_log = logging.getLogger(__name__)


class AuditLine(msgspec.Struct, gc=False):
    """A line as JSON: Kafka's text is ``event``, the rest are its facts and the keys of every log line.

    Attributes:
        offset: end offset of the state that decided.
        caller: the sender of a request over HTTP; ``caller_host`` is its address.
        client_id: of a request of Kafka's protocol that has one; ``correlation_id`` is the request's number.
    """

    principal: str
    result: str
    operation: str
    host: str
    resource_type: str
    pattern_type: str
    resource_name: str
    request: str
    resource_reference_count: int
    rule: str
    acl_id: str | None
    offset: int
    caller: str | UnsetType
    caller_host: str | UnsetType
    client_id: str | UnsetType
    correlation_id: int | UnsetType
    cluster: str | UnsetType
    event: str
    logger: str
    level: str
    timestamp: datetime | UnsetType

    def facts(self) -> dict[str, object]:
        """Return the facts without Kafka's text."""
        facts = zip(_FACTS, msgspec.structs.astuple(self), strict=False)
        return {name: fact for name, fact in facts if fact is not UNSET}


_FACTS: Final = AuditLine.__struct_fields__[: AuditLine.__struct_fields__.index("event")]


def audit_line(
    level: int,
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    action: Action,
    decision: Decision,
    timestamp: datetime | UnsetType = UNSET,
) -> AuditLine:
    """Return the line of one decision."""
    acl, pattern = decision.acl, action.resource_pattern
    principal, host, name = str(context.principal), context.client_address, pattern.name
    rule, acl_id = (str(decision), None) if acl is None else _matching(acl)
    operation, pattern_type = _OPERATIONS[action.operation], _PATTERN_TYPES[pattern.pattern_type]
    count = action.resource_reference_count
    result, verb = ("ALLOWED", "Allowed") if decision.result is _ALLOWED else ("DENIED", "Denied")
    caller: str | UnsetType = UNSET
    caller_host: str | UnsetType = UNSET
    client_id: str | UnsetType = UNSET
    correlation_id: int | UnsetType = UNSET
    if isinstance(context, HttpRequestContext):
        request, caller, caller_host = context.request_name, str(context.caller), context.caller_address
    else:
        request = api_key_name(context.request_type)
        if context.client_id:
            client_id, correlation_id = context.client_id, context.correlation_id
    return AuditLine(
        principal,
        result,
        operation,
        host,
        _RESOURCE_TYPES[pattern.resource_type],
        pattern_type,
        name,
        request,
        count,
        rule,
        acl_id,
        state.end_offset,
        caller,
        caller_host,
        client_id,
        correlation_id,
        UNSET if (cluster := state.settings.cluster) is None else cluster,
        f"Principal = {principal} is {verb} operation = {operation} from host = {host} "
        f"on resource = {_TITLES[pattern.resource_type]}:{pattern_type}:{name} "
        f"for request = {request} with resourceRefCount = {count} based on rule {rule}",
        AUDIT_LOGGER_NAME,
        _LEVELS[level],
        timestamp,
    )


@lru_cache(maxsize=4096)  # a few ACLs decide most requests
def _matching(acl: AppliedAcl) -> tuple[str, str]:
    """The rule as Kafka writes it, and the ACL's id."""
    return f"MatchingAcl(acl={acl.record.standard_acl()})", uuid_to_string(acl.record.id)


def audit_record(line: AuditLine) -> logging.LogRecord:
    """Return the line as a record of logging: Kafka's text is the message, the facts are attributes."""
    level = AUDIT_LEVELS[line.level.upper()]
    # Not `Logger.log`, which searches the stack for the caller, always this function. Without arguments a
    # percent sign in a name is never a placeholder.
    record = logging.getLogRecordFactory()(AUDIT_LOGGER_NAME, level, __file__, 0, line.event, (), None)
    record.__dict__.update(line.facts())
    return record


class AuditLog:
    """Writes decisions to the logger immediately.

    Thread-safe; the level may change while decisions are made.

    Attributes:
        threshold: the lowest level that is written; compare before calling ``write``.
        failures: number of lines that could not be written.
        lost: number of lines dropped because the queue was full; always 0 here.
    """

    __slots__ = ("_logger", "failures", "lost", "threshold")

    def __init__(self, level: int = INFO) -> None:
        self._logger = logging.getLogger(AUDIT_LOGGER_NAME)
        self.failures = 0
        self.lost = 0
        self.threshold = OFF
        self.set_level(level)

    def set_level(self, level: int) -> None:
        """Write decisions of ``level`` and above; OFF writes none."""
        # All audit logs of this process share the logger: it has the lowest of their levels. Each audit log
        # has its own threshold.
        if self._logger.level == logging.NOTSET or self._logger.level > level:
            self._logger.setLevel(level)
        # The threshold includes logging.disable() and the like, so that callers compare one int.
        self.threshold = next(
            (each for each in (TRACE, DEBUG, INFO) if each >= level and self._logger.isEnabledFor(each)), OFF
        )

    def write(self, decided: DecidedAction) -> None:
        logger, level = self._logger, decided.level
        # A program without logging handlers writes no line.
        if not (logger.isEnabledFor(level) and logger.hasHandlers()):
            return
        try:
            line = audit_line(level, decided.state, decided.context, decided.action, decided.decision())
            logger.handle(audit_record(line))
        except Exception as error:  # noqa: BLE001 - no error of a log handler changes a decision
            self._report(error)

    def _report(self, error: Exception, lines: int = 1) -> None:
        is_first = not self.failures
        self.failures += lines
        if is_first:
            with contextlib.suppress(Exception):
                _log.error("audit_log_failed", extra={"error": repr(error)})
