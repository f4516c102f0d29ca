"""Matrix cells of random sets of ACLs, and the steps between states, compared with brute force."""

from __future__ import annotations

import random

from authorizer.analysis.matrix.matrix import Cell, Matrix, Row, combine_cells, group_principals, outline
from authorizer.analysis.matrix.matrix_changes import MatrixChanges
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.engine.index.masks import EVERYTHING
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AppliedAcl
from snapshot.delta import AclsDelta
from snapshot.image import NOWHERE, AclsImage
from support import naive
from support.brute_force import HOSTS, OPERATIONS, PRINCIPALS, RequestKind, answers, covered_by, random_pair

GROUP = ResourceType.GROUP
PAIRS = 300
#: The operations of the brute force, as a bit mask.
OPERATIONS_MASK = sum(1 << operation - AclOperation.ALL for operation in OPERATIONS)


def truth(answered: dict[RequestKind, int], principal: str, names: int) -> Cell:
    always, sometimes, by_host = OPERATIONS_MASK, 0, 0
    for operation in OPERATIONS:
        bit = 1 << operation - AclOperation.ALL
        found = [answered[RequestKind(principal, host, operation)] & names for host in HOSTS]
        if any(each != names for each in found):
            always &= ~bit
        if any(found):
            sometimes |= bit
        if len(set(found)) > 1:
            by_host |= bit
    return Cell(always, sometimes, by_host)


def restricted(cell: Cell) -> Cell:
    return Cell(*(mask & OPERATIONS_MASK for mask in cell))


def image_of(before: AclsImage, records: list[object]) -> AclsImage:
    delta = AclsDelta(before)
    for record in records:
        delta.put(AppliedAcl(record, None, 0))  # type: ignore[arg-type]
    return delta.apply(NOWHERE)


def test_cells_and_decision_changes_equal_brute_force() -> None:
    rng = random.Random(18)
    for number in range(PAIRS):
        pair = random_pair(rng)
        settings = AuthorizerSettings(
            frozenset(("User:b",)) if number % 7 == 0 else frozenset(), allow_everyone=number % 5 == 0
        )
        plain = naive.Settings(settings.super_users, settings.allow_everyone)
        first = image_of(AclsImage.EMPTY, list(pair[0]))
        # The second image shares the columns of the first, as successive states do.
        base = first.merged()
        next_delta = AclsDelta(base)
        for acl in base:
            next_delta._remove(acl.record.id)
        for record in pair[1]:
            next_delta.put(AppliedAcl(record, None, 0))
        indexes = [settings.index(base), settings.index(next_delta.apply(NOWHERE))]
        matrices = [Matrix.of(indexes[0], settings, GROUP)]
        before = matrices[0].columns(list(PRINCIPALS))
        matrices.append(matrices[0].at(indexes[1], settings))
        alone = Matrix.of(indexes[1], settings, GROUP)
        assert matrices[1].keys == alone.keys, pair
        assert matrices[1].principals == alone.principals, pair
        records = [[acl.record for acl in index.image] for index in indexes]
        truths = [answers(each, plain, GROUP) for each in records]
        keys = sorted({*matrices[0].keys, *matrices[1].keys, ("", False), ("a", False), ("ab", True)})
        flips = matrices[1].changes_since(matrices[0], list(PRINCIPALS))
        for principal, old, new, (granted, revoked) in zip(
            PRINCIPALS, before, matrices[1].columns(list(PRINCIPALS)), flips, strict=True
        ):
            for text, is_name in keys:
                names = 0 if is_name and text == "*" else covered_by(text, is_prefix=not is_name)
                if not names:
                    continue
                at = [truth(each, principal, names) for each in truths]
                assert restricted(old.cell((text, is_name))) == at[0], (pair, principal, text, is_name)
                assert restricted(new.cell((text, is_name))) == at[1], (pair, principal, text, is_name)
                changed = [
                    {kind: one[kind] & ~other[kind] for kind in one}
                    for one, other in ((truths[1], truths[0]), (truths[0], truths[1]))
                ]
                for column, expected in zip((granted, revoked), changed, strict=True):
                    assert restricted(column.cell((text, is_name))) == truth(expected, principal, names), pair


