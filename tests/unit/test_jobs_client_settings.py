"""Client settings that a job hands to its tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.log.client_keys import ClientKeys, NamedSettings, keys_of
from snapshot.jobs.sources.log_range import settings_without_files
from snapshot.jobs.sources.logs import FollowedLog
from snapshot.jobs.sources.range_source import options_of
from support.snapshots import IDENTITY

PEM = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"


def test_executors_need_no_files(tmp_path: Path) -> None:
    """Certificates and keys go there as text; the names of the keys stay as the user wrote them."""
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(PEM.replace("abc", name), encoding="ascii")
    client = {f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "certificate", "key")}
    keys = ClientKeys("client.properties", {"ssl.ca.location": "ssl.truststore.location"})
    found = settings_without_files(NamedSettings({**client, "sasl.username": "a"}, keys))
    assert dict(found) == {
        "sasl.username": "a",
        **{f"ssl.{name}.pem": PEM.replace("abc", name) for name in ("ca", "certificate", "key")},
    }
    assert keys_of(found) is keys


def test_other_files_are_left_to_the_hosts(tmp_path: Path) -> None:
    """A directory of authorities, a file that is not there, or no PEM."""
    (tmp_path / "store.p12").write_bytes(b"\xff\x00")
    (tmp_path / "text").write_text("no PEM", encoding="ascii")
    for location in (tmp_path, tmp_path / "missing", tmp_path / "store.p12", tmp_path / "text"):
        client = {"ssl.ca.location": str(location)}
        assert dict(settings_without_files(client)) == client


def test_clusters_of_one_job_have_the_same_settings() -> None:
    """Which the source has once; a directory needs none."""
    topic, quorum = (
        FollowedLog(url=url, identity=IDENTITY, kafka={"client.id": name})
        for url, name in (("kafka://a:9092/acls", "a"), ("kraft://b:9093", "b"))
    )
    directory = FollowedLog(url="/logs", identity=IDENTITY)
    starts = {IDENTITY.cluster_id: 0}
    assert options_of([directory, topic], starts)["kafka.client.id"] == "a"
    with pytest.raises(ValueError, match="have the same client settings"):
        options_of([topic, quorum], starts)
