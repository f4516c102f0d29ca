"""Every Kafka release that can be followed: the real authorizer of each, run from its jars, and aclog."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner

from authorizer.api.acl_json import content_json
from authorizer.api.errors import ApiError, ConfigError
from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG, NETWORKS_LEVEL, KafkaVersion
from authorizer.cli.main import cli
from authorizer.engine.acl_validation import HostRules, validate_binding
from authorizer.engine.batch_query import answer_query
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.codecs.json import to_json
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from support.kafka_authorizer import ask_kafka_authorizer
from support.kafka_jars import KAFKA_VERSION, OTHER_VERSIONS
from support.oracle import Case, Replayed, case_names, load_case
from support.release_oracle import VERSIONS, generated_states, record, recorded
from support.release_oracle import recorded_states as recorded_states_of_releases

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.long,  # the gate has the recorded answers: tests/oracle/test_release_decisions.py
    pytest.mark.xdist_group("versions"),
]

Json = dict[str, Any]
QUERY_FIELDS = ("principal", "host", "operation", "resourceType", "resourceName")
KINDS = ("authorize", "authorizeByResourceType")


def release(version: str) -> str:
    """``4.4`` of ``4.4.0``."""
    return version.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class State:
    """ACLs, settings and queries, for the real authorizer and for aclog's."""

    properties: Mapping[str, str]
    acls: tuple[AccessControlEntryRecord, ...]
    questions: tuple[Json, ...]

    def to_json(self) -> Json:
        acls = []
        for acl in self.acls:
            fields = to_json(acl)["data"]
            del fields["id"]
            acls.append(fields)
        return {
            "superUsers": self.properties.get("super.users", ""),
            "allowEveryone": self.properties.get("allow.everyone.if.no.acl.found", "false"),
            "acls": acls,
            "queries": self.questions,
        }

    def answers(self, version: str) -> list[Json]:
        """aclog's answers, in AskAuthorizer's form."""
        replayed = Replayed({**self.properties, KAFKA_VERSION_CONFIG: version})
        replayed.apply(self.acls)
        return [own_answer(replayed, question) for question in self.questions]


def own_answer(replayed: Replayed, question: Json) -> Json:
    if "resourceName" not in question:
        return {
            "result": answer_query(replayed.authorizer, {**question, "kind": "authorizeByResourceType"})[
                "result"
            ]
        }
    decided = answer_query(replayed.authorizer, {**question, "audit": True})
    return {"result": decided["result"], "rule": decided["rule"], "level": decided["audit"]["level"]}


def of_case(case: Case) -> State | None:
    """What a recorded case is at its end; of ACLs with equal content Java takes one."""
    properties = {name: text for name, text in case.properties.items() if not name.startswith("oracle.")}
    try:
        replayed = Replayed(properties)
    except ConfigError:
        return None
    replayed.apply(case.records)
    acls = {acl.content: acl for acl in replayed.records()}
    all_queries = [query for queries in case.queries.values() for query, _ in queries]
    questions = [
        {field: query[field] for field in QUERY_FIELDS if field in query}
        for query in all_queries
        if query.get("kind", "authorize") in KINDS and query.get("patternType", "LITERAL") == "LITERAL"
    ]
    return State(properties, tuple(acls.values()), tuple(questions))


@cache
def recorded_states() -> list[State]:
    states = (of_case(load_case(name)) for name in case_names())
    return [state for state in states if state is not None]


