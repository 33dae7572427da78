"""This module is the store of objects that outlives OUT_DIR: shared by profiles, target folders, checkouts and crates.

    <cache>/cudabuild-cache                  the marker: a folder that holds other things and not this file is refused
    <cache>/CACHEDIR.TAG                     tells backup programs to leave the folder out
    <cache>/v1/entries/ab/<key>              an object with its description, in one file: there is no half of an entry
    <cache>/v1/readings/ab/<request>/<key>   what a compile of this request read when it made that object
    <cache>/v1/probes/<question>             what the tools said of themselves
    <cache>/v1/digests                       digests of files by their stamps
    <cache>/v1/tmp/, <cache>/v1/locks/

An entry is `cudabuild entry 1`, a newline, the length of the description (8 bytes, little-endian), the description's SHA-256, the
description as JSON, the object. It is written in tmp/ and renamed into place. All of it is checked whenever it is read; an entry
that does not fit is removed, and is a miss. All other trouble is a CacheError, which never fails a build.
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
_HEAD = struct.Struct("<Q32s")
# A request whose header changes back and forth has as many readings as versions; the newest are tried first.
_READINGS_KEPT = 64
_DIGESTS_KEPT = 50_000
_LONGEST_DESCRIPTION = 64 << 20
# Each is one more than the cleaners that may remove a folder between its making and its use.
_WRITE_ATTEMPTS = 3


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

    def folder(self, name: str) -> str:
        return os.path.join(self.layout, name)

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

    def publish(self, made: Made, object_path: str) -> int:
        """Add an object under its key, with its reading; the bytes written. A reader sees the whole entry or none."""
        name = key(made.request, made.reading)
        data = read(object_path)
        if data is None or hashlib.sha256(data).hexdigest() != made.object:
            raise CacheError(f"{object_path} changed before it could be stored")
        description = msgspec.json.encode(Description(
            key=name, digest=made.object, source=made.request.source, output=made.output, milliseconds=made.milliseconds,
        ))  # fmt: skip
        head = _MAGIC + _HEAD.pack(len(description), hashlib.sha256(description).digest())
        reading = msgspec.json.encode(made.reading)
        # The entry first: a reading never names an object that is not there yet.
        self._write(self.entry_path(name), head + description + data)
        self._write(os.path.join(self._readings_folder(made.request), name), reading)
        return len(head) + len(description) + len(data) + len(reading)

    def probes(self, question: str) -> list[Probe]:
        """What the tools answered to the questions that begin like this."""
        folder = self.folder("probes")
        found = []
        for name in _newest_first(folder):
            if name.startswith(question):
                try:
                    found.append(msgspec.json.decode(_unsealed(read(os.path.join(folder, name))), type=Probe))
                except msgspec.MsgspecError:
                    continue
        return found

    def keep_probe(self, probe: Probe) -> None:
        self._write(os.path.join(self.layout, "probes", probe.question), _sealed(msgspec.json.encode(probe)))

    def digests(self) -> dict[str, Known]:
        """Digests of files, good as long as the files' stamps are the same."""
        try:
            return msgspec.json.decode(_unsealed(read(os.path.join(self.layout, "digests"))), type=dict[str, Known])
        except msgspec.MsgspecError:
            return {}

    def keep_digests(self, used: Mapping[str, Known]) -> None:
        """Add digests. Two builds at a time may lose some of each other's, which costs a hash."""
        before = self.digests()
        if all(before.get(path) == known for path, known in used.items()):
            return
        merged = {**before, **used}
        kept = used if len(merged) > _DIGESTS_KEPT else merged
        self._write(os.path.join(self.layout, "digests"), _sealed(msgspec.json.encode(kept)))

    def note_added(self, size: int) -> int:
        """Bytes added since the store was last measured, these included. Two builds at a time may lose a count."""
        path = os.path.join(self.layout, "added")
        before = (read(path) or b"")[:18]
        total = size + (int(before) if before.isdigit() else 0)
        self._write(path, b"%d" % total)
        return total

    def reset_added(self) -> None:
        self._write(os.path.join(self.layout, "added"), b"0")

    def forget_answers(self) -> None:
        """Forget what the tools said and what files hold."""
        for name in _newest_first(self.folder("probes")):
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

    def claim_path(self, request: Request) -> str:
        """The lock of those who compile this request; its folder is there."""
        folder = self.folder("locks")
        try:
            _prepare(self.root)
            _make_folder(folder)
        except OSError as error:
            raise CacheError(f"{folder} cannot be made: {error.strerror}") from error
        return os.path.join(folder, request_digest(request))

    def _write(self, path: str, data: bytes) -> None:
        if not self.writable:
            return
        temporary = os.path.join(self.layout, "tmp", f"{os.path.basename(path)}.{os.getpid()}.{time.time_ns():x}")
        for attempt in range(1, _WRITE_ATTEMPTS + 1):
            try:
                _prepare(self.root)
                _make_folder(os.path.dirname(temporary))
                _make_folder(os.path.dirname(path))
                with open(temporary, "wb", opener=_private) as file:
                    file.write(data)
                os.replace(temporary, path)
                return
            except OSError as error:
                self.forget(temporary)
                if attempt == _WRITE_ATTEMPTS or not isinstance(error, FileNotFoundError):
                    raise CacheError(f"{path} cannot be written: {error.strerror}") from error
            except BaseException:
                self.forget(temporary)
                raise


