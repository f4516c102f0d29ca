"""The cases of Kafka's AclControlManagerTest, sent as CreateAcls and DeleteAcls: codes and messages.

The long tests send them to a real broker, too, so that the expected results are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from authorizer.admin_server.server import AdminServer
from authorizer.api.kafka_version import NETWORKS_LEVEL
from authorizer.node.node import Node
from authorizer.node.writing.acl_control import RECORDS_PER_OPERATION_MAX
from records.entries import METADATA_VERSION_FEATURE, FeatureLevelRecord
from records.log.directory import DirectoryLog
from support.admin_requests import EVERY, ask, decoded, request_frame
from support.kafka_broker import jar_broker
from support.nodes import config_of, running_node
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka")]

VERSION: Final = 3
FIELDS: Final = (
    "resource_type",
    "resource_name",
    "resource_pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
Acl = tuple[int, str, int, str, str, int, int]
Outcome = tuple[int, str | None]
TOPIC, GROUP, CLUSTER = 2, 3, 4
LITERAL, PREFIXED = 3, 4
ALL, READ, ALTER = 2, 3, 7
DENY, ALLOW = 2, 3
#: A code without a name, which Kafka reads as UNKNOWN; it closes the connection for UNKNOWN itself.
NO_NAME: Final = 99
#: Errors.java
NONE, UNSUPPORTED_VERSION, INVALID_REQUEST, POLICY_VIOLATION = 0, 35, 42, 44
UNKNOWN_SERVER_ERROR: Final = -1
CREATED: Final = (NONE, "")
REMOVED: Final = (NONE, None)

ANY_ALTER: Final[Acl] = (TOPIC, "*", LITERAL, "User:*", "*", ALTER, ALLOW)
TOPIC_1: Final[Acl] = (TOPIC, "topic-1", LITERAL, "User:user", "10.0.0.1", ALL, ALLOW)
#: StandardAclTest.TEST_ACLS
TEST_ACLS: Final[tuple[Acl, ...]] = (
    (CLUSTER, "kafka-cluster", LITERAL, "User:*", "*", ALTER, ALLOW),
    (TOPIC, "foo_", PREFIXED, "User:*", "*", READ, ALLOW),
    (GROUP, "mygroup", LITERAL, "User:foo", "*", READ, DENY),
    (GROUP, "mygroup", PREFIXED, "User:foo", "*", READ, DENY),
    (GROUP, "foo", PREFIXED, "User:foo", "*", READ, DENY),
)
NO_COLON: Final = (
    "Could not parse principal from `{}` (no colon is present separating the principal type from the "
    "principal name)"
)
#: Changes of ANY_ALTER, and the outcome.
CREATIONS: Final[tuple[tuple[dict[str, Any], Outcome], ...]] = (
    ({}, CREATED),
    ({"resource_pattern_type": NO_NAME}, (INVALID_REQUEST, "Invalid patternType UNKNOWN")),
    ({"resource_type": NO_NAME}, (INVALID_REQUEST, "Invalid resourceType UNKNOWN")),
    ({"operation": NO_NAME}, (INVALID_REQUEST, "Invalid operation UNKNOWN")),
    ({"permission_type": NO_NAME}, (INVALID_REQUEST, "Invalid permissionType UNKNOWN")),
    ({"principal": "invalid"}, (INVALID_REQUEST, NO_COLON.format("invalid"))),
    ({"principal": ""}, (INVALID_REQUEST, NO_COLON.format(""))),
    ({"resource_name": ""}, (INVALID_REQUEST, "Invalid empty resource name")),
    (
        {"resource_type": CLUSTER},
        (INVALID_REQUEST, "The only valid name for the CLUSTER resource is kafka-cluster"),
    ),
)
#: Fields with codes, in which 0 is UNKNOWN and 1 is ANY.
CODES: Final = ("resource_type", "resource_pattern_type", "operation", "permission_type")
VALID_HOSTS: Final = (
    *("*", "192.168.1.1", "10.0.0.1", "127.0.0.1", "2001:db8::1", "::1", "fe80::1"),
    *("192.168.0.0/24", "10.0.0.0/8", "172.16.0.0/16", "192.168.1.1/32", "0.0.0.0/0"),
    *("2001:db8::/32", "2001:db8:abcd::/48", "::1/128", "::/0"),
)
_CIDR: Final = "Invalid CIDR notation '{0}': Could not parse [{0}]"
_VALUE: Final = "Invalid CIDR notation '{}': Value [{}] not in range [0,{}]"
INVALID_HOSTS: Final = {
    "": "Host pattern cannot be null or empty",
    "192.168.0.0/33": _VALUE.format("192.168.0.0/33", 33, 32),
    "192.168.0.0/-1": _CIDR.format("192.168.0.0/-1"),
    "192.168.0.256/24": _VALUE.format("192.168.0.256/24", 256, 255),
    "192.168.0.0/abc": _CIDR.format("192.168.0.0/abc"),
    "2001:db8::/129": _CIDR.format("2001:db8::/129") + " - prefix length must be between 0 and 128",
    "192.168.0.0/": _CIDR.format("192.168.0.0/"),
    "::ffff:192.168.1.0/24": (
        "Invalid CIDR notation '::ffff:192.168.1.0/24': "
        "Could not parse [::ffff:192.168.1.0] - not an IPv6 address"
    ),
}


class Server(NamedTuple):
    """A node or a broker."""

    address: str
    node: Node | None

    def create(self, acls: Sequence[Acl]) -> list[Outcome] | None:
        """The outcome of each; None: the connection was closed."""
        answer = self._answer(
            "create_acls", {"creations": [dict(zip(FIELDS, acl, strict=True)) for acl in acls]}
        )
        if answer is None:
            return None
        return [(each.error_code, each.error_message) for each in answer.results]

    def delete(self, *filters: dict[str, Any]) -> list[tuple[Outcome, set[Acl]]]:
        """The outcome and the ACLs of each filter."""
        return [
            (
                (each.error_code, each.error_message),
                {_acl(each_acl, each_acl) for each_acl in each.matching_acls},
            )
            for each in self._answer("delete_acls", {"filters": filters}).filter_results
        ]

    def acls(self) -> list[Acl]:
        """The ACLs in force."""
        resources = self._answer("describe_acls", EVERY).resources
        return [_acl(resource, entry) for resource in resources for entry in resource.acls]

    def wait_for(self, count: int) -> list[Acl]:
        """The ACLs, once there are so many: a broker answers before it has replayed a change."""
        if self.node is None:
            wait_until(lambda: len(self.acls()) == count, "the ACLs")
        found = self.acls()
        assert len(found) == count
        return found

    def _answer(self, name: str, values: dict[str, Any]) -> Any:
        return decoded(name, VERSION, ask(self.address, request_frame(name, VERSION, values)))


def _acl(pattern: Any, entry: Any) -> Acl:
    return (
        *(pattern.resource_type, pattern.resource_name, pattern.pattern_type),
        *(entry.principal, entry.host, entry.operation, entry.permission_type),
    )


def exactly(acl: Acl) -> dict[str, Any]:
    """The filter that only this ACL matches."""
    return dict(zip(EVERY, acl, strict=True))


def end_offset(server: Server) -> int:
    """The end of the node's log; 0 for a broker, which also writes other records."""
    return 0 if server.node is None else server.node.authorizer.state.end_offset


