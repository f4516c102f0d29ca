"""The release whose rules apply: configured, that of the log's brokers, or unknown."""

from __future__ import annotations

import pytest

from authorizer.api.errors import ConfigError
from authorizer.api.kafka_version import KafkaVersion, VersionInForce
from records.acl import AclOperation
from records.codecs.json import from_json
from records.codecs.kraft import decode_frame
from records.entries import (
    AccessControlEntryRecord,
    BrokerRecord,
    FeatureLevelRecord,
    OtherRecord,
    SupportedLevels,
)
from support.decisions import Fed, allow, deny, topic

READ = AclOperation.READ


def registered(broker_id: int, highest: int | None) -> BrokerRecord:
    return BrokerRecord(0, 4, broker_id, None if highest is None else SupportedLevels(7, highest))


def for_network() -> AccessControlEntryRecord:
    return allow("User:a", READ, topic("t"), "10.0.0.0/8")


def in_force(fed: Fed) -> VersionInForce:
    return fed.authorizer.state.settings.version_for(fed.image)


def is_matched(fed: Fed) -> bool:
    return fed.allows("User:a", READ, topic("t"), "10.1.2.3")


def test_without_brokers_an_answer_holds_for_every_release() -> None:
    fed = Fed(for_network(), allow("User:*", READ, topic("u")))
    assert in_force(fed) == (tuple(KafkaVersion), "unknown", ())
    assert in_force(fed).version is None
    assert str(in_force(fed)).startswith("Kafka 3.9 to 4.4: the release is not known")
    assert not is_matched(fed)
    assert fed.allows("User:a", READ, topic("u"), "10.1.2.3")
    fed.publish(deny("User:a", READ, topic("u"), "10.0.0.0/8"))
    assert not fed.allows("User:a", READ, topic("u"), "10.1.2.3")
    assert fed.allows("User:a", READ, topic("u"), "11.1.2.3")


@pytest.mark.parametrize(
    ("level", "releases", "matches"),
    [(21, "3.9 to 4.4", False), (30, "4.3 to 4.4", False), (31, "4.4", True), (33, "4.4", True)],
)
def test_metadata_version_rules_out_older_binaries(level: int, releases: str, *, matches: bool) -> None:
    fed = Fed(for_network(), FeatureLevelRecord("metadata.version", level))
    assert (in_force(fed).source, in_force(fed).label) == ("metadata.version", releases)
    assert is_matched(fed) is matches
    fed.publish(FeatureLevelRecord("metadata.version", 0))
    assert not is_matched(fed)


def test_decisions_follow_the_releases_of_all_brokers() -> None:
    """From each update on, for all ACLs of the index; earlier answers do not change."""
    fed = Fed(registered(1, 30), for_network())
    assert in_force(fed) == ((KafkaVersion.V4_3,), "brokers", (KafkaVersion.V4_3,))
    assert not is_matched(fed)
    fed.publish(registered(2, 33))
    assert in_force(fed).of_brokers == (KafkaVersion.V4_3, KafkaVersion.V4_4)
    assert in_force(fed).brokers_disagree
    assert str(in_force(fed)).endswith("; brokers disagree: 4.3, 4.4")
    assert not is_matched(fed)
    fed.publish(registered(1, 33))
    assert "disagree" not in str(in_force(fed))
    assert in_force(fed) == ((KafkaVersion.V4_4,), "brokers", (KafkaVersion.V4_4,))
    assert is_matched(fed)
    fed.publish(deny("User:*", READ, topic("t"), "10.1.0.0/16"), registered(3, 21))
    assert in_force(fed).version is KafkaVersion.V3_9
    assert not fed.allows("User:a", READ, topic("t"), "10.2.0.0")
    fed.publish(registered(3, None))
    assert in_force(fed).version is KafkaVersion.V4_4
    assert not is_matched(fed)
    assert fed.allows("User:a", READ, topic("t"), "10.2.0.0")


def test_a_configured_release_wins_over_the_brokers() -> None:
    fed = Fed(registered(1, 33), for_network(), aclog_kafka_version="4.2")
    assert in_force(fed) == ((KafkaVersion.V4_2,), "configured", (KafkaVersion.V4_4,))
    assert in_force(fed).brokers_disagree
    assert not is_matched(fed)
    fed.authorizer.configure({"aclog.kafka.version": "4.4"})
    assert is_matched(fed)
    with pytest.raises(ConfigError, match=r"`4\.5` for `aclog\.kafka\.version`: one of .*4\.4"):
        fed.authorizer.configure({"aclog.kafka.version": "4.5"})
    assert is_matched(fed)


def test_releases_have_their_metadata_levels() -> None:
    """Source: MetadataVersion of Kafka 4.4.0."""
    levels = {
        7: "3.9",
        21: "3.9",
        22: "4.0",
        25: "4.0",
        26: "4.1",
        27: "4.1",
        28: "4.2",
        29: "4.2",
        30: "4.3",
    }
    levels |= {31: "4.4", 33: "4.4", 34: "4.4"}
    assert {level: KafkaVersion.of_level(level) for level in levels} == levels


REGISTER = bytes.fromhex(
    "01 00 04" "00000003" "00" + "11" * 16 + "0000000000000009"
    "02" "06" + b"PLAIN".hex() + "05" + b"host".hex() + "7184" "0000" "00"
    "03" "0e" + b"group.version".hex() + "0000" "0001" "00"
    "11" + b"metadata.version".hex() + "0007" "0021" "00"
    "00" "01" "00" "00"
)  # fmt: skip


def test_registrations_tell_the_release_of_a_broker() -> None:
    """As frames and as kafka-dump-log's JSON; a malformed registration is skipped."""
    assert decode_frame(REGISTER) == BrokerRecord(0, 4, 3, SupportedLevels(7, 33))
    assert decode_frame(REGISTER[:2] + b"\5" + REGISTER[3:]) == OtherRecord(0, 5)
    for length in range(3, len(REGISTER) - 5):
        assert isinstance(decode_frame(REGISTER[:length]), OtherRecord)
    assert decode_frame(bytes.fromhex("01 01 00 00000003 0000000000000009 00")) == BrokerRecord(1, 0, 3, None)
    feature = {"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 33}
    payload = {"type": "REGISTER_BROKER_RECORD", "version": 4, "data": {"brokerId": 3, "features": [feature]}}
    assert from_json(payload) == BrokerRecord(0, 4, 3, SupportedLevels(7, 33))
    assert from_json({**payload, "data": {"brokerId": 3}}) == OtherRecord(0, 4)
    assert from_json({**payload, "data": None}) == OtherRecord(0, 4)
    unregistered = {
        "type": "UNREGISTER_BROKER_RECORD",
        "version": 0,
        "data": {"brokerId": 3, "brokerEpoch": 9},
    }
    assert from_json(unregistered) == BrokerRecord(1, 0, 3, None)
