"""This module is the store of objects that outlives OUT_DIR: shared by profiles, target folders, checkouts and crates.

    <cache>/cudabuild-cache                  the marker: a folder that holds other things and not this file is refused
    <cache>/CACHEDIR.TAG                     tells backup programs to leave the folder out
    <cache>/v1/entries/ab/<key>              an object with its description, in one file: there is no half of an entry
    <cache>/v1/readings/ab/<request>/<key>   what a compile of this request read when it made that object
    <cache>/v1/probes/<question>             what the tools said of themselves
    <cache>/v1/digests                       digests of files by their stamps
    <cache>/v1/tmp/, <cache>/v1/locks/

An entry is `cudabuild entry 1`, a newline, the length of the description (8 bytes, little-endian), the description as JSON, the
object. It is written in tmp/ and renamed into place. Its object is checked against the digest in the description whenever it is
read; one that does not fit is removed, and is a miss. All other trouble is a CacheError, which never fails a build.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import msgspec

from cudabuild.cache.keys import Reading, Request, key, request_digest
from cudabuild.cache.record import Made
from cudabuild.files import Known, read, write_atomically
from cudabuild.nvcc.probe import Probe

LAYOUT = "v1"
MARKER = "cudabuild-cache"
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This is cudabuild's cache; see https://bford.info/cachedir/\n"
_MAGIC = b"cudabuild entry 1\n"
_LENGTH = struct.Struct("<Q")
# A request whose header changes back and forth has as many readings as versions; the newest are tried first.
_READINGS_KEPT = 64
_DIGESTS_KEPT = 50_000
_LONGEST_DESCRIPTION = 64 << 20


class CacheError(Exception):
    """Why the cache cannot be used, in words; it never leaves the pipeline."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry says of its object."""

    key: str
    digest: str
    source: str
    output: str
    milliseconds: int