# Addresses that are near one another in both families; with the ends of the spaces, and 0.0.0.0.
ADDRESSES = (
    "0.0.0.0", "0.0.0.1", "10.0.0.0", "10.0.0.1", "10.0.0.127", "10.0.0.128", "10.0.1.0", "10.1.2.3",
    "127.255.255.255", "128.0.0.0", "255.255.255.255",
    "::", "::1", "2001:db8::", "2001:db8::1", "2001:db8:0:1::", "2001:db9::", "fe80::1%1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:10.0.0.1",
)  # fmt: skip
IPV4_LENGTHS = ("0", "1", "8", "23", "24", "25", "30", "31", "32", "08")
IPV6_LENGTHS = ("0", "1", "31", "32", "47", "48", "64", "127", "128", "+64", "0064", "-0")
MALFORMED = (
    "10.0.0.0/33", "10.0.0/8", "256.0.0.0/8", "10.0.0.0/-1", "10.0.0.0/", "/8", "/", "10.0.0.0/8/8",
    " 10.0.0.0/8", "10.0.0.0/8 ", "10.0.0.0/255.0.0.0", "010.000.000.001/8", "0x0a.0.0.0/8",
    "localhost/8", "*/0", "**", "2001:db8::/129", "2001:db8::/-1", "2001:db8::/", "2001:db8::/6 4",
    "::/x", "1::2::3/64", "::/99999999999", "::ffff:10.0.0.0/104", "::10.0.0.1/64", "[2001:db8::]/32",
    "[2001:db8::/32]", "[::]/0", "12345::/16", "02001:0db8::/32", ":/0", ":::/0", "1:2:3:4:5:6:7::/64",
    "1:2:3:4:5:6:7:8:9/64", "fe80::1%1/64", "fe80::%/64", "2001:DB8::/32", "10.0.0.0/:8",
    "::/\u0663\u0662", "10.0.0.0/\u0668", "", "::1", "10.0.0.1",
)  # fmt: skip


def network(rng: random.Random) -> str:
    """Mostly with bits set in its host part."""
    address = rng.choice(ADDRESSES)
    return f"{address}/{rng.choice(IPV6_LENGTHS if ':' in address else IPV4_LENGTHS)}"


def network_state(rng: random.Random) -> State:
    def acl(number: int) -> AccessControlEntryRecord:
        kind = rng.random()
        host = (
            network(rng) if kind < 0.75 else rng.choice(MALFORMED if kind < 0.85 else ("*", *ADDRESSES[:-2]))
        )
        return AccessControlEntryRecord(
            Uuid(number.to_bytes(16)),
            2,
            rng.choice(("a", "a", "*", "b")),
            rng.choice((3, 3, 4)),
            rng.choice(("User:a", "User:a", "User:*")),
            host,
            rng.choice((2, 3, 4, 8)),
            rng.choice((2, 3, 3)),
        )

    acls = {each.content: each for each in map(acl, range(rng.choice((1, 3, 8, 40))))}
    questions = [
        {
            "principal": rng.choice(("User:a", "User:a", "User:b")),
            "host": host,
            "operation": rng.choice(("READ", "WRITE", "DESCRIBE")),
            "resourceType": "TOPIC",
        }
        for host in ADDRESSES
    ]
    questions = [
        each if rng.random() < 0.2 else {**each, "resourceName": rng.choice(("a", "ab", "c"))}
        for each in questions
    ]
    properties = {"allow.everyone.if.no.acl.found": str(rng.random() < 0.3).lower()}
    return State(properties, tuple(acls.values()), tuple(questions))


@cache
def network_states() -> list[State]:
    """400 sets: networks in networks, DENY in ALLOW, /0 and /32, malformed ones."""
    rng = random.Random(1276)
    return [network_state(rng) for _ in range(400)]


CREATED = tuple(dict.fromkeys((*MALFORMED, *map(network, [random.Random(44)] * 200))))


@cache
def flips() -> list[tuple[State, list[Json]]]:
    """What `aclog diff --as 4.3 --as 4.4` says of some of the sets: their witnesses, and the lines."""
    found = []
    with TemporaryDirectory() as directory:
        path, config = Path(directory, "acls.jsonl"), Path(directory, "aclog.properties")
        for state in network_states()[:60]:
            path.write_text("".join(json.dumps(content_json(acl.content)) + "\n" for acl in state.acls))
            config.write_text("".join(f"{name}={text}\n" for name, text in state.properties.items()))
            flags = ["--as", "4.3", "--as", "4.4", "--json", "--config", str(config)]
            done = CliRunner().invoke(cli, ["diff", str(path), *flags])
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            assert done.exit_code == (not lines[-1]["same"]), done.output
            rows = [line for line in lines if "flip" in line]
            found.append((State(state.properties, state.acls, tuple(row["witness"] for row in rows)), rows))
    return found


