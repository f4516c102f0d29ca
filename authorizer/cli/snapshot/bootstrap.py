"""``aclog snapshot export --bootstrap``: what a new cluster begins with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.rendering.output import Waiting, answer, note, print_json
from records.entries import METADATA_VERSION_FEATURE
from records.metadata_version import METADATA_VERSION_3_9, metadata_version_name

if TYPE_CHECKING:
    from snapshot.image import AclsImage

_HERE: Final = "-"


def write_bootstrap_and_print(
    image: AclsImage, output: str, metadata_version: int | None, *, as_json: bool
) -> None:
    """Add the ACLs to a formatted directory, or write a file of its own; and say what is to be done then.

    Args:
        image: whose ACLs, and whose features if no ``metadata_version`` is given.
        output: a formatted log directory, another directory, or a file; ``-`` for the current directory.
        metadata_version: level, for a file of its own.
        as_json: say it in JSON.

    Raises:
        click.UsageError: a metadata.version beside one that is there.
        EncodeError, SnapshotError: as snapshot.files.kraft_bootstrap.
    """
    from snapshot.digest import digest_to_string
    from snapshot.files.kraft_bootstrap import add_to_formatted, is_formatted, write_bootstrap
    from snapshot.files.kraft_checkpoint import BOOTSTRAP_NAME

    target = Path("." if output == _HERE else output)
    formatted = is_formatted(target)
    if formatted:
        if metadata_version is not None:
            raise click.UsageError(
                f"{target} is formatted, with a metadata.version: `kafka-storage format --release-version` "
                "chooses it"
            )
        with Waiting("writing"):
            path, features = add_to_formatted(image, target)
    else:
        path = target / BOOTSTRAP_NAME if target.is_dir() else target
        if metadata_version is not None:
            features = {METADATA_VERSION_FEATURE: metadata_version}
        else:
            features = {METADATA_VERSION_FEATURE: METADATA_VERSION_3_9, **image.metadata.features}
        with Waiting("writing"):
            write_bootstrap(image, path, features)
    version = metadata_version_name(features[METADATA_VERSION_FEATURE])
    if as_json:
        print_json(
            {
                "file": str(path),
                "format": "kraft",
                "bootstrap": True,
                "isInFormattedDirectory": formatted,
                "metadataVersion": version,
                "features": dict(features),
                "count": len(image),
                "digest": digest_to_string(image.digest),
            }
        )
        return
    answer(f"{path}: {len(image)} ACLs, metadata.version {version}")
    if formatted:
        note("note: do the same with every other controller's directory, before any of them starts")
    else:
        note(
            "note: up to Kafka 4.3, put it in place of the bootstrap.checkpoint that `kafka-storage format` "
            "wrote into each controller's log directory, before any of them starts; from 4.4 on, where that "
            "writes none, name the directory as --output instead"
        )