@contextmanager
def serving(log: Path, log_mode: str) -> Iterator[Server]:
    """A node of 4.4, on which anonymous clients are super users."""
    with (
        running_node(log, kafka_version="4.4", log_mode=log_mode) as node,
        AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as admin,
    ):
        node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
        admin.start(node)
        yield Server(admin.addresses[0], node)


@pytest.fixture(scope="module", params=["node", pytest.param("broker", marks=pytest.mark.long)])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if request.param == "broker":
        with jar_broker(version="4.4.0") as broker:
            yield Server(broker.bootstrap_servers, None)
    else:
        with serving(tmp_path_factory.mktemp("node") / "log", log_mode="create") as server:
            yield server


@pytest.fixture
def server(running: Server) -> Server:
    """Without ACLs."""
    while names := {acl[3] for acl in running.acls()}:
        # One filter for each principal: a removal of more than 10,000 ACLs is refused.
        for name in names:
            assert running.delete({**EVERY, "principal_filter": name})[0][0] == REMOVED
        if running.node is None:
            running.wait_for(0)
    return running


def with_(acl: Acl, **changes: Any) -> Acl:
    """With other values of some fields."""
    fields = dict(zip(FIELDS, acl, strict=True))
    assert changes.keys() <= fields.keys()
    return tuple({**fields, **changes}.values())


