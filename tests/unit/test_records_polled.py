"""The store of polls: complete answers, one batch or transaction each, despite interruptions."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.entries import AclContent, BeginTransactionRecord, SupportedLevels
from records.errors import LogError, LogReadOnlyError, LogStorageError
from records.log.directory import DirectoryLog
from records.log.directory.writer import Writer
from records.log.open import open_log
from records.log.polled import poll_store as kept_module
from records.log.polled.poll_store import LAST_POLL_FILE, PollStore
from records.log.protocol import brokers as brokers_module
from records.log.protocol.brokers import Brokers
from records.log.protocol.response_values import ClusterLevels, DescribedAcls
from records.log.protocol.responses import API_VERSIONS, ApiVersions, DescribedCluster, decode_response
from records.log.protocol.settings import protocol_settings
from records.log.url import Address, parse_polled_url
from replay.load_image import load_image

NOW_MS = 1_700_000_000_000


def acl(name: str, operation: int = 3) -> AclContent:
    return 2, name, 3, "User:a", "*", operation, 3


def answer(acls: Iterable[AclContent]) -> DescribedAcls:
    return DescribedAcls(b"digest", list(acls))


def in_force(log: DirectoryLog) -> set[AclContent]:
    return {each.record.content for each in load_image(log).image}


@given(answers=st.lists(st.sets(st.sampled_from("abcdef")), max_size=6))
@settings(max_examples=15, deadline=None)
def test_each_answer_replaces_the_acls_in_force(answers: list[set[str]]) -> None:
    """And a new opening goes on from there; what did not change is not written."""
    with tempfile.TemporaryDirectory() as home:
        for names in answers:
            store = PollStore.open_or_create(Path(home, "polled"), "cluster")
            with closing(store):
                before, was = store.log.high_watermark(), in_force(store.log)
                wanted = {acl(name, 99) for name in names}
                store.save(answer(wanted), None, NOW_MS)
                store.save(answer(wanted), None, NOW_MS)
                store.save(DescribedAcls(store.digest, None), None, NOW_MS)
                assert in_force(store.log) == wanted
                assert store.log.high_watermark() - before == len(was ^ wanted)
                assert store.last_poll_ms() == NOW_MS


def test_a_large_answer_counts_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a transaction; what is written of it by halves does not count, and the next is taken."""
    monkeypatch.setattr(kept_module, "_BATCH_BYTES", 300)
    many = [acl(f"t{number}") for number in range(20)]
    with closing(PollStore.open_or_create(tmp_path / "polled", "cluster")) as store:
        store.save(answer([acl("first")]), None, NOW_MS)
        append = Writer.append

        def interrupted(self: Writer, batches: object, *, after: int | None = None) -> int:
            some = list(batches)[:3]  # type: ignore[call-overload]
            append(self, some, after=after)
            raise LogStorageError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(Writer, "append", interrupted)
            with pytest.raises(LogStorageError):
                store.save(answer(many), None, NOW_MS)
        records = [logged.record for batch in store.log.read(0) for logged in batch.records]
        assert any(isinstance(record, BeginTransactionRecord) for record in records)
    with closing(PollStore.open_or_create(tmp_path / "polled", None)) as store:
        assert in_force(store.log) == {acl("first")}
        store.save(answer(many), None, NOW_MS)
        assert in_force(store.log) == set(many)
    with closing(PollStore.open_or_create(tmp_path / "polled", None)) as store:
        store.save(answer([]), None, NOW_MS)
        assert in_force(store.log) == set()


def test_one_opening_writes_and_others_read(tmp_path: Path) -> None:
    """And the next one writes when that is closed."""
    directory = tmp_path / "kept"
    with closing(PollStore.open_or_create(directory, "cluster")) as writer:
        writer.save(answer([acl("t")]), None, NOW_MS)
        beside = PollStore.open_existing(directory)
        assert beside is not None
        with closing(beside):
            assert not beside.is_writable
            assert in_force(beside.log) == {acl("t")}
            assert beside.last_poll_ms() == writer.last_poll_ms()
    after = PollStore.open_existing(directory)
    assert after is not None
    with closing(after):
        assert after.is_writable


def test_a_directory_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """A log that people write to would lose its ACLs to the first answer."""
    with closing(DirectoryLog.open(tmp_path / "own", mode="create")) as log:
        PollStore.open_or_create(tmp_path / "polled", "cluster").close()
        log.append([BeginTransactionRecord()])
    with pytest.raises(LogError, match=f"{LAST_POLL_FILE} is missing"):
        PollStore.open_existing(tmp_path / "own")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(LogError, match="not empty and not a log"):
        PollStore.open_or_create(tmp_path / "full", "cluster")
    assert PollStore.open_existing(tmp_path / "nothing") is None


