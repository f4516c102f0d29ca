"""Comparisons of the console: short ones never wait for long ones; limits and cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import decision_changes_by, widest_change
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.plans.plan import AclPlan, PlanOrigin
from authorizer.api.acl_json import content_from_json
from authorizer.api.http.error_code import ErrorCode
from authorizer.console.console_proxy import ConsoleProxy
from authorizer.console.threads import ComparisonScheduler
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.workers.socket_directory import SocketDirectory
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import content_uuid
from records.principal import KafkaPrincipal
from snapshot.image import image_of
from support.json_acls import acl
from support.nodes import SOON_S
from support.waiting import wait_until


class Client:
    """A client, until it disconnects."""

    def __init__(self, body: bytes | None = None) -> None:
        self.leaves = asyncio.Event()
        self._messages = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]
        load = SimpleNamespace(
            require_size=lambda _: None, hold=lambda _: None, require_value_count=lambda _: None
        )
        listener = SimpleNamespace(has_console=True, name="PLAINTEXT")
        origin = SimpleNamespace(listener=listener, principal=KafkaPrincipal("User", "ANONYMOUS"))
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/console/v1/plan",
            "query_string": b"",
            "headers": [],
            "client": ("127.0.0.1", 1),
            "app": SimpleNamespace(load=load),
            "state": {"origin": origin, "peer": SimpleNamespace(is_proxy=False), "held_bytes": 0},
        }
        self.request = Request(scope, self._receive)

    async def _receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop()
        await self.leaves.wait()
        return {"type": "http.disconnect"}


class Endless:
    """A computation that runs until it is cancelled; ``runs`` counts its starts."""

    def __init__(self) -> None:
        self.runs = 0
        self.ended = threading.Event()

    def __call__(self, check_cancelled: Callable[[], None]) -> None:
        self.runs += 1
        try:
            while True:
                check_cancelled()
        except Exception:
            if self.runs > 1:
                self.ended.set()
            raise


def has_restarted(work: Endless) -> bool:
    return work.runs == 2


def first_of(found: int, _: Callable[[], None]) -> int:
    return found


async def reach(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition)


def test_short_comparisons_never_wait_for_a_long_one_which_ends_with_its_client() -> None:
    async def compare() -> None:
        scheduler, clients, works = (
            ComparisonScheduler(short_limit_s=0.02),
            (Client(), Client()),
            (Endless(), Endless()),
        )
        first = asyncio.create_task(scheduler.run(clients[0].request, works[0]))
        await reach(lambda: works[0].runs == 2)
        second = asyncio.create_task(scheduler.run(clients[1].request, works[1]))
        await reach(lambda: works[1].runs == 1)
        # The first one is a long comparison by now; the second one becomes one, and waits for it.
        async with asyncio.timeout(SOON_S):
            for number in range(10):
                assert await scheduler.run(Client().request, partial(first_of, number)) == number
        assert not first.done()
        assert not second.done()
        for client, work, running in zip(clients, works, (first, second), strict=True):
            await reach(partial(has_restarted, work))
            client.leaves.set()
            with pytest.raises(ConnectionResetError):
                await running
            # The thread has noticed it, and the next comparison starts.
            assert await asyncio.to_thread(work.ended.wait, SOON_S)

    asyncio.run(compare())


def test_a_queued_comparison_ends_with_its_client() -> None:
    async def compare() -> None:
        scheduler = ComparisonScheduler(short_limit_s=0.02)
        first, second, endless, waiting = Client(), Client(), Endless(), Endless()
        running = asyncio.create_task(scheduler.run(first.request, endless))
        await reach(lambda: endless.runs == 2)
        queued = asyncio.create_task(scheduler.run(second.request, waiting))
        await reach(lambda: waiting.runs == 1)
        second.leaves.set()
        with pytest.raises(ConnectionResetError):
            await queued
        first.leaves.set()
        with pytest.raises(ConnectionResetError):
            await running
        assert waiting.runs == 1

    asyncio.run(compare())


def test_a_long_comparison_has_a_limit() -> None:
    async def compare() -> None:
        scheduler, endless = ComparisonScheduler(short_limit_s=0.02, long_limit_s=0.02), Endless()
        with pytest.raises(HttpError, match="use `aclog plan`") as raised:
            await scheduler.run(Client().request, endless)
        assert raised.value.code is ErrorCode.OVERLOADED
        assert endless.runs == 2

    asyncio.run(compare())


def test_a_proxied_request_is_cancelled_with_its_client(tmp_path: Path) -> None:
    """The worker closes its connection to the console process, which then ends the work."""
    place = SocketDirectory(tmp_path)

    async def ask() -> None:
        requested, closed = asyncio.Event(), asyncio.Event()

        async def never_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            requested.set()
            while await reader.read(1024):
                pass
            closed.set()
            writer.close()

        client = Client(body=b"{}")
        async with await asyncio.start_unix_server(never_answers, place.console_socket):
            answering = asyncio.create_task(ConsoleProxy(place).answer(client.request))
            async with asyncio.timeout(SOON_S):
                await requested.wait()
                client.leaves.set()
                with pytest.raises(ConnectionResetError):
                    await answering
                await closed.wait()

    asyncio.run(ask())


class _EndedError(Exception):
    pass


def table(*acls: dict[str, str]) -> AclTable:
    contents = map(content_from_json, acls)
    records = [AccessControlEntryRecord(content_uuid(content), *content) for content in contents]
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


def test_every_step_of_a_plan_can_be_cancelled_between_two_principals() -> None:
    """The decision changes, the effective permissions, and the check before a plan is applied."""
    principals = 50
    prefix_acls = [acl("", f"User:{number}", patternType="PREFIXED") for number in range(principals)]
    before = table(*prefix_acls)
    changed = ChangedAcls(table(), table(*(acl(f"t-{number}", "User:*") for number in range(5))))
    settings = AuthorizerSettings()
    image = image_of(before)
    plan = AclPlan.of(PlanOrigin("log", "c"), image, changed, settings)
    other = image_of(table(*prefix_acls, acl("x", "User:x")))
    for work in (
        lambda check: decision_changes_by(changed, before, settings, check),
        lambda check: EffectivePermissions.digest_of(before, settings, check_cancelled=check),
        lambda check: AclPlan.of(PlanOrigin("log", "c"), image, changed, settings, None, check),
        lambda check: plan.require_unchanged_permissions(other, check),
    ):
        calls = 0

        def check() -> None:
            nonlocal calls
            calls += 1
            if calls >= principals // 2:
                raise _EndedError

        with pytest.raises(_EndedError):
            cast("Callable[[Callable[[], None]], object]", work)(check)
        assert calls == principals // 2


def test_the_change_with_the_widest_effect_is_found() -> None:
    """From narrow to wide: one principal or all, revoked or granted, one name or a prefix."""
    before = table(acl("lost"), acl("lost-for-all", "User:*"))
    changes = [
        ChangedAcls(table(acl("lost")), table()),
        ChangedAcls(table(), table(acl("new"))),
        ChangedAcls(table(), table(acl("team.", patternType="PREFIXED"))),
        ChangedAcls(table(), table(acl("t", patternType="PREFIXED"))),
        ChangedAcls(table(acl("lost-for-all", "User:*")), table()),
        ChangedAcls(table(), table(acl("new-for-all", "User:*"))),
    ]
    found = []
    for changed in changes:
        found += decision_changes_by(changed, before, AuthorizerSettings())
        assert widest_change(found) is found[-1]
        assert widest_change(reversed(found)) is found[-1]
    assert widest_change([]) is None
