"""An explanation that another node made, from its JSON."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from authorizer.api.acl_json import applied_acl_from_json
from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.api.kafka_version import VersionInForce
from authorizer.engine.decisions.decision import Decision, Rule
from authorizer.engine.explanation.explain import Explanation
from authorizer.engine.explanation.near_misses import NearMiss
from authorizer.engine.explanation.other_hosts import OtherHosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext


def explanation_from_json(
    shown: Mapping[str, Any], context: AuthorizableRequestContext, action: Action
) -> Explanation:
    """The explanation of this question whose ``to_json`` this is.

    Raises:
        KeyError, ValueError: it is none's.
    """
    acl = shown["acl"]
    rule = Rule(shown["rule"].partition("(")[0])
    return Explanation(
        context=context,
        action=action,
        decision=Decision(
            AuthorizationResult(shown["result"]), rule, None if acl is None else applied_acl_from_json(acl)
        ),
        end_offset=shown["offset"],
        reason=shown["reason"],
        also_matched=tuple(applied_acl_from_json(each) for each in shown["alsoMatched"]),
        near_misses=tuple(
            NearMiss(applied_acl_from_json(each["acl"]), each["field"], each["has"], each["asked"])
            for each in shown["nearMisses"]
        ),
        remark=shown["remark"],
        notes=tuple(shown["notes"]),
        other_hosts=_other_hosts(shown.get("otherHosts")),
        kafka_version=VersionInForce.from_json(shown["kafkaVersion"]),
        # Each begins with the name of Kafka's command.
        fix=tuple(tuple(shlex.split(command)[1:]) for command in shown["fix"]),
    )


def _other_hosts(shown: Mapping[str, Any] | None) -> OtherHosts | None:
    """Those that are listed."""
    if shown is None:
        return None
    return OtherHosts(shown["result"], tuple(shown["hosts"]), tuple(shown["but"]))
