"""Kafka's exceptions, with Kafka's class and error-code names (KIP-50, KIP-504, KIP-801).

Below AclogError of records.errors:

AuthorizerError
+-- ApiError                          what a broker would answer a client with
|   +-- AuthorizerNotReadyError       AUTHORIZER_NOT_READY: not loaded yet; never a DENIED (I4)
|   +-- InvalidRequestError           INVALID_REQUEST: a binding or filter that cannot be
|   |   +-- InvalidAclError, InvalidOperationError, InvalidPrincipalError, InvalidResourceError
|   +-- AuthorizationError            KIP-50's family: the same four
|   +-- NotControllerError            NOT_CONTROLLER: this node cannot write
|   +-- UnsupportedLevelError         UNSUPPORTED_VERSION: the log's metadata.version has no such ACLs
|   +-- ClusterAuthorizationError     CLUSTER_AUTHORIZATION_FAILED: the cluster does not let this node write
|   +-- SecurityDisabledError         SECURITY_DISABLED: the cluster has no authorizer
|   +-- PolicyViolationError          POLICY_VIOLATION: too many records in one operation
|   +-- OperationTimedOutError        REQUEST_TIMED_OUT: the outcome of a write is not known, or none
|   +-- PlanOutdatedError             INVALID_REQUEST: what a plan was made on is not there any more
|   +-- MassRemovalError              INVALID_REQUEST: a plan removes a larger share of the ACLs than it may
|   +-- UnknownServerError            UNKNOWN_SERVER_ERROR
+-- SidecarError                      what asking a sidecar may raise (authorizer.client)
|   +-- SidecarUnavailableError       not ready, overloaded or gone: it may answer soon
|   |   +-- SidecarUnreachedError     nothing answers there
|   |   +-- SidecarOutcomeUnknownError  a change was sent, and no answer came: it may be in the log
|   +-- SidecarRefusedError           401, 403: who asks is not known, or may not ask that
|   +-- SidecarRequestError           another 4xx: the question cannot be answered as it is
|   +-- SidecarDefectError            500: its log has the reason
|   +-- SidecarAnswerError            what answers there is no aclog node
+-- PlanUnreadableError               a file that is no plan, or not as it was made
+-- ConfigError                       a configuration value that stops the start
+-- RestartNeededError                a running node was to take keys that it cannot
+-- UnsupportedPythonError            a Python without its GIL

KIP-50's four were never adopted: Kafka answers InvalidRequestException in each case, and so do they, by name
and code; in Python each case has its class.

Names end in Error as Python's do; ``kafka_name`` is the Java class's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from authorizer.api.secret_keys import HIDDEN, is_secret
from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    """The authorizer has not finished loading, or cannot trust what it has."""

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
    """An ACL that the cluster's metadata.version has none of yet."""

    kafka_name = "UnsupportedVersionException"
    code_name = "UNSUPPORTED_VERSION"


class ClusterAuthorizationError(ApiError):
    """The cluster whose log is followed does not let this node change its ACLs."""

    kafka_name = "ClusterAuthorizationException"
    code_name = "CLUSTER_AUTHORIZATION_FAILED"


class SecurityDisabledError(ApiError):
    """The cluster whose log is followed has no authorizer."""

    kafka_name = "SecurityDisabledException"
    code_name = "SECURITY_DISABLED"


class PolicyViolationError(ApiError):
    """More records than one operation may write."""

    kafka_name = "PolicyViolationException"
    code_name = "POLICY_VIOLATION"


class OperationTimedOutError(ApiError):
    """A write that was not answered in time: the text says whether it may be in the log."""

    kafka_name = "TimeoutException"
    code_name = "REQUEST_TIMED_OUT"


class PlanOutdatedError(ApiError):
    """A plan that was made for another meaning or log, or led to another meaning. Not one of Kafka's."""

    kafka_name = "PlanOutdatedException"
    code_name = "INVALID_REQUEST"


class MassRemovalError(ApiError):
    """A plan that removes a larger share of the ACLs than it may. Not one of Kafka's."""

    kafka_name = "MassRemovalException"
    code_name = "INVALID_REQUEST"


class UnknownServerError(ApiError):
    """Something that should not happen happened."""

    kafka_name = "UnknownServerException"


class AuthorizationError(ApiError):
    """KIP-50: root of what can be wrong with an ACL that is asked for."""

    kafka_name = "AuthorizationException"


class InvalidAclError(InvalidRequestError, AuthorizationError):
    """KIP-50: an ACL that cannot be: a permission type that is neither DENY nor ALLOW."""


class InvalidOperationError(InvalidRequestError, AuthorizationError):
    """KIP-50: an operation that no ACL can have."""


class InvalidPrincipalError(InvalidRequestError, AuthorizationError):
    """KIP-50: a principal without a type."""


class InvalidResourceError(InvalidRequestError, AuthorizationError):
    """KIP-50: a resource that cannot be: its type, its name or how that is to be read."""


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
    """What another node answered; UnknownServerError for a name that this build does not know."""
    return _BY_KAFKA_NAME.get(kafka_name, UnknownServerError)(message)


def kafka_error(code_name: str, message: str) -> ApiError:
    """What a cluster answered; UnknownServerError, with the code, for one that this build does not know."""
    kind = _BY_CODE_NAME.get(code_name)
    if kind is None and code_name != UnknownServerError.code_name:
        message = f"{code_name}: {message}"
    return (kind or UnknownServerError)(message)


class PlanUnreadableError(AuthorizerError):
    """Text that is no plan which this aclog can apply."""


class SidecarError(AuthorizerError):
    """A sidecar that was asked gave no answer to it.

    Attributes:
        status: the HTTP status of the answer; None where there was none.
        code: for programs, such as OFFSET_NOT_HELD (docs/http.md); None where the answer had none.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class SidecarUnavailableError(SidecarError):
    """It cannot be asked now. Nothing was changed.

    Attributes:
        retry_after_s: when to ask again, as the sidecar says; None where it does not say.
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
    """Nothing answers there, so nothing was sent."""


class SidecarOutcomeUnknownError(SidecarUnavailableError):
    """A change was sent, and it is not known what became of it: list the ACLs before trying again."""


class SidecarRefusedError(SidecarError):
    """Who asks is not known, or may not ask that; no decision about anybody."""


class SidecarRequestError(SidecarError):
    """The question cannot be answered as it is; asking again gives the same."""


class SidecarDefectError(SidecarError):
    """Something that should not happen happened there; its log has the traceback."""


class SidecarAnswerError(SidecarError):
    """What answers is no aclog node."""


class ConfigError(AuthorizerError):
    """A configuration value that stops the start.

    Attributes:
        key: the configuration key.
        value: what it was set to; hidden where that is a secret.
        allowed: what it may be.
    """

    def __init__(self, key: str, value: object, allowed: str) -> None:
        if is_secret(key):
            value = HIDDEN
        super().__init__(f"invalid value `{value}` for `{key}`: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class RestartNeededError(AuthorizerError):
    """Keys were to change in a running node that only a restart changes.

    Attributes:
        keys: which.
    """

    def __init__(self, keys: Sequence[str], dynamic: Sequence[str]) -> None:
        super().__init__(
            f"{', '.join(keys)}: this takes a restart, so nothing was changed. "
            f"What can change while it runs: {', '.join(dynamic)}"
        )
        self.keys = keys


class UnsupportedPythonError(AuthorizerError):
    """This Python runs without its global interpreter lock, which the index needs."""
