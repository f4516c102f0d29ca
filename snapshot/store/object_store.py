"""What is different where a snapshot store is an object store: S3, Google's and Azure's, through fsspec.

- A path begins with a bucket, which must be there: nobody makes one by a slip of the keyboard. fsspec's
  FileNotFoundError may mean the file or the bucket, and a listing of neither is empty.
- There are no directories; a file's path is only its name.
- It may be out of reach, or not let us in. Client libraries say so by exceptions of their own, which are no
  OSErrors and have no base in common.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import fsspec

from snapshot.errors import SnapshotError, SnapshotStoreMissingError, SnapshotStoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_BUCKETS: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
_S3: Final = frozenset({"s3", "s3a"})
#: Of botocore: a server that accepts and never answers takes, with s3fs' own five tries, two minutes.
_S3_CLIENT: Final[Mapping[str, Any]] = MappingProxyType(
    {"connect_timeout": 5, "read_timeout": 10, "retries": {"mode": "standard", "total_max_attempts": 2}}
)


def client_options(url: str) -> dict[str, Any]:
    """What the client library is made with; how long S3 may take, fsspec's own configuration may say too."""
    protocol = url.partition("://")[0]
    options: dict[str, Any] = {}
    if protocol in _BUCKETS:
        # To forget it before a listing is not enough: whole reads believe it too, and miss what came since.
        options["use_listings_cache"] = False
    if protocol in _S3 and "config_kwargs" not in fsspec.config.conf.get(protocol, {}):
        options["config_kwargs"] = dict(_S3_CLIENT)
    return options


def is_object_store(fs: Any) -> bool:
    """Whether paths of this fsspec file system begin with a bucket."""
    names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return not _BUCKETS.isdisjoint(names)


def require_bucket(fs: Any, root: str, shown: str) -> None:
    """See that the bucket of ``root`` is there.

    Raises:
        SnapshotStoreMissingError: it is not.
        SnapshotStoreUnavailableError: nobody can say.
    """
    bucket = root.lstrip("/").partition("/")[0]
    try:
        fs.ls(root, detail=False)
    except FileNotFoundError:
        pass  # nothing is there yet, or no bucket
    except Exception as error:
        # Asked first, because it says more: the answer about a bucket is only a number, and to a wrong key
        # some servers answer 404.
        raise failure("list", shown, error) from error
    else:
        return
    try:
        fs.info(bucket)
    except FileNotFoundError as error:
        raise SnapshotStoreMissingError(f"{shown}: there is no bucket `{bucket}`") from error
    except PermissionError:
        pass  # those who may use what is in it need not be allowed to look at the bucket itself
    except Exception as error:
        raise failure("look at", shown, error) from error


def failure(doing: str, shown: str, error: Exception) -> SnapshotError:
    """The error for whatever a client library raised."""
    # Some exceptions of botocore begin with the operation's name, others are bare; all say what went wrong.
    reason = str(error) or type(error).__name__
    if isinstance(error, PermissionError):
        reason = f"it does not let us: {reason}"
    return SnapshotStoreUnavailableError(f"cannot {doing} {shown}: {reason}")