def test_a_url_has_servers_and_interval() -> None:
    where = parse_polled_url("describe://one:9092,[::1]:9093/var/lib/aclog/shop")
    assert [str(broker) for broker in where.brokers] == ["one:9092", "[::1]:9093"]
    assert where.directory == Path("/var/lib/aclog/shop")
    assert parse_polled_url("DESCRIBE://one:9092").directory is None
    with pytest.raises(LogError, match="write describe://HOST:PORT"):
        parse_polled_url("describe://nowhere")
    with pytest.raises(LogReadOnlyError, match=r"kafka-acls\.sh"):
        open_log("describe://one:9092", mode="write")
    with pytest.raises(LogError, match=r"acls\.refresh\.interval\.ms: `1` is not a number from 100"):
        open_log("describe://one:9092", client={"acls.refresh.interval.ms": "1"})


def test_the_release_of_each_broker_is_stored(tmp_path: Path) -> None:
    """As records that tell the release; what did not change is not written, also by a new opening."""
    old, new = SupportedLevels(7, 30), SupportedLevels(7, 33)
    several = ClusterLevels(30, {1: old, 2: new})
    with closing(PollStore.open_or_create(tmp_path / "polled", "cluster")) as store:
        store.save(answer([acl("t")]), several, NOW_MS)
        assert load_image(store.log).image.metadata.brokers == {1: old, 2: new}
        assert load_image(store.log).image.metadata.metadata_version == 30
        end = store.log.high_watermark()
        store.save(answer([acl("t")]), several, NOW_MS)
        store.save(answer([acl("t")]), None, NOW_MS)
        assert store.log.high_watermark() == end
    with closing(PollStore.open_or_create(tmp_path / "polled", None)) as store:
        assert store.brokers == {1: old, 2: new}
        store.save(answer([acl("t")]), several, NOW_MS)
        assert store.log.high_watermark() == end
        store.save(answer([acl("t")]), ClusterLevels(33, {2: new}), NOW_MS)
        assert load_image(store.log).image.metadata.brokers == {2: new}
        assert in_force(store.log) == {acl("t")}
        store.save(answer([acl("t")]), ClusterLevels(None, {}), NOW_MS)
        assert load_image(store.log).image.metadata.brokers == {}
        assert load_image(store.log).image.metadata.metadata_version is None


class SilentBrokers(Brokers):
    """Three brokers, of which some do not answer."""

    def __init__(self) -> None:
        super().__init__(
            "describe://b1:9092", [Address("b1", 9092)], protocol_settings({}), threading.Event()
        )
        self.nodes = {each: Address(f"b{each}", 9092) for each in (1, 2, 3)}
        self.supported = {"b1": SupportedLevels(7, 30), "b2": SupportedLevels(7, 33)}

    def _send(self, request: Any, decoder: Any, doing: str, **_: Any) -> Any:
        if doing == "the brokers":
            return DescribedCluster("a cluster", self.nodes)
        return ApiVersions({}, self.supported["b2"], 30)

    def _supported(self, address: Address) -> SupportedLevels | None:
        return self.supported.get(address.host)


def test_each_broker_is_queried_and_a_silent_one_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a while it is what it was before; one that was never known leaves all of them open."""
    brokers = SilentBrokers()
    old, new = brokers.supported.values()
    assert brokers.levels({}) == ClusterLevels(30, {})
    brokers.supported["b3"] = new
    assert brokers.levels({}) == ClusterLevels(30, {1: old, 2: new, 3: new})
    del brokers.supported["b1"]
    known = {1: old, 2: new, 3: new}
    assert brokers.levels(known) == ClusterLevels(30, known)
    monkeypatch.setattr(brokers_module, "_UNREACHABLE_BROKER_TTL_S", 0.0)
    assert brokers.levels(known) == ClusterLevels(30, {})
    # The only one is the one that answers on the connection that there is.
    brokers.nodes = {7: Address("not-reached", 1)}
    assert brokers.levels({}) == ClusterLevels(30, {7: new})


def test_api_versions_tell_what_the_binary_supports() -> None:
    """Tag 0 has what is supported, the lowest level first; tag 2 what the cluster has, the highest first."""
    name = "11" + b"metadata.version".hex()
    supported, finalized = (f"02{name}{levels}00" for levels in ("00070021", "001e001e"))
    tags = "".join(f"{tag:02x}{len(text) // 2:02x}{text}" for tag, text in ((0, supported), (2, finalized)))
    data = bytes.fromhex("00000005000002001200000004000000000002" + tags)
    found = decode_response(data, API_VERSIONS, 5)
    assert found == ("none", ApiVersions({18: (0, 4)}, SupportedLevels(7, 33), 30))
    without = bytes.fromhex("000000050000010000000000")
    assert decode_response(without, API_VERSIONS, 5) == ("none", ApiVersions({}))
