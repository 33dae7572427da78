"""This module keeps the store within its size, by what was not used for the longest time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

import msgspec

from cudabuild.cache.store import Store

# A temporary file of a build that was killed; one that is being written is younger.
_LEFTOVER_SECONDS = 3600


class Stored(msgspec.Struct, frozen=True):
    """One entry on disk; `used` is the time of its last use, in seconds since the epoch."""

    path: str
    size: int
    used: float


def entries(store: Store) -> list[Stored]:
    """Every entry, the longest unused first."""
    return sorted(_files(os.path.join(store.layout, "entries")), key=lambda stored: stored.used)


def surplus(stored: Sequence[Stored], *, max_bytes: int | None = None, older_than: float | None = None) -> list[Stored]:
    """Those of `stored`, sorted by use, that have to go: what was last used before `older_than`, and what is above the size."""
    total = sum(one.size for one in stored)
    chosen = []
    for one in stored:
        if (older_than is not None and one.used < older_than) or (max_bytes is not None and total > max_bytes):
            chosen.append(one)
            total -= one.size
    return chosen


def remove(store: Store, chosen: Sequence[Stored]) -> list[Stored]:
    """Remove entries, the readings that lead to them, and leftovers; those that were really removed."""
    gone = []
    for one in chosen:
        try:
            os.unlink(one.path)
            gone.append(one)
        except FileNotFoundError:
            continue
        except OSError:
            continue
    for reading in _files(os.path.join(store.layout, "readings")):
        if not os.path.exists(store.entry_path(os.path.basename(reading.path))):
            store.forget(reading.path)
    now = time.time()
    for folder in ("tmp", "locks"):
        for left in _files(os.path.join(store.layout, folder)):
            if now - left.used > _LEFTOVER_SECONDS:
                store.forget(left.path)
    return gone


def _files(folder: str) -> Iterator[Stored]:
    """All files below a folder, whatever its depth."""
    for path, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(path, name)
            try:
                status = os.lstat(full)
            except OSError:
                continue
            yield Stored(full, status.st_size, status.st_mtime)