@pytest.mark.parametrize(("change", "expected"), CREATIONS, ids=repr)
def test_a_creation_has_this_outcome(server: Server, change: Any, expected: Outcome) -> None:
    """testValidateNewAcl, testValidateAclWithBadPrincipal, testValidateAclWithEmptyPrincipal."""
    acl = with_(ANY_ALTER, **change)
    assert server.create([TOPIC_1, acl]) == [CREATED, expected]
    assert server.wait_for(2 if expected == CREATED else 1)


@pytest.mark.parametrize("field", CODES)
def test_a_creation_of_no_single_acl_fails_completely(server: Server, field: str) -> None:
    """ANY and MATCH: Java cannot make such a binding. UNKNOWN: it refuses to read the request."""
    for code in (1, 2) if field == "resource_pattern_type" else (1,):
        expected = [(UNKNOWN_SERVER_ERROR, None)] * 2
        assert server.create([TOPIC_1, with_(ANY_ALTER, **{field: code})]) == expected
    assert server.create([TOPIC_1, with_(ANY_ALTER, **{field: 0})]) is None
    assert server.acls() == []


def test_filters_of_unknown_codes_are_refused(server: Server) -> None:
    """testValidateFilter."""
    server.create([ANY_ALTER])
    server.wait_for(1)
    wide = {**EVERY, "resource_name_filter": "*", "principal_filter": "User:*", "host_filter": "*"}
    no_pattern, no_entry = "Unknown patternFilter.", "Unknown entryFilter."
    assert server.delete(
        {**wide, "pattern_type_filter": NO_NAME},
        {**wide, "resource_type_filter": NO_NAME},
        {**wide, "pattern_type_filter": 2, "permission_type": NO_NAME},
        {**wide, "pattern_type_filter": 2, "operation": NO_NAME},
        {**wide, "pattern_type_filter": NO_NAME, "operation": NO_NAME},
        {**wide, "pattern_type_filter": LITERAL},
    ) == [
        ((INVALID_REQUEST, no_pattern), set()),
        ((INVALID_REQUEST, no_pattern), set()),
        ((INVALID_REQUEST, no_entry), set()),
        ((INVALID_REQUEST, no_entry), set()),
        ((INVALID_REQUEST, no_pattern), set()),
        (REMOVED, {ANY_ALTER}),
    ]


def test_acls_are_created_and_removed(server: Server) -> None:
    """testCreateAclDeleteAcl, testAddAndDelete."""
    unknown = with_(ANY_ALTER, resource_pattern_type=NO_NAME)
    expected = [CREATED] * 3 + [(INVALID_REQUEST, "Invalid patternType UNKNOWN")]
    assert server.create([*TEST_ACLS[:3], unknown]) == expected
    assert set(server.wait_for(3)) == set(TEST_ACLS[:3])
    literal = {**EVERY, "pattern_type_filter": LITERAL}
    assert server.delete(literal, {**literal, "resource_type_filter": NO_NAME}) == [
        (REMOVED, {TEST_ACLS[0], TEST_ACLS[2]}),
        ((INVALID_REQUEST, "Unknown patternFilter."), set()),
    ]
    assert server.wait_for(1) == [TEST_ACLS[1]]
    assert server.delete(EVERY) == [(REMOVED, {TEST_ACLS[1]})]
    assert server.wait_for(0) == []


def test_a_repeated_creation_is_a_success_without_a_record(server: Server) -> None:
    """testCreateDedupe."""
    begin = end_offset(server)
    assert server.create([TOPIC_1, TOPIC_1]) == [CREATED, CREATED]
    assert server.wait_for(1) == [TOPIC_1]
    assert server.create([TOPIC_1]) == [CREATED]
    assert server.wait_for(1) == [TOPIC_1]
    assert end_offset(server) - begin == (server.node is not None)


