"""Decisions so far, by result and rule, for metrics."""

from __future__ import annotations


class DecisionCounts:
    """How many actions were decided, and how.

    Plain increments: exact under the interpreter lock, which is never given up within one; on a build without
    that lock a few may be lost. Nothing decides by them.

    Attributes:
        not_ready: calls that got AUTHORIZER_NOT_READY, which is no decision.
    """

    __slots__ = (
        "acl_allowed",
        "acl_denied",
        "default_allowed",
        "default_denied",
        "not_ready",
        "super_user_allowed",
    )

    def __init__(self) -> None:
        self.super_user_allowed = 0
        self.acl_allowed = 0
        self.acl_denied = 0
        self.default_allowed = 0
        self.default_denied = 0
        self.not_ready = 0

    @property
    def allowed(self) -> int:
        return self.super_user_allowed + self.acl_allowed + self.default_allowed

    @property
    def denied(self) -> int:
        return self.acl_denied + self.default_denied
