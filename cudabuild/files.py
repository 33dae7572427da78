"""This module is the door to files: their stamps and digests, and writing them whole or not at all."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Mapping

import msgspec

# A file changed twice within one tick of the file system's clock can keep its stamp. Linux stamps with a coarse clock (4 ms
# measured); some file systems keep whole seconds, FAT two.
_FINE_GRAIN_NS = 50_000_000
_COARSE_GRAIN_NS = 2_100_000_000


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """What `stat` says of a file's content without reading it; ctime cannot be set back by a user."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def changed_ns(self) -> int:
        """The latest moment that the stamp admits for a change, in nanoseconds since the epoch."""
        return max(self.mtime_ns, self.ctime_ns)

    def settled_at(self, now_ns: int) -> bool:
        """Whether a change at or after `now_ns` would have to show in the stamp."""
        whole_seconds = self.mtime_ns % 1_000_000_000 == 0 and self.ctime_ns % 1_000_000_000 == 0
        return now_ns - self.changed_ns > (_COARSE_GRAIN_NS if whole_seconds else _FINE_GRAIN_NS)


def stamp(path: str) -> Stamp | None:
    """The stamp of the file that `path` leads to through any symlinks; None when there is no regular file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class Known(msgspec.Struct, frozen=True, array_like=True):
    """A digest and the stamp under which it was taken."""

    stamp: Stamp
    digest: str


class Digests:
    """SHA-256 of files' contents, remembered for as long as a file's stamp proves that it did not change.

    A digest taken while the file was younger than the clock's grain is not remembered: the file could change again without a
    new stamp.
    """

    def __init__(self, known: Mapping[str, Known]) -> None:
        self._known = dict(known)
        self._used: set[str] = set()

    def of(self, path: str) -> str | None:
        """Hex digest of a regular file's content; None when it is missing or cannot be read."""
        for _ in range(5):
            before = stamp(path)
            if before is None:
                return None
            known = self._known.get(path)
            if known is not None and known.stamp == before:
                self._used.add(path)
                return known.digest
            now = time.time_ns()
            try:
                digest = digest_file(path)
            except OSError:
                return None
            if stamp(path) == before:
                if before.settled_at(now):
                    self._known[path] = Known(before, digest)
                    self._used.add(path)
                return digest
        return digest

    def used(self) -> dict[str, Known]:
        """The digests that were asked for, to be remembered by the next build."""
        return {path: self._known[path] for path in sorted(self._used)}


def digest_file(path: str) -> str:
    """SHA-256 of a file's bytes, in hex."""
    sha = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest()


def digest_bytes(data: bytes | memoryview) -> str:
    """SHA-256 of bytes in memory, in hex."""
    return hashlib.sha256(data).hexdigest()


def digest_text(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return digest_bytes(text.encode("utf-8", "surrogateescape"))


def is_utf8(text: str) -> bool:
    """Whether a text from the operating system was UTF-8; surrogates stand for the bytes that were not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read(path: str) -> bytes | None:
    """A file's bytes, or None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def write_atomically(path: str, data: bytes) -> None:
    """Write beside `path`, then rename over it: a reader, and a build after a crash, sees the old file or the new one."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it, by name alone."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")
