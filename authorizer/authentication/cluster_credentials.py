"""ClusterCredentials: the SCRAM credentials in a cluster's metadata log, in memory only.

This is a second reader of the log, apart from the node's: records, images, snapshots and answers of the node
never contain a secret. It starts at the log's first offset, or at Kafka's newest checkpoint if the log was
trimmed; aclog's own snapshots have no secrets.

Logins are refused until everything below the high watermark, as it stood when loading began, is read (I4).
A log that is truncated, replaced or unreadable drops all credentials, and it is loaded again (I7, I11). While
the cluster is out of reach, the last credentials remain, as on a broker that has lost its controllers.

Source: UserScramCredentialRecord, RemoveUserScramCredentialRecord, org.apache.kafka.image.ScramImage.
"""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final, cast

import structlog

from authorizer.api.errors import ConfigError
from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.authentication.scram import ScramCredential, credential_id
from authorizer.configuration.keys.names import ADMIN_CREDENTIALS_FILE, ADMIN_SCRAM_CREDENTIALS
from records.batch import CONTROL, RecordBatch, decode_batch
from records.codecs.kraft import FRAME_VERSION, RECORD_VERSION, decode_frame
from records.content import record_values
from records.entries import (
    ABORT_TRANSACTION_API_KEY,
    BEGIN_TRANSACTION_API_KEY,
    END_TRANSACTION_API_KEY,
    REMOVE_USER_SCRAM_CREDENTIAL_API_KEY,
    SCRAM_MECHANISMS,
    TRANSACTION_MARKERS,
    USER_SCRAM_CREDENTIAL_API_KEY,
    OtherRecord,
)
from records.errors import (
    AclogError,
    DecodeError,
    LogCorruptError,
    LogError,
    LogStorageError,
    UnsupportedVersionError,
)
from records.flexible import MessageReader
from records.log.open import open_log
from records.log.url import DIRECTORY, QUORUM, kind_of
from records.principal import ANONYMOUS
from records.transactions import MisplacedMarkerError, Transaction
from replay.clock import Backoff
from snapshot.files.kraft_checkpoint import decode_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.configuration.load import Config
    from records.log.base import BatchLog, LogIdentity

log = structlog.get_logger(__name__)

_WAIT_S: Final = 1.0
_CREDENTIAL_KEYS: Final = (USER_SCRAM_CREDENTIAL_API_KEY, REMOVE_USER_SCRAM_CREDENTIAL_API_KEY)
_MARKER_KEYS: Final = (BEGIN_TRANSACTION_API_KEY, END_TRANSACTION_API_KEY, ABORT_TRANSACTION_API_KEY)
# API keys below this are one byte of a frame.
_ONE_BYTE: Final = 0x80
_WAY_OUT: Final = (
    f"logins by PLAIN and SCRAM are refused meanwhile; {ADMIN_SCRAM_CREDENTIALS}=file with "
    f"{ADMIN_CREDENTIALS_FILE} verifies them without the log"
)

# A credential's id, and its new value; None: removed.
_Change = tuple[str, ScramCredential | None]


