"""Plans between random sets: the changes in the order of their requests, the result and the reverse plan."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.plans.plan import AclPlan, PlanOrigin, with_replacements
from authorizer.api.authorizer_api import Action, AuthorizationResult, RequestContext
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from authorizer.engine.index.acl_index import AclIndex
from records.acl import AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import content_uuid
from records.principal import KafkaPrincipal
from snapshot.image import image_of

CONTENTS = st.tuples(
    st.just(int(ResourceType.GROUP)),
    st.sampled_from(["a", "ab", "*"]),
    st.sampled_from([int(PatternType.LITERAL), int(PatternType.PREFIXED)]),
    st.sampled_from(["User:a", "User:*"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from([int(AclOperation.READ), int(AclOperation.DESCRIBE), int(AclOperation.ALL)]),
    st.sampled_from([int(AclPermissionType.ALLOW), int(AclPermissionType.DENY)]),
)
SETS = st.lists(CONTENTS, max_size=6, unique=True)
REQUESTS = [
    (RequestContext(KafkaPrincipal("User", name), host), Action(operation, pattern))
    for name, host, operation, pattern in product(
        ("a", "b"),
        ("10.0.0.1", "10.0.0.2"),
        (AclOperation.READ, AclOperation.DESCRIBE),
        [ResourcePattern(ResourceType.GROUP, text, PatternType.LITERAL) for text in ("a", "ab", "abc", "c")],
    )
]


def table_of(contents: list[tuple[int, str, int, str, str, int, int]]) -> AclTable:
    records = [AccessControlEntryRecord(content_uuid(content), *content) for content in contents]
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


def allowed(table: AclTable, configured: AuthorizerSettings) -> set[int]:
    index = AclIndex.of(image_of(table))
    state = AuthorizerState(index, configured, is_ready=True, not_ready_reason="")
    return {
        number
        for number, request in enumerate(REQUESTS)
        if decide(state, *request).result is AuthorizationResult.ALLOWED
    }


@given(SETS, SETS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_step_allows_what_is_allowed_neither_before_nor_after(
    current: list[tuple[int, str, int, str, str, int, int]],
    desired: list[tuple[int, str, int, str, str, int, int]],
    allow_everyone: bool,
) -> None:
    configured = AuthorizerSettings(allow_everyone=allow_everyone)
    before, after = table_of(current), table_of(desired)
    permissions = EffectivePermissions.of(before, configured)
    changed = ChangedAcls.between(before, after)
    created = AclPlan.of(PlanOrigin("x", "c"), image_of(before), changed, configured)
    plan = AclPlan.from_json(created.to_json())
    assert plan == created
    first, last = allowed(before, configured), allowed(after, configured)
    step = before
    for added in plan.added:
        step = with_replacements(step, (), [added])
        assert allowed(step, configured) <= first | last
        assert allow_everyone or first & last <= allowed(step, configured)
    for removed in plan.removed:
        step = with_replacements(step, [removed], ())
        assert allowed(step, configured) <= first | last
        assert allow_everyone or first & last <= allowed(step, configured)
        assert EffectivePermissions.of(plan.reverted(step), configured) == permissions
    for table in (step, plan.applied_to(before)):
        assert {acl.record.content for acl in table} == set(desired)
    plan.require_unchanged_permissions(image_of(before))
