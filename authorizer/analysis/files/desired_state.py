"""A file of ``aclog plan``: the desired state of a set of ACLs, or changes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from authorizer.analysis.acl_comparison import ChangedAcls
from authorizer.analysis.files.acl_file import acls_of
from authorizer.analysis.files.change_file import steps_of
from authorizer.analysis.files.lines import wrong_line
from authorizer.analysis.plan import with_replacements
from authorizer.api.errors import ApiError
from authorizer.engine.acl_validation import matching_records, validate_binding
from records.columns.acl_table import AclTable, AppliedAcl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.analysis.files.acl_file import NumberedAcl
    from authorizer.analysis.files.change_file import Step
    from authorizer.analysis.files.lines import Line
    from authorizer.analysis.files.scope import Scope
    from records.entries import AccessControlEntryRecord, AclContent


class DesiredStateFile(NamedTuple):
    """A file that was read.

    Attributes:
        path: for errors.
        steps: what it changes; None where it is a set that is wanted.
        acls: that set.
    """

    path: str
    steps: list[Step] | None
    acls: list[NumberedAcl]

    @classmethod
    def of(cls, lines: list[Line], path: str) -> DesiredStateFile:
        """Parse the lines of a file. DecodeError names the line that is wrong."""
        steps = steps_of(lines, path)
        return cls(path, steps, [] if steps is not None else acls_of(lines, path))

    def emptied(self, table: AclTable, scope: Scope | None) -> int:
        """How many ACLs of ``table`` are in the scope, if the file is a set that has none there; else 0."""
        if self.steps is not None or scope is None:
            return 0
        wanted = _table([record for _, record in self.acls])
        return 0 if scope.rows(wanted).any() else int(scope.rows(table).sum())

    def changed(self, table: AclTable, scope: Scope | None, note: Callable[[str], None]) -> ChangedAcls:
        """What it changes in ``table``.

        Args:
            table: the ACLs that there are.
            scope: of what it speaks, where it is a set that is wanted; nothing else is removed.
            note: takes what is to be known beside.

        Raises:
            DecodeError: an ACL that would be added is none that Kafka takes; its line is named.
        """
        if self.steps is None:
            after = self._with_wanted(table, scope, note)
        else:
            after = _stepped(table, self.steps, self.path, note)
        changed = ChangedAcls.between(table, after)
        self._validate(changed.added)
        return changed

    def _with_wanted(self, table: AclTable, scope: Scope | None, note: Callable[[str], None]) -> AclTable:
        wanted = _table([record for _, record in self.acls])
        if scope is None:
            if extra := len(ChangedAcls.between(table, wanted).removed):
                note(
                    f"{extra} ACLs are there and not in {self.path}; they stay, as it was not said of "
                    "what the file speaks: --all, --principal, --topic, ..."
                )
            return AclTable.concat([table, wanted])
        is_in = scope.rows(wanted)
        if outside := len(wanted) - int(is_in.sum()):
            note(f"{outside} ACLs of {self.path} are not in the scope, and passed by")
        return AclTable.concat([table.take(~scope.rows(table)), wanted.take(is_in)])

    def _validate(self, added: AclTable) -> None:
        contents = {acl.record.content for acl in added}
        given = (
            self.acls
            if self.steps is None
            else [(step.line, record) for step in self.steps for record in step.add]
        )
        for number, record in given:
            if record.content in contents:
                try:
                    validate_binding(record.binding())
                except ApiError as error:
                    raise wrong_line(str(error), self.path, number) from error


def _stepped(table: AclTable, steps: Sequence[Step], path: str, note: Callable[[str], None]) -> AclTable:
    """The table after all steps, in order."""
    there = [acl.record for acl in table] if any(step.remove_matching for step in steps) else []
    added: dict[AclContent, AccessControlEntryRecord] = {}
    removed: dict[AclContent, None] = {}
    for step in steps:
        removing = {record.content: None for record in step.remove}
        for wanted in step.remove_matching:
            for records in (there, added.values()):
                removing |= dict.fromkeys(record.content for record in matching_records(records, wanted))
        if step.remove_matching and not removing:
            note(f"{path} line {step.line} removes nothing: there is no such ACL")
        for content in removing:
            added.pop(content, None)
        removed |= removing
        added |= {record.content: record for record in step.add}
    return with_replacements(table, [*removed], [*added])


def _table(records: Sequence[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])