class ClusterCredentials:
    """Follows the log in a thread of its own."""

    def __init__(self, config: Config) -> None:
        """Open nothing yet. ConfigError: the kind of log has no credentials, or there is no log."""
        self._url = config.require_log_url()
        self._client = config.kafka
        if kind_of(self._url) not in (DIRECTORY, QUORUM):
            raise ConfigError(
                ADMIN_SCRAM_CREDENTIALS,
                "log",
                f"`file`, or a kraft:// log or a broker's directory: {self._url} has no users",
            )
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._log: BatchLog | None = None
        self._thread: threading.Thread | None = None
        self._problem: tuple[bool, str] | None = None
        # The credentials by id, and the state of the log that they are of; None: not loaded.
        self._value: Mapping[str, ScramCredential] | None = None
        self._loaded_from: tuple[LogIdentity, int] | None = None

    def require(self) -> Mapping[str, ScramCredential]:
        """Return the credentials by their ids. Thread-safe. Raises RejectionError: they are not loaded."""
        value = self._value
        if value is None:
            raise RejectionError(
                Reason.NO_KEYS,
                "the SCRAM credentials of the cluster are not loaded: cluster_credentials_unavailable in the "
                "log has the reason, if there is one",
            )
        return value

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="aclog-credentials", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and forget the credentials. Idempotent."""
        with self._lock:
            self._closing.set()
            if self._log is not None:
                self._log.close()
        if self._thread is not None:
            self._thread.join()
        self._value = None

    def _run(self) -> None:
        backoff = Backoff()
        while not self._closing.is_set():
            try:
                with closing(self._open()) as opened:
                    self._follow(opened, backoff)
            except (LogStorageError, OSError) as error:
                self._report(error)
            except Exception as error:  # noqa: BLE001 - without the thread, removed users could log in
                self._value = None
                self._report(error)
            self._closing.wait(backoff.next_s())

    def _open(self) -> BatchLog:
        opened = open_log(self._url, client=self._client, lazily=True)
        batches = cast("BatchLog", opened)  # directories and quorums are
        with self._lock:
            self._log = batches
            if self._closing.is_set():
                opened.close()
        return batches

    def _follow(self, opened: BatchLog, backoff: Backoff) -> None:
        """Load the credentials and follow the log until it is closed; raises if it must be loaded again."""
        opened.connect()
        if not opened.is_cluster_metadata_log:
            raise LogError(f"{opened.url} is no cluster's metadata log, and has no users")
        target, identity = opened.high_watermark(), opened.identity
        if self._loaded_from is not None and (
            identity != self._loaded_from[0] or target < self._loaded_from[1]
        ):
            self._value = None  # another log, or a shorter one
        fold = _loaded_start(opened, target)
        is_loaded = False
        while not self._closing.is_set():
            batches = opened.read_raw(fold.position)
            if opened.identity != identity:
                raise LogError(f"another log is in the place of {opened.url}")
            has_changed = [fold.apply(batch) for batch in batches]
            if fold.position >= target and (any(has_changed) or not is_loaded):
                self._value = dict(fold.credentials)
            if fold.position >= target and not is_loaded:
                is_loaded, self._problem = True, None
                backoff.reset()
                log.info(
                    "cluster_credentials_loaded", offset=fold.position, credentials=len(fold.credentials)
                )
            if is_loaded:
                self._loaded_from = identity, fold.position
            if not batches:
                opened.wait(fold.position, _WAIT_S)

    def _report(self, error: Exception) -> None:
        """Log an error once; retries with the same one are silent."""
        # The text of an unforeseen error may have anything.
        reason = str(error) if isinstance(error, AclogError | OSError) else type(error).__name__
        problem = self._value is None, reason
        if self._closing.is_set() or problem == self._problem:
            return
        self._problem = problem
        if self._value is None:
            log.error("cluster_credentials_unavailable", reason=reason, hint=_WAY_OUT)
        else:
            log.warning("cluster_credentials_outdated", reason=reason)


class CredentialFold:
    """The credentials of a log below an offset. Raises DecodeError and LogError; then it is of no use."""

    def __init__(self, position: int = 0, epoch: int = -1) -> None:
        """Begin without credentials at an offset; ``epoch``: of the batch before it."""
        self.position = position
        self.credentials: dict[str, ScramCredential] = {}
        self._epoch = epoch
        self._transaction = Transaction[_Change | None]()

    def apply(self, batch: RecordBatch) -> bool:
        """Apply the records of a batch from ``position`` on; return whether credentials were changed."""
        if batch.end_offset <= self.position:
            return False
        if batch.base_offset > self.position or batch.epoch < self._epoch:
            raise LogCorruptError(
                f"the batch at {batch.base_offset} in epoch {batch.epoch} does not follow offset "
                f"{self.position} in epoch {self._epoch}"
            )
        has_changed = self.add(batch)
        self.position, self._epoch = batch.end_offset, batch.epoch
        return has_changed

    def add(self, batch: RecordBatch, *, first: int | None = None) -> bool:
        """Apply the records from offset ``first`` on, by default ``position``, and stay at ``position``."""
        first = self.position if first is None else first
        has_changed = False
        if batch.attributes & CONTROL:
            return False
        for offset, value in record_values(batch):
            if offset < first:
                continue
            try:
                has_changed |= self._take(value)
            except MisplacedMarkerError as error:
                raise DecodeError(f"a {error}", offset=offset) from error
            except DecodeError as error:
                raise error.located(offset=offset) from error
        return has_changed

    def _take(self, value: bytes) -> bool:
        api_key = value[1] if len(value) > 1 and value[0] == FRAME_VERSION else _ONE_BYTE
        if api_key in _CREDENTIAL_KEYS:
            visible = self._transaction.take(_read_change(value), None)
        elif api_key >= _ONE_BYTE or api_key in _MARKER_KEYS:
            record = decode_frame(value)
            if isinstance(record, OtherRecord) and record.api_key in _CREDENTIAL_KEYS:
                raise DecodeError("a SCRAM credential in an unusual form")
            if type(record) not in TRANSACTION_MARKERS:
                return False
            visible = self._transaction.take(None, record)
        else:
            return False
        changes = [change for change in visible if change is not None]
        for name, credential in changes:
            if credential is None:
                self.credentials.pop(name, None)
            else:
                self.credentials[name] = credential
        return bool(changes)


def _loaded_start(opened: BatchLog, end: int) -> CredentialFold:
    """Return the state from which to read on: the log's first offset, or its newest checkpoint."""
    start = opened.start_offset()
    if start == 0:
        return CredentialFold()
    for checkpoint in reversed(opened.checkpoints()):
        if not start <= checkpoint.end_offset <= end:
            continue
        if opened.is_history(checkpoint.end_offset, checkpoint.epoch) is False:
            continue
        data, at, end_offset, epoch = (
            opened.checkpoint_bytes(checkpoint),
            0,
            checkpoint.end_offset,
            checkpoint.epoch,
        )
        # Refuses one that is damaged or unfinished.
        decode_checkpoint(data, end_offset=end_offset, epoch=epoch, source=f"{opened.url} {checkpoint.name}")
        fold = CredentialFold(end_offset, epoch)
        while at < len(data):
            batch = decode_batch(data, at)
            fold.add(batch, first=0)
            at += batch.size_bytes
        return fold
    raise LogError(
        f"{opened.url} starts at offset {start}, and no checkpoint of Kafka covers what is missing"
    )


def _read_change(value: bytes) -> _Change | None:
    """Decode a record of a credential; None: of a user or mechanism that cannot log in here."""
    reader = MessageReader(value)
    reader.unsigned_varint()
    api_key, version = reader.unsigned_varint(), reader.unsigned_varint()
    if version != RECORD_VERSION:
        raise UnsupportedVersionError(f"version {version} of a SCRAM credential, only 0 is known")
    user = reader.string("user name")
    mechanism = SCRAM_MECHANISMS.get(reader.signed(1, "mechanism"))
    credential = None
    if api_key == USER_SCRAM_CREDENTIAL_API_KEY:
        salt, stored_key, server_key = (_bytes(reader, what) for what in ("salt", "stored key", "server key"))
        iterations = reader.signed(4, "iterations")
        credential = ScramCredential(user, mechanism or "", iterations, salt, stored_key, server_key)
    reader.skip_tagged_fields()
    reader.finish()
    if mechanism is None or user == ANONYMOUS.name:
        return None
    return credential_id(user, mechanism), credential


def _bytes(reader: MessageReader, what: str) -> bytes:
    size = reader.unsigned_varint() - 1
    if size < 0:
        raise DecodeError(f"{what} must not be null", position=reader.position)
    return reader.take(size, what)