def test_each_filter_lists_an_acl_that_is_removed_once(server: Server) -> None:
    """testDeleteDedupe."""
    begin = end_offset(server)
    for filters in ([EVERY], [exactly(TOPIC_1)], [EVERY, exactly(TOPIC_1)]):
        server.create([TOPIC_1])
        server.wait_for(1)
        assert server.delete(*filters) == [(REMOVED, {TOPIC_1})] * len(filters)
        server.wait_for(0)
    assert end_offset(server) - begin == (6 if server.node else 0)


@pytest.mark.long
def test_an_operation_has_at_most_10000_records(server: Server) -> None:
    """testDeleteExceedsMaxRecords, and the same limit of a creation."""
    acls = [
        with_(TOPIC_1, resource_name=f"mytopic_{number}", principal=f"User:{number % 2}")
        for number in range(RECORDS_PER_OPERATION_MAX + 2)
    ]
    large = (POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    assert server.create(acls) == [large] * len(acls)
    assert server.acls() == []
    for half in (acls[::2], acls[1::2]):
        assert server.create(half) == [CREATED] * len(half)
    server.wait_for(len(acls))
    message = f"Cannot remove more than {RECORDS_PER_OPERATION_MAX} acls in a single delete operation."
    refused = ((INVALID_REQUEST, message), set[Acl]())
    halves = [{**EVERY, "principal_filter": f"User:{number}"} for number in (0, 1)]
    assert server.delete(EVERY) == [refused]
    assert server.delete(*halves, {**EVERY, "operation": NO_NAME}) == [refused] * 3
    if server.node is not None:
        # A broker takes minutes (KAFKA-19513).
        names = [{**EVERY, "resource_name_filter": acl[1]} for acl in acls]
        assert server.delete(*names) == [refused] * len(acls)
    server.wait_for(len(acls))
    assert server.delete(halves[0]) == [(REMOVED, set(acls[::2]))]


def test_these_hosts_are_valid(server: Server) -> None:
    """testValidateHostPatternValid, testCreateAclWithCidrHosts."""
    acls = [with_(TOPIC_1, host=host) for host in VALID_HOSTS]
    assert server.create(acls) == [CREATED] * len(acls)
    assert set(server.wait_for(len(acls))) == set(acls)


def test_these_hosts_are_invalid(server: Server) -> None:
    """testValidateHostPatternInvalid."""
    acls = [with_(TOPIC_1, host=host) for host in INVALID_HOSTS]
    assert server.create(acls) == [(INVALID_REQUEST, message) for message in INVALID_HOSTS.values()]
    assert server.acls() == []


def test_a_restarted_node_has_the_same_acls(tmp_path: Path) -> None:
    """testLoadSnapshot: the records that creations write, read again."""
    for mode, created in (("create", TEST_ACLS), ("write", ())):
        with serving(tmp_path / "log", log_mode=mode) as server:
            assert server.create(created) == [CREATED] * len(created)
            assert set(server.acls()) == set(TEST_ACLS)


def test_networks_need_the_metadata_version(tmp_path: Path) -> None:
    """testValidateHostPatternCidrNotSupported."""
    with DirectoryLog.open(tmp_path / "log", mode="create") as log:
        log.append([FeatureLevelRecord(METADATA_VERSION_FEATURE, NETWORKS_LEVEL - 1)])
    with serving(tmp_path / "log", log_mode="write") as server:
        assert_networks_are_refused(server)


@pytest.mark.long
def test_networks_need_the_metadata_version_on_a_broker() -> None:
    with jar_broker(version="4.4.0", format_options=("--release-version", "4.3")) as broker:
        assert_networks_are_refused(Server(broker.bootstrap_servers, None))


def assert_networks_are_refused(server: Server) -> None:
    message = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
    hosts = ("192.168.0.1", "*", "192.168.0.0/24", "2001:db8::/32")
    refused = (UNSUPPORTED_VERSION, message)
    expected = [CREATED, CREATED, refused, refused]
    assert server.create([with_(TOPIC_1, host=host) for host in hosts]) == expected
