"""A program that appends random batches of ``acl(offset)`` to a directory log until it is killed.

    python -m support.directory_writer DIR SEED RECORDS_MAX [SEGMENT_BYTES]

It prints the end offset of each append once that is acknowledged.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

from records.log.directory import DirectoryLog
from support.directory_logs import acls


def main(directory: str, seed: str, records_max: str, segment_bytes: str = "20000") -> None:
    choice = random.Random(int(seed))
    with DirectoryLog.open(Path(directory), mode="create", segment_bytes=int(segment_bytes)) as log:
        end = log.high_watermark()
        print(end, flush=True)
        while True:
            if choice.random() < 0.2:
                ends = [end]
                for _ in range(choice.randrange(1, 6)):
                    ends.append(ends[-1] + choice.randrange(1, int(records_max) + 1))
                batches = [(acls(start, stop), None) for start, stop in itertools.pairwise(ends)]
                end = log.append_batches(batches)
            else:
                end = log.append(acls(end, end + choice.randrange(1, int(records_max) + 1)))
            print(end, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
