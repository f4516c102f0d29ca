"""Kafka's messages of errors (Errors.java), for answers that have no message of their own."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

ERROR_MESSAGES: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.illegal_sasl_state: "Request is not valid given the current SASL state.",
    ErrorCode.invalid_request: (
        "This most likely occurs because of a request being malformed by the client library or the message "
        "was sent to an incompatible broker. See the broker logs for more details."
    ),
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.unknown_server_error: (
        "The server experienced an unexpected error when processing the request."
    ),
}
