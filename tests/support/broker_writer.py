"""A program that writes a metadata log's directory as a broker does, until it is killed.

    python -m support.broker_writer DIR SEED

It appends batches of ``acl(offset % ACLS)``, each in one or two writes; rolls segments; writes checkpoints
and deletes the segments that they cover. Like a follower it truncates its last batches and rewrites them in a
newer epoch. The state at any offset from ACLS on is ``acls(0, ACLS)``.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.log.directory import DirectoryLog
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles
from snapshot.files.kraft_checkpoint import write_checkpoint
from support.directory_logs import TIMESTAMP_MS, acl, segment_path

ACLS = 200
#: Maximum number of batches in a segment, and of retained segments.
SEGMENT_BATCHES = 400
SEGMENTS = 4


FRAMES = [encode_frame(acl(number)) for number in range(ACLS)]


class BrokerWriter:
    """The only writer of the directory."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.choice = random.Random(seed)
        self.epoch = 1
        self.end = 0
        self.bases: list[int] = []
        self.file = -1
        self.ends: list[tuple[int, int]] = []  # of the last segment's batches: end offset and end position

    def roll(self) -> None:
        self.bases.append(self.end)
        self.ends = [(self.end, 0)]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self.file = os.open(segment_path(self.directory, self.end), flags)

    def append(self) -> None:
        count = self.choice.randrange(1, 4)
        batch = encode_batch(
            [FRAMES[offset % ACLS] for offset in range(self.end, self.end + count)],
            base_offset=self.end,
            epoch=self.epoch,
            timestamp_ms=TIMESTAMP_MS,
        )
        at = self.choice.choice([0, 0, 0, 20, 61, len(batch) - 1])
        if at:
            os.write(self.file, batch[:at])
        os.write(self.file, batch[at:])
        self.end += count
        self.ends.append((self.end, self.ends[-1][1] + len(batch)))

    def truncate(self) -> None:
        last_index = self.choice.randrange(len(self.ends) - 10, len(self.ends))
        self.ends = self.ends[: last_index + 1]
        self.end, size_bytes = self.ends[-1]
        os.ftruncate(self.file, size_bytes)
        self.epoch += 1

    def retain(self) -> None:
        with DirectoryLog.open(self.directory) as log:
            last = self.bases[-1]
            image = load_image(log, [CheckpointFiles(log)], at_offset=last - 1).image
        write_checkpoint(image, self.directory)
        old = sorted(self.directory.glob("*.checkpoint"))[:-1]
        while len(self.bases) > 1:
            deleted = segment_path(self.directory, self.bases.pop(0))
            deleted.rename(deleted.with_suffix(".log.deleted"))
            deleted.with_suffix(".log.deleted").unlink()
        for checkpoint in old:
            checkpoint.unlink()

    def run(self) -> None:
        self.roll()
        while self.end < ACLS:
            self.append()
        print(self.end, flush=True)
        while True:
            self.append()
            if self.end > 2 * ACLS and len(self.ends) > 20 and self.choice.random() < 0.005:
                self.truncate()
            if len(self.ends) > SEGMENT_BATCHES:
                os.close(self.file)
                self.roll()
                if len(self.bases) > SEGMENTS:
                    self.retain()


if __name__ == "__main__":
    BrokerWriter(Path(sys.argv[1]), int(sys.argv[2])).run()