def open_store(root: str, *, writable: bool) -> Store | None:
    """The store in this folder, made when it is missing; None when it is missing and may not be made.

    Raises CacheError for a folder that is not a cache: it could be anybody's.
    """
    try:
        if not os.path.isfile(os.path.join(root, MARKER)):
            names = os.listdir(root) if os.path.isdir(root) else []
            if names and MARKER not in names:  # another build may have put it there meanwhile
                raise CacheError(f"{root} holds other things and no file named {MARKER}, so it is not taken for a cache")
            if not writable:
                return None
        writable = writable and (not os.path.exists(root) or os.access(root, os.W_OK))
        if writable:
            _prepare(root)
    except OSError as error:
        raise CacheError(f"{error.filename or root} cannot be used: {error.strerror}") from error
    return Store(root, writable)


def _prepare(root: str) -> None:
    """Make an empty store, or what is missing of it. The marker comes first, in one step: a build that looks meanwhile, or after
    this one was killed, sees an empty folder or a cache."""
    marker, tag = os.path.join(root, MARKER), os.path.join(root, "CACHEDIR.TAG")
    if not os.path.isfile(marker) or not os.path.isfile(tag):
        _make_folder(root)
        with open(marker, "wb", opener=_private):
            pass
        with open(tag, "w", encoding="ascii", opener=_private) as file:
            file.write(_TAG)


def _make_folder(path: str) -> None:
    """Make a folder and those above it, for this user alone."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        _make_folder(os.path.dirname(path))
        os.mkdir(path, 0o700)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sealed(data: bytes) -> bytes:
    """A text with its own digest before it: one flipped digit in what a tool said could hide a changed file."""
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def _unsealed(data: bytes | None) -> bytes:
    """The text as it was sealed; empty when it is missing or damaged."""
    digest, _, text = (data or b"").partition(b"\n")
    return text if hashlib.sha256(text).hexdigest().encode() == digest else b""


def _description(file: BinaryIO) -> Description | None:
    """Read an entry's head; None when it is not one."""
    head = file.read(len(_MAGIC) + _HEAD.size)
    if not head.startswith(_MAGIC) or len(head) < len(_MAGIC) + _HEAD.size:
        return None
    length, digest = _HEAD.unpack_from(head, len(_MAGIC))
    if length > _LONGEST_DESCRIPTION:
        return None
    text = file.read(length)
    if hashlib.sha256(text).digest() != digest:
        return None
    try:
        return msgspec.json.decode(text, type=Description)
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