@cache
def kafka_answers(version: str) -> list[list[Json]]:
    """One JVM for all that one release is asked."""
    states: list[Json] = [state.to_json() for state, _ in flips()]
    if version != KAFKA_VERSION:
        states = [state.to_json() for state in (*recorded_states(), *network_states())] + states
    if KafkaVersion(release(version)).matches_networks:
        states.append({"hosts": CREATED})
    answers = ask_kafka_authorizer(states, version)
    # Before 4.2 an ACL was no record class, and printed itself with other brackets.
    for found in answers:
        for each in found:
            rule = each.get("rule", "")
            if "StandardAcl(" in rule:
                each["rule"] = rule.replace("StandardAcl(", "StandardAcl[").removesuffix("))") + "])"
    return answers


@cache
def aclog_answers(*, networks: bool) -> list[list[Json]]:
    """As of the newest release that matches networks, or does not."""
    version = max(each for each in KafkaVersion if each.matches_networks is networks)
    return [state.answers(version) for state in (*recorded_states(), *network_states())]


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_answers_equal_those_of_each_release(
    version: str, record_property: Callable[[str, object], None]
) -> None:
    """The oracle's cases at their ends, and networks of all kinds: that release's answers are ours.

    So are they by resource type; left out is only what the Java authorizer throws at.
    """
    networks = KafkaVersion(release(version)).matches_networks
    states = (*recorded_states(), *network_states())
    equal = 0
    for state, answers, theirs in zip(
        states, aclog_answers(networks=networks), kafka_answers(version), strict=False
    ):
        for question, ours, its in zip(state.questions, answers, theirs, strict=True):
            if "error" not in its:
                equal += 1
                assert ours == its, (question, state.acls)
    record_property(f"Kafka {version}: equal", equal)
    assert equal > 100_000


@pytest.mark.parametrize("version", VERSIONS)
def test_the_jars_give_the_recorded_answers(version: str) -> None:
    """tests/data/oracle/releases, recorded anew."""
    assert generated_states() == recorded_states_of_releases()
    assert record(version) == recorded(version)


def test_only_networks_differ_between_releases() -> None:
    """The sets of ACLs above are answered otherwise from 4.4 on, so that they tell the rules apart."""
    pairs = zip(aclog_answers(networks=False), aclog_answers(networks=True), strict=True)
    flips = sum(before != after for one, other in pairs for before, after in zip(one, other, strict=True))
    assert flips > 500


def test_kafka_confirms_the_decision_changes_of_an_upgrade() -> None:
    """Each witness of `aclog diff --as 4.3 --as 4.4` is answered so by the real authorizers of both."""
    before, after = (
        kafka_answers(KAFKA_VERSION),
        kafka_answers("4.4.0")[len(recorded_states()) + len(network_states()) :],
    )
    count = 0
    for (state, rows), *answers in zip(flips(), before, after, strict=False):
        for row, question, one, other in zip(rows, state.questions, *answers, strict=True):
            reported = row["before"]["result"], row["after"]["result"]
            assert (one["result"], other["result"]) == reported, (question, state.acls)
            assert reported[0] != reported[1]
            count += 1
    assert count > 200


def refusal(host: str, level: int) -> Json:
    """aclog's answers, in AskAuthorizer's form."""
    binding = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
        AccessControlEntry("User:a", host, AclOperation.READ, AclPermissionType.ALLOW),
    )
    try:
        validate_binding(binding, HostRules(networks=True, level=level))
    except ApiError as error:
        return {"error": f"{error.kafka_name}: {error}"}
    return {}


def test_creation_is_validated_as_in_4_4() -> None:
    """What the controller says to hosts, below the metadata.version that allows networks and from it on."""
    answers = [refusal(host, level) for host in CREATED for level in (NETWORKS_LEVEL - 1, NETWORKS_LEVEL)]
    assert answers == kafka_answers("4.4.0")[-1]
