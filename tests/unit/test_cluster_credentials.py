"""Credentials of a cluster's log: which ones are in force at an offset, and what is refused."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from shutil import copytree

import pytest
from structlog.testing import capture_logs

from authorizer.admin_server.metrics import LoginMetrics
from authorizer.admin_server.sasl.logins import SaslLogins
from authorizer.api.errors import ConfigError
from authorizer.authentication.cluster_credentials import ClusterCredentials, CredentialFold
from authorizer.authentication.rejection import RejectionError
from authorizer.authentication.scram import credential_id
from authorizer.configuration.load import load_config
from records.batch import RecordBatch, decode_batch, encode_batch
from records.codecs.kraft import encode_frame
from records.entries import (
    SCRAM_MECHANISMS,
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    ScramCredentialRecord,
)
from records.errors import DecodeError, LogCorruptError
from records.log.directory import DirectoryLog
from replay.clock import SystemClock
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles
from support.data import real_log
from support.nodes import SOON_S
from support.other_frames import SECRETS, other_frame
from support.waiting import wait_until

SHA_256, SHA_512 = 1, 2
ALICE = "SCRAM-SHA-256 of alice"
BEGIN, END, ABORT = (
    encode_frame(record)
    for record in (BeginTransactionRecord(None), EndTransactionRecord(), AbortTransactionRecord(None))
)


def added(user: str, mechanism: int = SHA_256, version: int = 0) -> bytes:
    return other_frame(ScramCredentialRecord(11, version, user, mechanism))


def removed(user: str, mechanism: int = SHA_256) -> bytes:
    return other_frame(ScramCredentialRecord(22, 0, user, mechanism))


def batch(base_offset: int, *values: bytes, epoch: int = 1, is_control: bool = False) -> RecordBatch:
    return decode_batch(
        encode_batch(
            list(values), base_offset=base_offset, epoch=epoch, timestamp_ms=0, is_control=is_control
        )
    )


def test_the_last_record_of_a_user_and_mechanism_counts() -> None:
    fold = CredentialFold()
    assert fold.apply(batch(0, added("alice"), added("alice", SHA_512), added("bob"), removed("nobody")))
    assert set(fold.credentials) == {ALICE, "SCRAM-SHA-512 of alice", "SCRAM-SHA-256 of bob"}
    found = fold.credentials[ALICE]
    assert (found.salt, found.stored_key, found.server_key) == SECRETS
    assert (found.user, found.mechanism, found.iterations) == ("alice", "SCRAM-SHA-256", 4096)
    assert not any(secret.decode() in repr(found) for secret in SECRETS)
    assert fold.apply(batch(4, removed("alice")))
    assert set(fold.credentials) == {"SCRAM-SHA-512 of alice", "SCRAM-SHA-256 of bob"}
    assert not fold.apply(batch(5, encode_frame(FeatureLevelRecord("kraft.version", 1))))
    assert fold.position == 6


def test_an_open_transaction_hides_credentials_until_its_end() -> None:
    fold = CredentialFold()
    fold.apply(batch(0, added("alice"), BEGIN, removed("alice")))
    fold.apply(batch(3, added("bob")))
    assert set(fold.credentials) == {ALICE}
    assert fold.apply(batch(4, END))
    assert set(fold.credentials) == {"SCRAM-SHA-256 of bob"}


def test_an_aborted_transaction_changes_nothing() -> None:
    fold = CredentialFold()
    fold.apply(batch(0, added("alice"), BEGIN, removed("alice"), added("bob"), ABORT))
    assert set(fold.credentials) == {ALICE}


def test_records_before_the_position_are_not_applied_again() -> None:
    fold = CredentialFold(position=2)
    fold.apply(batch(0, added("alice"), removed("alice"), added("bob")))
    assert set(fold.credentials) == {"SCRAM-SHA-256 of bob"}
    assert not fold.apply(batch(0, added("alice")))
    assert set(fold.credentials) == {"SCRAM-SHA-256 of bob"}


def test_unknown_mechanisms_and_the_anonymous_user_have_no_login() -> None:
    fold = CredentialFold()
    assert not fold.apply(batch(0, added("alice", 3), added("ANONYMOUS")))
    assert not fold.credentials


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (added("alice", version=1), "version 1 of a SCRAM credential"),
        (added("alice")[:-3], "needs"),
        (added("alice") + b"x", "left"),
        (b"\1\x8b\0" + added("alice")[2:], "unusual form"),
        (b"\2\x0b\0", "frame version 2"),
        (END, "transaction ends that never began"),
    ],
)
def test_what_may_be_an_unreadable_credential_stops_the_reader(value: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        CredentialFold().apply(batch(0, value))


def test_gaps_and_older_epochs_stop_the_reader() -> None:
    fold = CredentialFold()
    fold.apply(batch(0, added("alice"), epoch=2))
    with pytest.raises(LogCorruptError, match="batch at 2"):
        fold.apply(batch(2, added("bob"), epoch=2))
    with pytest.raises(LogCorruptError, match="epoch 1"):
        fold.apply(batch(1, added("bob"), epoch=1))


def test_credentials_that_are_not_loaded_refuse_logins(tmp_path: Path) -> None:
    config = load_config(environ={}, flags={"aclog.log.url": str(tmp_path)})
    credentials = ClusterCredentials(config)
    with pytest.raises(RejectionError, match="not loaded"):
        credentials.require()
    credentials.close()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"aclog.log.url": "kafka://b:9092/acls"}, "has no users"),
        ({"aclog.log.url": "describe://b:9092"}, "has no users"),
        ({"aclog.log.url": "kraft://b:9093", "aclog.admin.credentials.file": "users"}, "set one of the two"),
    ],
)
def test_settings_that_cannot_work_are_refused(flags: dict[str, str], text: str) -> None:
    config = load_config(environ={}, flags={**flags, "aclog.admin.scram.credentials": "log"})
    with pytest.raises(ConfigError, match=text):
        SaslLogins(config, SystemClock(), LoginMetrics())


def loaded(log: Path) -> set[str]:
    credentials = ClusterCredentials(load_config(environ={}, flags={"aclog.log.url": str(log)}))
    credentials.start()
    found: set[str] = set()

    def is_loaded() -> bool:
        with suppress(RejectionError):
            found.update(credentials.require())
            return True
        return False

    try:
        wait_until(is_loaded, "the credentials", timeout_s=SOON_S)
    finally:
        credentials.close()
    return found


def test_a_trimmed_log_is_read_from_kafkas_checkpoint() -> None:
    """Real logs: the complete one from its start, the other one from its checkpoint, as the node does."""
    for name in ("kraft-small", "kraft-trimmed"):
        with DirectoryLog.open(real_log(name)) as log:
            users = load_image(log, [CheckpointFiles(log)]).image.metadata.scram
        expected = {
            credential_id(user, SCRAM_MECHANISMS[code]) for user, codes in users.items() for code in codes
        }
        assert expected
        assert loaded(real_log(name)) == expected


def test_a_trimmed_log_without_its_checkpoint_refuses_logins_and_names_the_way_out(tmp_path: Path) -> None:
    source = real_log("kraft-trimmed")
    copytree(source.parent, tmp_path / "node")
    directory = tmp_path / "node" / source.name
    for checkpoint in directory.glob("*.checkpoint"):
        checkpoint.unlink()
    credentials = ClusterCredentials(load_config(environ={}, flags={"aclog.log.url": str(directory)}))
    with capture_logs() as lines:
        credentials.start()
        wait_until(lambda: bool(lines), "the line", timeout_s=SOON_S)
        with pytest.raises(RejectionError):
            credentials.require()
        credentials.close()
    (line,) = lines
    assert line["event"] == "cluster_credentials_unavailable"
    assert "no checkpoint" in line["reason"]
    assert "aclog.admin.credentials.file" in line["hint"]


def test_a_truncated_log_takes_back_its_credentials(tmp_path: Path) -> None:
    source = real_log("kraft-small")
    copytree(source.parent, tmp_path / "node")
    directory = tmp_path / "node" / source.name
    segment = directory / "00000000000000000000.log"
    with DirectoryLog.open(source) as log:
        batches = log.read_raw(0)
    first = next(each for each in batches if CredentialFold(each.base_offset).apply(each))
    credentials = ClusterCredentials(load_config(environ={}, flags={"aclog.log.url": str(directory)}))
    credentials.start()

    def names() -> set[str] | None:
        with suppress(RejectionError):
            return {*credentials.require()}
        return None

    try:
        wait_until(lambda: bool(names()), "the credentials", timeout_s=SOON_S)
        for checkpoint in directory.glob("*.checkpoint"):
            checkpoint.unlink()
        os.truncate(segment, first.position)
        wait_until(lambda: names() == set(), "the shorter log's credentials", timeout_s=SOON_S)
    finally:
        credentials.close()
