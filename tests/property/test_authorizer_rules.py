"""The stated rules of deciding (engine/decisions/rules.py), the definition and the masks give one answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.ip_address import host_matches
from authorizer.engine.decisions.rules import acl_principals, covers_operation, is_super_user, verdict
from records.entries import AccessControlEntryRecord
from support import naive
from support.acl_strategies import acls, naive_requests, request_of
from support.decisions import Fed

SUPER_USER = "User:b"


@given(
    st.lists(acls(), max_size=10, unique_by=lambda acl: acl.id),
    st.lists(naive_requests(), min_size=1, max_size=8),
    st.booleans(),
)
def test_rules_masks_and_definition_agree(
    records: list[AccessControlEntryRecord], requests: list[naive.Request], allow_everyone: bool
) -> None:
    allow_config = str(allow_everyone).lower()
    fed = Fed(*records, super_users=SUPER_USER, allow_everyone_if_no_acl_found=allow_config)
    authorizer = fed.authorizer
    settings = naive.Settings(frozenset({SUPER_USER}), allow_everyone)
    for request in requests:
        context, action = request_of(request)
        decision = authorizer.decide(context, action)
        covering = [acl for acl in records if naive.covers(acl, request.resource_type, request.name)]
        matching = [
            acl
            for acl in covering
            if acl.principal in acl_principals(context.principal)
            and host_matches(acl.host, request.host, networks=False)
            and covers_operation(acl, request.operation)
        ]
        if is_super_user(authorizer.state.settings.super_names, context.principal):
            stated = True, "SuperUser"
        else:
            allowed, rule = verdict(matching, is_covered=bool(covering), allow_everyone=allow_everyone)
            stated = allowed, rule.value

        assert stated == naive.decide(records, request, settings)
        assert stated == (decision.is_allowed, decision.rule.value)
