"""Differences of object stores (S3, Google, Azure) from local file systems, through fsspec.

- A path begins with a bucket, which must exist: a misspelled one is not created. fsspec's FileNotFoundError
  may mean the file or the bucket.
- There are no directories; a file's path is only its name.
- A store may be unreachable or deny access. Client libraries raise exceptions of their own for that, which
  are not OSErrors and have no common base.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import fsspec

from snapshot.errors import SnapshotError, SnapshotStoreMissingError, SnapshotStoreUnavailableError

BUCKETS: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
_S3: Final = frozenset({"s3", "s3a"})
#: botocore's settings: with s3fs' default of five tries, a server that never responds would take two minutes.
_S3_CLIENT: Final[Mapping[str, Any]] = MappingProxyType(
    {"connect_timeout": 5, "read_timeout": 10, "retries": {"mode": "standard", "total_max_attempts": 2}}
)


def client_options(url: str) -> dict[str, Any]:
    """Options of the client library; S3 timeouts of fsspec's own configuration have priority."""
    protocol = _protocol(url)
    options: dict[str, Any] = {}
    if protocol in BUCKETS:
        # Invalidating the cache before listings is not enough: reads use it, too, and miss newer files.
        options["use_listings_cache"] = False
    if protocol in _S3 and "config_kwargs" not in fsspec.config.conf.get(protocol, {}):
        options["config_kwargs"] = dict(_S3_CLIENT)
    return options


def is_s3(url: str) -> bool:
    """Whether it is a URL of S3 (``s3://`` or Hadoop's ``s3a://``)."""
    return _protocol(url) in _S3


def is_object_store(fs: Any) -> bool:
    """Whether paths of this fsspec file system begin with a bucket."""
    names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return not BUCKETS.isdisjoint(names)


def require_bucket(fs: Any, root: str, shown: str) -> None:
    """Check that the bucket of ``root`` exists.

    SnapshotStoreMissingError: it does not. SnapshotStoreUnavailableError: that cannot be determined.
    """
    bucket = root.lstrip("/").partition("/")[0]
    try:
        fs.ls(root, detail=False)
    except FileNotFoundError:
        pass  # no files yet, or no bucket
    except Exception as error:
        # Listing first gives better errors: for the bucket there is only a status code, and some servers
        # return 404 for a wrong key.
        raise failure("list", shown, error) from error
    else:
        return
    try:
        fs.info(bucket)
    except FileNotFoundError as error:
        raise SnapshotStoreMissingError(
            f"{shown}: bucket `{bucket}` does not exist; create it first"
        ) from error
    except PermissionError:
        pass  # access to objects does not imply access to the bucket
    except Exception as error:
        raise failure("access", shown, error) from error


def _protocol(url: str) -> str:
    return url.partition("://")[0]


def failure(doing: str, shown: str, error: Exception) -> SnapshotError:
    """The error for an exception of a client library."""
    reason = str(error) or type(error).__name__
    if isinstance(error, PermissionError):
        reason = f"access denied: {reason}"
    return SnapshotStoreUnavailableError(f"cannot {doing} {shown}: {reason}")
