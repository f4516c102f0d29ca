"""`aclog shell` beside the real kafka-metadata-shell, on the same checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from records.entries import (
    METADATA_VERSION_FEATURE,
    DelegationTokenRecord,
    FeatureLevelRecord,
    ScramCredentialRecord,
)
from snapshot.files.kraft_checkpoint import read_checkpoint
from snapshot.store.snapshot_store import SnapshotStore
from support.checkpoints import checkpoint_of
from support.data import real_log
from support.kafka_tools import metadata_shell
from support.other_frames import SECRETS
from support.snapshots import IDENTITY, acl

pytestmark = pytest.mark.integration

# A real cluster's, with ACLs, topics, a user and a broker.
CHECKPOINT = real_log("kraft-small") / "00000000000000000264-0000000001.checkpoint"
# What an image of ours does not hold, below /image.
NOT_HELD = re.compile(
    r"/image/(clientQuotas|configs|producerIds|cluster/controllers|topics/by(Id|Name)/[^/]+/[0-9]+)(/|$)"
)
SAME = [
    "ls /image/features /image/topics /image/scram/*",
    "ls /image/acls/* /image/provenance",
    "ls /image/scram/*/alice",
    "tree /image/acls /image/features",
    "tree /image/topics/byName/orders.?/{id,name}",
    "cat /image/topics/by*/*/{id,name}",
    "pwd",
    "ls /image/delegationToken /nowhere /image/cluster/brokers",
    "cd /image/acls",
    "ls",
    "cat byId/*",
    "cd ..",
    "pwd",
    "find features",
    "cat acls",
    "cd /nowhere",
    "cd /image/features/metadataVersion",
    "pwd",
]


SECRET = "[redacted]"
PARTS = [
    "cat /image/scram/SCRAM-SHA-256/alice",
    "cat /image/cluster/brokers/*",
    "cat /image/delegationToken/*",
    "cat /image/provenance",
]


def ours(source: str | Path, commands: list[str]) -> list[str]:
    """The lines that aclog prints for these commands."""
    typed = "".join(f"{command}\n" for command in commands)
    done = CliRunner().invoke(cli, ["shell", "--quiet", "--acls", str(source)], input=typed)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_the_tree_equals_kafkas_shell() -> None:
    """Every path below /image that is held, in its order; the commands' own lines, errors among them."""
    *same, paths, credential, broker, _, provenance = metadata_shell(
        CHECKPOINT, [*SAME, "find /image", *PARTS]
    )
    assert ours(CHECKPOINT, SAME) == "".join(same).splitlines()
    held = [path for path in paths.splitlines() if NOT_HELD.match(path) is None]
    assert ours(CHECKPOINT, ["find /image"]) == held
    assert len(held) > 100
    assert_part_of(credential, *ours(CHECKPOINT, PARTS[:1]))
    assert_part_of(broker, *ours(CHECKPOINT, PARTS[1:2]))
    # Kafka's offset is that in the file, and its time that of the file.
    assert re.fullmatch(r"offset 86, epoch 1, time \S+Z\[UTC\]\n", provenance)
    (line,) = ours(CHECKPOINT, PARTS[3:])
    assert re.fullmatch(r"offset 263, epoch 1, time \S+Z\[UTC\]", line)


def test_a_token_and_unicode_names_equal_kafkas_shell(tmp_path: Path) -> None:
    """What that cluster had none of; sorted as Java sorts, which is not by code points."""
    names = ["naïve", "\uff5ewide", "😀", "orders"]
    checkpoint = checkpoint_of(
        tmp_path,
        [
            FeatureLevelRecord(METADATA_VERSION_FEATURE, 30),
            DelegationTokenRecord(10, 0, "a-token", "User:owner"),
            *(ScramCredentialRecord(11, 0, name, 2) for name in names),
            *(acl(number, resource_name=name) for number, name in enumerate(names)),
        ],
    )
    same = ["tree /image/acls /image/features", "ls /image/delegationToken /image/scram", "find /image/scram"]
    *printed, token = metadata_shell(checkpoint, [*same, PARTS[2]])
    assert ours(checkpoint, same) == "".join(printed).splitlines()
    assert_part_of(token, *ours(checkpoint, PARTS[2:3]))
    everything = "\n".join(ours(checkpoint, ["tree /"]))
    assert not any(text in everything for secret in SECRETS for text in (secret.decode(), secret.hex()))


def test_a_log_a_store_and_a_checkpoint_have_the_same_tree(tmp_path: Path) -> None:
    """At one offset; ACLs, topics, features, brokers and users."""
    commands = ["tree /acl /cluster /features /topics", "tree /image/scram /image/topics /image/provenance"]
    shown = ours(CHECKPOINT, commands)
    assert ours(f"{CHECKPOINT.parent}@263", commands) == shown
    SnapshotStore(tmp_path).write(read_checkpoint(CHECKPOINT), IDENTITY, log_end_time_ms=0)
    assert ours(f"{tmp_path}@264", commands) == shown


def assert_part_of(kafkas: str, line: str) -> None:
    """The line is Kafka's, but for what is left out and what is not to be seen."""
    for left_out in ("...", SECRET):
        assert left_out not in kafkas
    pattern = re.escape(line).replace(re.escape("..."), ".*").replace(re.escape(SECRET), ".+")
    assert re.fullmatch(pattern, kafkas.rstrip("\n")), (line, kafkas)
