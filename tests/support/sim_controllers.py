"""A simulated quorum whose leader, the active controller, changes ACLs as QuorumController does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kio.schema.create_acls.v3 import response as create_response
from kio.schema.create_acls.v3.request import CreateAclsRequest
from kio.schema.delete_acls.v3 import response as delete_response
from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from records.codecs.kraft import encode_frame
from records.entries import AccessControlEntryRecord, AclContent, RemoveAccessControlEntryRecord
from records.ids import Uuid
from support.sim_quorum import NOW, Changes, Node, SimQuorum, State


class SimControllers(SimQuorum):
    """Attributes: ``removals`` counts for each resource name in how many requests its ACLs were removed."""

    def __init__(self, seed: int, *, fetch_version: int = 18) -> None:
        self.removals: Counter[str] = Counter()
        super().__init__(seed, fetch_version=fetch_version)

    def _respond(self, node: Node, request: Any) -> Any:
        if isinstance(request, CreateAclsRequest):
            return self._create(node, request)
        if isinstance(request, DeleteAclsRequest):
            return self._delete(node, request)
        if node is self._leader and self.random.random() < 0.5:
            self.commit()  # without an answer to wait for
        return super()._respond(node, request)

    def _create(self, node: Node, request: CreateAclsRequest) -> Any:
        requested: list[AclContent] = [
            (
                each.resource_type,
                each.resource_name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in request.creations
        ]

        def changes(held: State) -> Changes:
            there = {record.content for record in held.values()}
            new = dict.fromkeys(content for content in requested if content not in there)
            return [AccessControlEntryRecord(Uuid(self.random.randbytes(16)), *content) for content in new]

        error = self._changed(node, changes)
        result = create_response.AclCreationResult(error_code=error, error_message=None)
        return create_response.CreateAclsResponse(throttle_time=NOW, results=(result,) * len(requested))

    def _delete(self, node: Node, request: DeleteAclsRequest) -> Any:
        names = [each.resource_name_filter for each in request.filters]
        removed: list[AccessControlEntryRecord] = []

        def changes(held: State) -> Changes:
            removed.extend(record for record in held.values() if record.resource_name in names)
            self.removals.update({record.resource_name for record in removed})
            return [RemoveAccessControlEntryRecord(record.id) for record in removed]

        error = self._changed(node, changes)
        results = []
        for name in names:
            matching = tuple(
                delete_response.DeleteAclsMatchingAcl(
                    error_code=ErrorCode.none,
                    error_message=None,
                    resource_type=i8(record.resource_type),
                    resource_name=record.resource_name,
                    pattern_type=i8(record.pattern_type),
                    principal=record.principal,
                    host=record.host,
                    operation=i8(record.operation),
                    permission_type=i8(record.permission_type),
                )
                for record in removed
                if record.resource_name == name and error is ErrorCode.none
            )
            results.append(
                delete_response.DeleteAclsFilterResult(
                    error_code=error, error_message=None, matching_acls=matching
                )
            )
        return delete_response.DeleteAclsResponse(throttle_time=NOW, filter_results=tuple(results))

    def _changed(self, node: Node, changes: Callable[[State], Changes]) -> ErrorCode:
        """The error code of a request; NOT_CONTROLLER may come before or after the append (`renounce`)."""
        leader = self._leader
        assert leader is not None
        if node.leader != node.id or self.random.random() < self.faults / 2:
            return ErrorCode.not_controller
        if node is not leader:  # it learns of the next epoch before a record of its own is committed
            self.tell()
            return ErrorCode.not_controller
        held = dict(self.states[self.committed])
        for batch in leader.log:
            if batch.end > self.committed:
                self.fold(held, batch.records)
        records = tuple(changes(held))
        if records:
            self._append(leader, [encode_frame(record) for record in records], None, records)
        if self.random.random() < self.faults / 2:
            self.elect()
            return ErrorCode.not_controller
        while self.committed < leader.end:
            self.commit()
        return ErrorCode.none
