"""File of ``aclog plan``: the desired state of a set of ACLs in a scope, or changes to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from authorizer.analysis.files.acl_file import NumberedAcl, parse_acls
from authorizer.analysis.files.change_file import Step, parse_steps
from authorizer.analysis.files.parsing import Line, line_error
from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.plans.plan import with_replacements
from authorizer.analysis.request_space.name_space import Key
from authorizer.api.errors import ApiError
from authorizer.engine.acl_validation import matching_records, validate_binding
from records.acl import PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord, AclContent


class Scope(NamedTuple):
    """ACLs of the principals on the resources; an empty tuple does not restrict.

    Attributes:
        principals: as ``Type:name``.
        resources: types with a name, which selects literal ACLs only, or with a prefix of names.
    """

    principals: tuple[str, ...] = ()
    resources: tuple[tuple[ResourceType, Key], ...] = ()

    def rows(self, table: AclTable) -> Any:
        is_in = np.ones(len(table), np.bool_)
        if self.principals:
            is_in &= table.principals.where(set(self.principals).__contains__)
        if self.resources:
            is_on_resource = np.zeros(len(table), np.bool_)
            for kind, key in self.resources:
                is_on_resource |= (table.resource_types == kind) & _has_name(table, *key)
            is_in &= is_on_resource
        return is_in


def _has_name(table: AclTable, name: str, is_name: bool) -> Any:
    if is_name:
        return table.names.where(name.__eq__) & (table.pattern_types == PatternType.LITERAL)
    return table.names.where(lambda text: text.startswith(name))


class DesiredStateFile(NamedTuple):
    """A parsed file; ``steps``: the changes; None if the file is a desired state."""

    path: str
    steps: list[Step] | None
    acls: list[NumberedAcl]

    @classmethod
    def of(cls, lines: list[Line], path: str) -> DesiredStateFile:
        """Parse the lines of a file. A DecodeError names the wrong line."""
        steps = parse_steps(lines, path)
        return cls(path, steps, [] if steps is not None else parse_acls(lines, path))

    def count_emptied(self, table: AclTable, scope: Scope | None) -> int:
        """Return how many ACLs a desired state removes that has no ACL in the scope; else 0."""
        if self.steps is not None or scope is None:
            return 0
        desired = _table([record for _, record in self.acls])
        return 0 if scope.rows(desired).any() else int(scope.rows(table).sum())

    def changes_to(self, table: AclTable, scope: Scope | None, note: Callable[[str], None]) -> ChangedAcls:
        """Return the changes to ``table``; of a desired state only those in ``scope``, which may remove ACLs.

        ``note`` is called with each note for the user. A DecodeError names the line of an ACL that Kafka
        would refuse.
        """
        if self.steps is None:
            after = self._with_desired(table, scope, note)
        else:
            after = _after_steps(table, self.steps, self.path, note)
        changed = ChangedAcls.between(table, after)
        self._validate(changed.added)
        return changed

    def _with_desired(self, table: AclTable, scope: Scope | None, note: Callable[[str], None]) -> AclTable:
        desired = _table([record for _, record in self.acls])
        if scope is None:
            if extra := len(ChangedAcls.between(table, desired).removed):
                note(
                    f"{extra} ACLs exist and are not in {self.path}; they are kept, because no scope is set: "
                    "--all, --principal, --topic, ..."
                )
            return AclTable.concat([table, desired])
        is_in = scope.rows(desired)
        if outside := len(desired) - int(is_in.sum()):
            note(f"{outside} ACLs of {self.path} are outside of the scope, and ignored")
        return AclTable.concat([table.take(~scope.rows(table)), desired.take(is_in)])

    def _validate(self, added: AclTable) -> None:
        contents = {acl.record.content for acl in added}
        numbered = (
            self.acls
            if self.steps is None
            else [(step.line, record) for step in self.steps for record in step.add]
        )
        for number, record in numbered:
            if record.content in contents:
                try:
                    validate_binding(record.binding())
                except ApiError as error:
                    raise line_error(str(error), self.path, number) from error


def _after_steps(table: AclTable, steps: Sequence[Step], path: str, note: Callable[[str], None]) -> AclTable:
    existing = [acl.record for acl in table] if any(step.remove_matching for step in steps) else []
    added: dict[AclContent, AccessControlEntryRecord] = {}
    removed: dict[AclContent, None] = {}
    for step in steps:
        removing = {record.content: None for record in step.remove}
        for acl_filter in step.remove_matching:
            for records in (existing, added.values()):
                removing |= dict.fromkeys(record.content for record in matching_records(records, acl_filter))
        if step.remove_matching and not removing:
            note(f"{path} line {step.line} removes nothing: there is no such ACL")
        for content in removing:
            added.pop(content, None)
        removed |= removing
        added |= {record.content: record for record in step.add}
    return with_replacements(table, [*removed], [*added])


def _table(records: Sequence[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])
