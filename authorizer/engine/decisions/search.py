"""Search: who may do an operation, and on which resources. `authorize` confirms every answer.

The candidates are principals of ACLs in force, of super.users and of the log's credentials; names of the
caller or of literal ACLs; and prefixes of ACLs. Results are sorted by text, so that a search can
continue after any of them. Nothing is counted or audited: no access is requested.
"""

from __future__ import annotations

from heapq import merge
from itertools import count, islice
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.api.audit_levels import OFF
from authorizer.api.authorizer_api import Action, AuthorizationResult, RequestContext
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.authorize import authorize_actions
from authorizer.engine.decisions.decision import DecisionCounts
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN, PREFIXED
from authorizer.engine.index.prefix_ranges import NO_PREFIX, enclosing_prefixes
from authorizer.engine.index.principal_index import NO_RIGHTS
from records.acl import WILDCARD, AclOperation, PatternType, ResourcePattern, ResourceType
from records.principal import WILDCARD_PRINCIPAL, KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.index.acl_index import AclIndex
    from records.columns.acl_table import AppliedAcl

# Names that one call decides, and names that one call sorts.
_NAMES_PER_BATCH: Final = 1024
_NAMES_PER_SORT: Final = 16_384
# The first character that is tried for a name that no ACL mentions: one for private use.
_UNUSED: Final = 0xE000
_SILENT: Final = AuditLog(OFF)


class Subjects:
    """The principals that may do an action, from one host.

    Attributes:
        is_anyone_allowed: whether a principal of the type without ACLs is: by an ACL for ``User:*``, or by
            ``allow.everyone.if.no.acl.found``.
    """

    def __init__(self, state: AuthorizerState, principal_type: str, host: str, action: Action) -> None:
        self._state = state
        self._type = principal_type
        self._host = host
        self._action = action
        self.is_anyone_allowed = self._is_allowed(_unnamed(state, principal_type))

    def names(self, after: str | None = None) -> Iterator[str]:
        """Yield the names of permitted principals, without ``*``: see ``is_anyone_allowed``."""
        for name in _in_order(self._candidates(), after):
            if self._is_allowed(name):
                yield name

    def _is_allowed(self, name: str) -> bool:
        context = RequestContext(KafkaPrincipal(self._type, name), self._host)
        return _allowed(self._state, context, [self._action])[0]

    def _candidates(self) -> set[str]:
        """Without a default ALLOW only super users and principals with a covering ACL are candidates."""
        index, pattern = self._state.index, self._action.resource_pattern
        if self.is_anyone_allowed:
            principals = mentioned_principals(index)
            principals |= index.image.metadata.known_principals
        else:
            principals = set()
            resources = index.resources
            for key in resources.covering_keys(pattern.resource_type, pattern.name):
                principals |= _principals(index, resources.rows_at(key, None), resources.added_at(key, None))
        principals.discard(WILDCARD_PRINCIPAL)
        found = set(self._state.settings.super_names.get(self._type, ()))
        for principal in principals:
            principal_type, colon, name = principal.partition(":")
            if colon and principal_type == self._type:
                found.add(name)
        return found


def allowed_names(
    state: AuthorizerState,
    context: RequestContext,
    operation: AclOperation,
    resource_type: ResourceType,
    names: Iterable[str],
    after: str | None = None,
) -> Iterator[str]:
    """Yield the names on which the principal may do the operation."""
    ordered = _in_order(names, after)
    while batch := list(islice(ordered, _NAMES_PER_BATCH)):
        actions = _actions(operation, resource_type, batch)
        for name, allowed in zip(batch, _allowed(state, context, actions), strict=True):
            if allowed:
                yield name


def mentioned_principals(index: AclIndex) -> set[str]:
    """Return the principals of ACLs in force."""
    return _principals(index, index.rows_of(None), index.added_of(None))


def mentioned_names(index: AclIndex, resource_type: ResourceType) -> set[str]:
    """Return the names of literal ACLs in force, of any principal; without ``*``."""
    columns, rows = index.rows.columns, index.rows_of(None)
    matches = (columns.resource_types[rows] == resource_type) & (
        columns.pattern_types[rows] == LITERAL_PATTERN
    )
    names = columns.names.texts_of(rows[matches])
    for acl in index.added_of(None):
        record = acl.record
        if (record.resource_type, record.pattern_type) == (resource_type, LITERAL_PATTERN):
            names.add(record.resource_name)
    names.discard(WILDCARD)
    return names


