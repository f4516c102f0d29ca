"""Opens a log by its URL, whatever kind it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from records.errors import LogError
from records.log.directory import DirectoryLog

if TYPE_CHECKING:
    from records.log.base import MetadataLog
    from records.log.directory.log import Mode

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_NOT_BUILT: Final = {
    "kafka": "a topic of its own",
    "kraft": "a real KRaft quorum",
}


def open_log(url: str, *, mode: Mode = "read") -> MetadataLog:
    """The log at ``file:DIR`` or a plain path.

    Args:
        url: where it is.
        mode: ``read``; ``write``; or ``create``, which is ``write`` where there is a log already.

    Raises:
        LogError: there is none, it cannot be had, or its kind is not known; see DirectoryLog.open.
    """
    scheme = match[1].lower() if (match := _SCHEME.match(url)) else "file"
    if scheme in _NOT_BUILT:
        raise LogError(f"`{url}`: not built yet: a log in {_NOT_BUILT[scheme]} ({scheme}://)")
    if scheme != "file":
        raise LogError(f"`{url}`: there is no such kind of log; a directory is file:DIR")
    return DirectoryLog.open(url, mode=mode)
