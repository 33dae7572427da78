"""This module is the door to file locks: those of the kernel, which end with their holder, however it ends.

A lock that is a file by itself outlives a build that was killed, so filelock's stand-in of that kind is never used, and where the
file system has no other the caller is told.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock


class NoLocks(Exception):
    """Why there can be no lock here, in words."""


def take(path: str, *, wait: bool = False) -> BaseFileLock | None:
    """Hold the lock at `path` until it is released; None when another process has it and we do not `wait`.

    Raises NoLocks where locks do not work, which filelock's releases tell in different ways, and some of them not at all.
    """
    from filelock import FileLock, Timeout  # 40 ms that a build with nothing to do does not pay

    try:
        _try_locks(os.path.dirname(path))
        lock = FileLock(path)
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        return None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise NoLocks(f"no file can be locked in {os.path.dirname(path)}: {why}") from error
    return lock


def _try_locks(folder: str) -> None:
    """Take a lock that nobody refuses. OSError when that cannot be done."""
    import fcntl

    descriptor = os.open(os.path.join(folder, "lock-test"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