class Store(msgspec.Struct, frozen=True):
    """An open store. Every method answers with a miss, or raises CacheError, where the file system refuses."""

    root: str
    writable: bool

    @property
    def layout(self) -> str:
        return os.path.join(self.root, LAYOUT)

    def entry_path(self, key: str) -> str:
        return os.path.join(self.layout, "entries", key[:2], key)

    def readings(self, request: Request) -> Iterator[tuple[str, Reading]]:
        """The readings that compiles of this request had, with the key of each one's object, the newest first."""
        folder = self._readings_folder(request)
        for name in _newest_first(folder)[:_READINGS_KEPT]:
            data = read(os.path.join(folder, name))
            try:
                reading = msgspec.json.decode(data or b"", type=Reading)
            except msgspec.MsgspecError:
                reading = None
            # The name is the key of this very reading: a damaged one cannot lead to an object that it did not make.
            if reading is not None and key(request, reading) == name:
                yield name, reading
            else:
                self.forget(os.path.join(folder, name))

    def fetch(self, key: str, destination: str) -> Description | None:
        """Copy an object to `destination`; None when there is none. Raises CacheError when it is damaged."""
        found = self._read(key)
        if found is None:
            return None
        description, data = found
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        write_atomically(destination, data)
        if self.writable:
            _touch(self.entry_path(key))
        return description

    def check(self, key: str) -> None:
        """Raise CacheError when the entry is damaged."""
        self._read(key)

    def _read(self, key: str) -> tuple[Description, bytes] | None:
        """An entry, checked; one that is damaged is removed, so that the next compile heals it."""
        path = self.entry_path(key)
        try:
            with open(path, "rb") as file:
                description = _description(file)
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheError(f"{path} cannot be read: {error.strerror}") from error
        if description is None or description.key != key or hashlib.sha256(data).hexdigest() != description.digest:
            self.forget(path)
            raise CacheError(f"{path} is damaged{' and was removed' if self.writable else ''}")
        return description, data

    def publish(self, made: Made, object_path: str) -> None:
        """Add an object under its key, with its reading. A reader sees the whole entry or none."""
        name = key(made.request, made.reading)
        data = read(object_path)
        if data is None or hashlib.sha256(data).hexdigest() != made.object:
            raise CacheError(f"{object_path} changed before it could be stored")
        description = msgspec.json.encode(Description(
            key=name, digest=made.object, source=made.request.source, output=made.output, milliseconds=made.milliseconds,
        ))  # fmt: skip
        # The entry first: a reading never names an object that is not there yet.
        self._write(self.entry_path(name), _MAGIC + _LENGTH.pack(len(description)) + description + data)
        self._write(os.path.join(self._readings_folder(made.request), name), msgspec.json.encode(made.reading))

    def probes(self, question: str) -> list[Probe]:
        """What the tools answered to the questions that begin like this."""
        folder = os.path.join(self.layout, "probes")
        found = []
        for name in _newest_first(folder):
            if name.startswith(question):
                try:
                    found.append(msgspec.json.decode(read(os.path.join(folder, name)) or b"", type=Probe))
                except msgspec.MsgspecError:
                    continue
        return found

    def keep_probe(self, probe: Probe) -> None:
        self._write(os.path.join(self.layout, "probes", probe.question), msgspec.json.encode(probe))

    def digests(self) -> dict[str, Known]:
        """Digests of files, good as long as the files' stamps are the same."""
        data = read(os.path.join(self.layout, "digests"))
        try:
            return {} if data is None else msgspec.json.decode(data, type=dict[str, Known])
        except msgspec.MsgspecError:
            return {}

    def keep_digests(self, used: Mapping[str, Known]) -> None:
        """Add digests. Two builds at a time may lose some of each other's, which costs a hash."""
        before = self.digests()
        if all(before.get(path) == known for path, known in used.items()):
            return
        merged = {**before, **used}
        self._write(os.path.join(self.layout, "digests"), msgspec.json.encode(used if len(merged) > _DIGESTS_KEPT else merged))

    def note_added(self, size: int) -> int:
        """Bytes added since the store was last measured, these included. Two builds at a time may lose a count."""
        path = os.path.join(self.layout, "added")
        before = read(path) or b""
        total = size + (int(before) if before.isdigit() else 0)
        self._write(path, b"%d" % total)
        return total

    def reset_added(self) -> None:
        self._write(os.path.join(self.layout, "added"), b"0")

    def forget_answers(self) -> None:
        """Forget what the tools said and what files hold."""
        for name in _newest_first(os.path.join(self.layout, "probes")):
            self.forget(os.path.join(self.layout, "probes", name))
        self.forget(os.path.join(self.layout, "digests"))

    def forget(self, path: str) -> None:
        if self.writable:
            try:
                os.unlink(path)
            except OSError:
                pass

    def _readings_folder(self, request: Request) -> str:
        name = request_digest(request)
        return os.path.join(self.layout, "readings", name[:2], name)

    def _write(self, path: str, data: bytes) -> None:
        if not self.writable:
            return
        temporary = os.path.join(self.layout, "tmp", f"{os.path.basename(path)}.{os.getpid()}.{time.time_ns():x}")
        for attempt in (1, 2):
            try:
                os.makedirs(os.path.dirname(temporary), exist_ok=True)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(temporary, "wb") as file:
                    file.write(data)
                os.replace(temporary, path)
                return
            except FileNotFoundError as error:  # a cleaner removed a folder in between
                if attempt == 2:
                    raise CacheError(f"{path} cannot be written: {error.strerror}") from error
            except OSError as error:
                self.forget(temporary)
                raise CacheError(f"{path} cannot be written: {error.strerror}") from error


def open_store(root: str, *, writable: bool) -> Store | None:
    """The store in this folder, made when it is missing; None when it is missing and may not be made.

    Raises CacheError for a folder that is not a cache: it could be anybody's.
    """
    marker = os.path.join(root, MARKER)
    try:
        if not os.path.isfile(marker):
            if os.path.isdir(root) and os.listdir(root):
                raise CacheError(f"{root} holds other things and no file named {MARKER}, so it is not taken for a cache")
            if not writable:
                return None
            os.makedirs(root, mode=0o700, exist_ok=True)
            with open(os.path.join(root, "CACHEDIR.TAG"), "w", encoding="ascii") as file:
                file.write(_TAG)
            write_atomically(marker, b"cudabuild's cache of objects; `cudabuild cache-clean` cleans it\n")
    except OSError as error:
        raise CacheError(f"{error.filename or root} cannot be used: {error.strerror}") from error
    return Store(root, writable and os.access(root, os.W_OK))


def _description(file: BinaryIO) -> Description | None:
    """Read an entry's head; None when it is not one."""
    head = file.read(len(_MAGIC) + _LENGTH.size)
    if not head.startswith(_MAGIC) or len(head) < len(_MAGIC) + _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(head, len(_MAGIC))
    if length > _LONGEST_DESCRIPTION:
        return None
    try:
        return msgspec.json.decode(file.read(length), type=Description)
    except msgspec.MsgspecError:
        return None


def _newest_first(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            times = [(entry.stat().st_mtime_ns, entry.name) for entry in entries]
    except OSError:
        return []
    return [name for _, name in sorted(times, reverse=True)]


def _touch(path: str) -> None:
    """The time of an entry is that of its last use."""
    try:
        os.utime(path)
    except OSError:
        pass