def allowed_prefixes(
    state: AuthorizerState, context: RequestContext, operation: AclOperation, resource_type: ResourceType
) -> tuple[list[str], list[str]]:
    """Return prefixes of names that the principal may access, and prefixes below them that it may not.

    For a name that no literal ACL mentions, the longest prefix in either list decides; without one it is
    denied. The empty prefix covers all names.
    """
    index = state.index
    candidates = {""}
    if state.settings.allow_everyone:
        # The default allows only names that no ACL covers.
        resources, kind = index.resources, resource_type + PREFIXED
        candidates.update(name for name in resources.names(resource_type) if resources.has((kind, name)))
    else:
        for rights_by_type in (index.principals.build(context.principal), index.principals.wildcard_rights):
            if rights_by_type is not None:
                covers = rights_by_type[resource_type].covers()
                candidates.update(cover.name for cover in covers if cover.prefixed)
    prefixes = sorted(candidates)
    names = [_unmentioned(index, resource_type, prefix) for prefix in prefixes]
    answers = _allowed(state, context, _actions(operation, resource_type, names))
    allowed: list[str] = []
    denied: list[str] = []
    enclosing = enclosing_prefixes((prefix, False) for prefix in prefixes)
    for prefix, answer, outer in zip(prefixes, answers, enclosing, strict=True):
        if answer is not (False if outer == NO_PREFIX else answers[outer]):
            (allowed if answer else denied).append(prefix)
    return allowed, denied


def exceptional_names(
    state: AuthorizerState,
    context: RequestContext,
    operation: AclOperation,
    resource_type: ResourceType,
    listed: Collection[str],
    prefixes: tuple[list[str], list[str]],
) -> tuple[list[str], list[str]]:
    """Return names of literal ACLs whose answer differs from their longest prefix: allowed, denied.

    Names that are ``listed`` are left out; ``prefixes`` is the result of `allowed_prefixes` for the search.
    """
    names = sorted(mentioned_names(state.index, resource_type).difference(listed))
    allowed_set = set(allowed_names(state, context, operation, resource_type, names))
    entries = [
        (prefix, False, is_allowed)
        for is_allowed, texts in zip((True, False), prefixes, strict=True)
        for prefix in texts
    ]
    entries += [(name, True, name in allowed_set) for name in names]
    entries.sort()
    allowed: list[str] = []
    denied: list[str] = []
    for (text, is_name, is_allowed), outer in zip(entries, enclosing_prefixes(entries), strict=True):
        if is_name and is_allowed is not (False if outer == NO_PREFIX else entries[outer][2]):
            (allowed if is_allowed else denied).append(text)
    return allowed, denied


def _allowed(state: AuthorizerState, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
    results = authorize_actions(state, context, actions, _SILENT, DecisionCounts())
    return [result is AuthorizationResult.ALLOWED for result in results]


def _actions(operation: AclOperation, resource_type: ResourceType, names: Iterable[str]) -> list[Action]:
    return [Action(operation, ResourcePattern(resource_type, name, PatternType.LITERAL)) for name in names]


def _in_order(names: Iterable[str], after: str | None) -> Iterator[str]:
    """The names after ``after``, sorted in parts: no other thread runs while Python sorts a list."""
    parts: list[list[str]] = []
    remaining = iter(names)
    while part := list(islice(remaining, _NAMES_PER_SORT)):
        parts.append(sorted(part if after is None else [name for name in part if name > after]))
    return merge(*parts)


def _principals(index: AclIndex, rows: npt.NDArray[np.int32], added: Iterable[AppliedAcl]) -> set[str]:
    found = index.rows.columns.principals.texts_of(rows)
    found.update(acl.record.principal for acl in added)
    return found


def _unnamed(state: AuthorizerState, principal_type: str) -> str:
    """A name of a principal without ACLs that is no super user."""
    rights_for = state.index.principals.rights_for
    super_names = state.settings.super_names.get(principal_type, frozenset())
    names = map(chr, count(_UNUSED))
    return next(
        name
        for name in names
        if name not in super_names and rights_for(KafkaPrincipal(principal_type, name))[0] is NO_RIGHTS
    )


def _unmentioned(index: AclIndex, resource_type: ResourceType, prefix: str) -> str:
    """A name with this prefix that no ACL mentions, and no longer prefix of an ACL covers."""
    kinds = (int(resource_type), resource_type + PREFIXED)
    names = (prefix + chr(number) for number in count(_UNUSED))
    return next(name for name in names if not any(index.resources.has((kind, name)) for kind in kinds))
