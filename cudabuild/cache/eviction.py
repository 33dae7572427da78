"""This module keeps the store within its size, by what was not used for the longest time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

import msgspec

from cudabuild.cache.store import Store

# A temporary file of a build that was killed; one that is being written is younger.
_LEFTOVER_SECONDS = 3600
# What tools said of themselves, a few kilobytes for each toolkit and set of flags.
_PROBES_KEPT = 200


class Stored(msgspec.Struct, frozen=True):
    """One entry on disk, with what leads to it; `used` is the time of its last use, in seconds since the epoch."""

    path: str
    size: int
    used: float


class Removed(msgspec.Struct, frozen=True):
    """What is gone, and what could not be removed."""

    gone: tuple[Stored, ...]
    stuck: tuple[Stored, ...]


def entries(store: Store) -> list[Stored]:
    """Every entry, the longest unused first."""
    readings: dict[str, int] = {}
    for reading in _files(store.folder("readings")):  # of a header-rich unit as large as its object
        key = os.path.basename(reading.path)
        readings[key] = readings.get(key, 0) + reading.size
    stored = (
        Stored(one.path, one.size + readings.get(os.path.basename(one.path), 0), one.used)
        for one in _files(store.folder("entries"))
    )
    return sorted(stored, key=lambda one: one.used)


def surplus(stored: Sequence[Stored], *, max_bytes: int | None = None, older_than: float | None = None) -> list[Stored]:
    """Those of `stored`, sorted by use, that have to go: what was last used before `older_than`, and what is above the size."""
    total = sum(one.size for one in stored)
    chosen = []
    for one in stored:
        if (older_than is not None and one.used < older_than) or (max_bytes is not None and total > max_bytes):
            chosen.append(one)
            total -= one.size
    return chosen


def remove(store: Store, chosen: Sequence[Stored]) -> Removed:
    """Remove entries, the readings that lead to them, and leftovers. What somebody else removed first is gone too."""
    stuck = []
    for one in chosen:
        try:
            os.unlink(one.path)
        except FileNotFoundError:
            continue
        except OSError:
            stuck.append(one)
    for reading in _files(store.folder("readings")):
        if not os.path.exists(store.entry_path(os.path.basename(reading.path))):
            store.forget(reading.path)
    now = time.time()
    for name in ("tmp", "locks"):
        for left in _files(store.folder(name)):
            if now - left.used > _LEFTOVER_SECONDS:
                store.forget(left.path)
    probes = sorted(_files(store.folder("probes")), key=lambda one: one.used, reverse=True)
    for old in probes[_PROBES_KEPT:]:
        store.forget(old.path)
    for name in ("entries", "readings"):
        _remove_empty_folders(store.folder(name))
    return Removed(tuple(one for one in chosen if one not in stuck), tuple(stuck))


def _remove_empty_folders(root: str) -> None:
    for path, _, _ in os.walk(root, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            continue  # it holds something


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
