"""A part of a core for each of some processes, by the kernel's control groups: so that there is one for each.

Three busy processes on two cores say nothing of three cores. With a fifth for each they do not disturb one
another, and what they do in it is what they do. It takes root, as in a container, and a machine whose groups
may be written to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 20_000


@contextmanager
def core_share(pids: Sequence[int], share: float) -> Iterator[bool]:
    """So much of a core for each, within the block; whether that could be had."""
    with ExitStack() as groups:
        try:
            for pid in pids:
                groups.enter_context(_group(pid, round(_PERIOD_US * share)))
        except OSError:
            groups.close()
            yield False
        else:
            yield True


@contextmanager
def _group(pid: int, quota_us: int) -> Iterator[None]:
    """A group of its own for a process, with both versions' files."""
    parent = _ROOT / "cpu" if (_ROOT / "cpu").is_dir() else _ROOT
    group = parent / f"aclog-benchmark-{pid}"
    group.mkdir()
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(f"{_PERIOD_US}")
            (group / "cpu.cfs_quota_us").write_text(f"{quota_us}")
        else:
            (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        (group / "cgroup.procs").write_text(f"{pid}")
        yield
    finally:
        with suppress(OSError):  # it has ended
            (parent / "cgroup.procs").write_text(f"{pid}")
        group.rmdir()
