"""Kafka's exceptions, with Kafka's class and error-code names (KIP-50, KIP-504, KIP-801).

Below AclogError of records.errors:

AuthorizerError
+-- ApiError                          what a broker would answer a client with
|   +-- AuthorizerNotReadyError       AUTHORIZER_NOT_READY: not loaded yet; never a DENIED (I4)
|   +-- InvalidRequestError           INVALID_REQUEST: a binding or filter that cannot be
|   |   +-- InvalidAclError, InvalidOperationError, InvalidPrincipalError, InvalidResourceError
|   +-- AuthorizationError            KIP-50's family: the same four
|   +-- NotControllerError            NOT_CONTROLLER: this node cannot write
|   +-- PolicyViolationError          POLICY_VIOLATION: too many records in one operation
|   +-- OperationTimedOutError        REQUEST_TIMED_OUT: the outcome of a write is not known, or none
|   +-- UnknownServerError            UNKNOWN_SERVER_ERROR
+-- ConfigError                       a configuration value that stops the start
+-- UnsupportedPythonError            a Python without its GIL

KIP-50's four were never adopted: Kafka answers InvalidRequestException in each case, and so do they, by name
and code; in Python each case has its class.

Names end in Error as Python's do; ``kafka_name`` is the Java class's.
"""

from __future__ import annotations

from typing import ClassVar, Final

from authorizer.configuration.secret_keys import HIDDEN, is_secret
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


class PolicyViolationError(ApiError):
    """More records than one operation may write."""

    kafka_name = "PolicyViolationException"
    code_name = "POLICY_VIOLATION"


class OperationTimedOutError(ApiError):
    """A write that was not answered in time: the text says whether it may be in the log."""

    kafka_name = "TimeoutException"
    code_name = "REQUEST_TIMED_OUT"


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


_BY_KAFKA_NAME: Final = {
    each.kafka_name: each
    for each in (
        AuthorizerNotReadyError,
        InvalidRequestError,
        NotControllerError,
        OperationTimedOutError,
        PolicyViolationError,
    )
}


def api_error(kafka_name: str, message: str) -> ApiError:
    """What another node answered; UnknownServerError for a name that this build does not know."""
    return _BY_KAFKA_NAME.get(kafka_name, UnknownServerError)(message)


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


class UnsupportedPythonError(AuthorizerError):
    """This Python runs without its global interpreter lock, which the index needs."""