def test_only_changed_rows_and_principals_have_a_changed_cell() -> None:
    rng = random.Random(184)
    for number in range(PAIRS // 3):
        pair = random_pair(rng)
        settings = AuthorizerSettings(allow_everyone=number % 5 == 0)
        images = [image_of(AclsImage.EMPTY, list(each)) for each in pair]
        if number % 2:
            # A small step from the first state, which shares its columns.
            delta = AclsDelta(images[0])
            for record in pair[1][:2]:
                delta.put(AppliedAcl(record, None, 0))
            images[1] = delta.apply(NOWHERE)
        matrices = [Matrix.of(settings.index(each), settings, GROUP) for each in images]
        principals = (None, *PRINCIPALS)
        changes = MatrixChanges(matrices[0], matrices[1], principals)
        keys = sorted({*matrices[0].keys, *matrices[1].keys, ("a", False), ("ab", True)} - {("", False)})
        rows = [Row(key, 0) for key in [("", False), *keys]]
        columns = dict(zip(principals, matrices[1].changes_since(matrices[0], principals), strict=True))
        is_changed = {
            (principal, row): any(each.cell(row.key).sometimes for each in columns[principal])
            for principal in principals
            for row in rows
        }
        assert changes.rows(rows) == rows[:1] + [
            row for row in rows[1:] if any(is_changed[each, row] for each in principals)
        ], pair
        for row in rows:
            expected = {each for each in principals if is_changed[each, row]}
            assert changes.principals(row) == expected, (pair, row)


def test_a_team_cell_tells_what_all_and_what_some_members_may() -> None:
    rng = random.Random(181)
    for _ in range(60):
        first, _ = random_pair(rng)
        settings = AuthorizerSettings()
        image = image_of(AclsImage.EMPTY, list(first))
        matrix = Matrix.of(settings.index(image), settings, GROUP)
        answered = answers(
            [acl.record for acl in image], naive.Settings(frozenset(), allow_everyone=False), GROUP
        )
        for text, is_name in matrix.keys:
            names = covered_by(text, is_prefix=not is_name)
            cell = combine_cells(column.cell((text, is_name)) for column in matrix.columns(list(PRINCIPALS)))
            each = [truth(answered, principal, names) for principal in PRINCIPALS]
            every, some, by_host = OPERATIONS_MASK, 0, 0
            for one in each:
                every, some, by_host = every & one.always, some | one.sometimes, by_host | one.by_host
            assert restricted(cell) == Cell(every, some, by_host), (first, text, is_name)


def test_denied_operations_are_those_of_deny_acls_on_names_of_the_row() -> None:
    rng = random.Random(183)
    for number in range(200):
        first, _ = random_pair(rng)
        settings = AuthorizerSettings(frozenset(("User:b",)) if number % 5 == 0 else frozenset())
        image = image_of(AclsImage.EMPTY, list(first))
        matrix = Matrix.of(settings.index(image), settings, GROUP)
        for text, is_name in [*matrix.keys, ("", False), ("a", False), ("ab", True)]:
            names = covered_by(text, is_prefix=not is_name)
            for principal in (*PRINCIPALS, None):
                expected = 0
                for each in (acl.record for acl in image):
                    if each.principal not in (principal, "User:*") or each.resource_type != GROUP:
                        continue
                    covered = covered_by(
                        each.resource_name, is_prefix=each.pattern_type == PatternType.PREFIXED
                    )
                    if each.permission_type == AclPermissionType.DENY and names & covered:
                        is_every = each.operation == AclOperation.ALL
                        expected |= EVERYTHING if is_every else 1 << each.operation - AclOperation.ALL
                if principal in settings.super_users:
                    expected = 0
                found = matrix.denied(principal, (text, is_name))
                assert found & OPERATIONS_MASK == expected & OPERATIONS_MASK, (
                    first,
                    principal,
                    text,
                    is_name,
                )


def test_teams_are_the_next_name_parts_of_all_principals() -> None:
    rng = random.Random(182)
    for _ in range(200):
        names = ["".join(rng.choices("ab.-", k=rng.randrange(1, 7))) for _ in range(rng.randrange(1, 12))]
        principals = sorted({f"{rng.choice(('User', 'Some-Type'))}:{name}" for name in names})
        under = rng.choice(["", *(each[: len(each) - 1] for each in principals if each[-2] != ":")])
        inside = [each for each in principals if each.startswith(under)]
        rows = group_principals(principals, under)
        assert sum(row.inside or 1 for row in rows) == len(inside)
        # A type alone is no team, and one team alone is open.
        assert all(":" in row.key[0][:-1] for row in rows)
        assert len(rows) > 1 or not any(row.inside for row in rows)


def test_rows_are_the_next_name_parts_of_all_names() -> None:
    rng = random.Random(180)
    for _ in range(200):
        texts = ["".join(rng.choices("ab.-", k=rng.randrange(1, 7))) for _ in range(rng.randrange(12))]
        keys = sorted({(text, rng.random() < 0.5) for text in texts})
        under = rng.choice(["", *(text[: rng.randrange(len(text) + 1)] for text in texts)])
        rows = outline(keys, under)
        inside = [key for key in keys if key[0].startswith(under) and key != (under, False)]
        assert rows[0] == Row((under, False), 0)
        assert sum(row.inside or 1 for row in rows[1:]) == len(inside)
        shown = [row.key for row in rows[1:]]
        assert shown == sorted(shown)
        for key in inside:
            assert any(row == key or (not row[1] and key[0].startswith(row[0])) for row in shown)
        # An opened row never contains itself.
        assert all(row.key[0] != under for row in rows[1:] if row.inside)
        some = outline(keys, under, "B")
        assert sum(row.inside or 1 for row in some[1:]) == sum("b" in text for text, _ in inside)


def test_a_super_user_may_everything() -> None:
    settings = AuthorizerSettings(frozenset(("User:root",)))
    matrix = Matrix.of(settings.index(AclsImage.EMPTY), settings, ResourceType.TOPIC)
    (column,) = matrix.columns(["User:root"])
    assert column.cell(("orders", True)) == Cell(EVERYTHING, EVERYTHING)
    assert matrix.principals == {"User:root"}
