"""Kafka's exceptions, with Kafka's class and error-code names (KIP-50, KIP-504, KIP-801).

Kafka never adopted the four errors of KIP-50 and answers InvalidRequestException in each case. Here each case
has its own class with that name and code. Class names end in Error; ``kafka_name`` is the Java class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from authorizer.api.secret_keys import HIDDEN, is_secret
from records.errors import AclogError


class AuthorizerError(AclogError):
    """Root of the authorizer layer's errors."""


class ApiError(AuthorizerError):
    """An error that Kafka has a name and a code for.

    Attributes:
        kafka_name: simple name of the Java exception class.
        code_name: name in org.apache.kafka.common.protocol.Errors.
    """

    kafka_name: ClassVar[str] = "ApiException"
    code_name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"


class AuthorizerNotReadyError(ApiError):
    """The authorizer has not finished loading, or cannot trust its state."""

    kafka_name = "AuthorizerNotReadyException"
    code_name = "AUTHORIZER_NOT_READY"


class InvalidRequestError(ApiError):
    """A binding or filter that Kafka's controller refuses."""

    kafka_name = "InvalidRequestException"
    code_name = "INVALID_REQUEST"


class NotControllerError(ApiError):
    """This node cannot write to the log."""

    kafka_name = "NotControllerException"
    code_name = "NOT_CONTROLLER"


class UnsupportedLevelError(ApiError):
    """The cluster's metadata.version does not support this ACL."""

    kafka_name = "UnsupportedVersionException"
    code_name = "UNSUPPORTED_VERSION"


class ClusterAuthorizationError(ApiError):
    """The cluster does not authorize this node to change its ACLs."""

    kafka_name = "ClusterAuthorizationException"
    code_name = "CLUSTER_AUTHORIZATION_FAILED"


class SecurityDisabledError(ApiError):
    """The cluster has no authorizer."""

    kafka_name = "SecurityDisabledException"
    code_name = "SECURITY_DISABLED"


class PolicyViolationError(ApiError):
    """An operation would write more records than the limit."""

    kafka_name = "PolicyViolationException"
    code_name = "POLICY_VIOLATION"


class OperationTimedOutError(ApiError):
    """A write was not answered in time; the message says whether it may be in the log."""

    kafka_name = "TimeoutException"
    code_name = "REQUEST_TIMED_OUT"


class PlanOutdatedError(ApiError):
    """A plan was made for other ACLs or another log, or its result differs. Not an error of Kafka."""

    kafka_name = "PlanOutdatedException"
    code_name = "INVALID_REQUEST"


class MassRemovalError(ApiError):
    """A plan removes a larger share of the ACLs than is allowed. Not an error of Kafka."""

    kafka_name = "MassRemovalException"
    code_name = "INVALID_REQUEST"


class UnknownServerError(ApiError):
    """An unexpected error."""

    kafka_name = "UnknownServerException"


class AuthorizationError(ApiError):
    """KIP-50: base of the errors of a requested ACL."""

    kafka_name = "AuthorizationException"


class InvalidAclError(InvalidRequestError, AuthorizationError):
    """KIP-50: an invalid ACL, such as a permission type other than DENY and ALLOW."""


class InvalidOperationError(InvalidRequestError, AuthorizationError):
    """KIP-50: an operation that no ACL can have."""


class InvalidPrincipalError(InvalidRequestError, AuthorizationError):
    """KIP-50: a principal without a type."""


class InvalidResourceError(InvalidRequestError, AuthorizationError):
    """KIP-50: an invalid resource type, name or pattern type."""


_KINDS: Final = (
    AuthorizerNotReadyError,
    InvalidRequestError,
    NotControllerError,
    UnsupportedLevelError,
    ClusterAuthorizationError,
    SecurityDisabledError,
    OperationTimedOutError,
    PolicyViolationError,
)
_BY_KAFKA_NAME: Final = {each.kafka_name: each for each in (*_KINDS, PlanOutdatedError, MassRemovalError)}
_BY_CODE_NAME: Final = {each.code_name: each for each in _KINDS}


def api_error(kafka_name: str, message: str) -> ApiError:
    """The error that another node returned; UnknownServerError for an unknown name."""
    return _BY_KAFKA_NAME.get(kafka_name, UnknownServerError)(message)


def kafka_error(code_name: str, message: str) -> ApiError:
    """The error that a cluster returned; UnknownServerError, with the code, for an unknown code."""
    kind = _BY_CODE_NAME.get(code_name)
    if kind is None and code_name != UnknownServerError.code_name:
        message = f"{code_name}: {message}"
    return (kind or UnknownServerError)(message)


class PlanUnreadableError(AuthorizerError):
    """A text is not a plan that this version can apply."""


class SidecarError(AuthorizerError):
    """A request to a sidecar failed.

    Attributes:
        status: the HTTP status; None without a response.
        code: for programs, such as OFFSET_NOT_HELD (docs/http.md); None if the response has none.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class SidecarUnavailableError(SidecarError):
    """The sidecar is not available now. Nothing was changed.

    Attributes:
        retry_after_s: seconds until a retry, from the response; None if it has none.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, status=status, code=code)
        self.retry_after_s = retry_after_s


class SidecarUnreachedError(SidecarUnavailableError):
    """No connection to the sidecar, so nothing was sent."""


class SidecarOutcomeUnknownError(SidecarUnavailableError):
    """A change was sent and its outcome is unknown: list the ACLs before a retry."""


class SidecarRefusedError(SidecarError):
    """The caller is unknown or not authorized for the request. This is not a decision."""


class SidecarRequestError(SidecarError):
    """The request is invalid; a retry fails in the same way."""


class SidecarDefectError(SidecarError):
    """An unexpected error in the sidecar; its log has the traceback."""


class SidecarAnswerError(SidecarError):
    """The response is not from an aclog node."""


class ConfigError(AuthorizerError):
    """A configuration value that stops the start.

    Attributes:
        value: the configured value; hidden if it is a secret.
        where: the file and the line of the value; empty if they are not known.
    """

    def __init__(self, key: str, value: object, allowed: str, where: str = "") -> None:
        if is_secret(key):
            value = HIDDEN
        super().__init__(f"{where and f'{where}: '}invalid value `{value}` for `{key}`: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed
        self.where = where


class RestartNeededError(AuthorizerError):
    """Keys of a running node can only be changed by a restart.

    Attributes:
        keys: the keys.
    """

    def __init__(self, keys: Sequence[str], dynamic: Sequence[str]) -> None:
        super().__init__(
            f"{', '.join(keys)}: this takes a restart, so nothing was changed. "
            f"What can change while it runs: {', '.join(dynamic)}"
        )
        self.keys = keys


class UnsupportedPythonError(AuthorizerError):
    """Python runs without the global interpreter lock, which the index needs."""
