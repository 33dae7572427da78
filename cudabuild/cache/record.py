"""This module is the memory of one OUT_DIR: what the last build there made, under which keys.

It is one JSON file, written whole at the end of a build. The units of a library read mostly the same headers, so a text (a path
with the digest of its content) is written once and named by number. A record that is missing, damaged or of another format is
an empty one: everything is then compiled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from cudabuild.cache.keys import Reading, Request
from cudabuild.files import Known, digest_bytes, read, write_atomically
from cudabuild.nvcc.probe import Probe

RECORD_FORMAT = 3


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a build made: under which key, what the compiler said, how long it took."""

    request: Request
    reading: Reading
    object: str
    """Digest of the object's bytes."""
    output: str
    """What the compiler printed; warnings are shown again as long as the object is used."""
    milliseconds: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    made: Mapping[str, Made] = {}
    """By the unit's logical source path."""
    probes: tuple[Probe, ...] = ()
    digests: Mapping[str, Known] = {}
    place: tuple[str, str] = ("", "")
    """The real folders of crate and output; what may not leave its place (`Reading.unshared`) is good there only."""
    library: str = ""
    """The archive's file name."""
    archive: str = ""
    """Digest of the archive's bytes."""
    members: tuple[tuple[str, str], ...] = ()
    """Name and object digest of the archive's members, in order."""


class _StoredMade(msgspec.Struct, frozen=True, array_like=True):
    request: int
    files: tuple[int, ...]
    absent: tuple[int, ...]
    present: tuple[str, ...]
    untracked: tuple[str, ...]
    unshared: tuple[str, ...]
    library: str
    object: str
    output: str
    milliseconds: int
    source: str


class _File(msgspec.Struct, frozen=True):
    record: msgspec.Raw
    sha256: str
    """Of the record's text: one flipped digit in it would make a unit depend on other files than it read."""


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    requests: tuple[Request, ...]
    texts: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]
    made: Mapping[str, _StoredMade]
    probes: tuple[Probe, ...]
    digests: Mapping[str, Known]
    place: tuple[str, str]
    library: str
    archive: str
    members: tuple[tuple[str, str], ...]


def load(path: str) -> Record:
    """The record at `path`, or an empty one."""
    data = read(path)
    if data is None:
        return Record()
    try:
        file = msgspec.json.decode(data, type=_File)
        if digest_bytes(file.record) != file.sha256:
            return Record()
        stored = msgspec.json.decode(file.record, type=_Stored)
        if stored.format != RECORD_FORMAT:
            return Record()
        return Record(
            made={source: _made(entry, stored) for source, entry in stored.made.items()},
            probes=stored.probes, digests=stored.digests, place=stored.place,
            library=stored.library, archive=stored.archive, members=stored.members,
        )
    except (msgspec.MsgspecError, IndexError):
        return Record()


def save(path: str, record: Record) -> None:
    """Replace the record at `path`."""
    texts: dict[tuple[str, str], int] = {}
    paths: dict[str, int] = {}
    requests: dict[Request, int] = {}
    made = {
        source: _StoredMade(
            request=requests.setdefault(msgspec.structs.replace(entry.request, source=""), len(requests)),
            files=tuple(texts.setdefault(text, len(texts)) for text in entry.reading.files),
            absent=tuple(paths.setdefault(path, len(paths)) for path in entry.reading.absent),
            present=entry.reading.present, untracked=entry.reading.untracked, unshared=entry.reading.unshared,
            library=entry.reading.library,
            object=entry.object, output=entry.output, milliseconds=entry.milliseconds, source=entry.request.source,
        )
        for source, entry in sorted(record.made.items())
    }
    stored = _Stored(
        format=RECORD_FORMAT, requests=tuple(requests), texts=tuple(texts), paths=tuple(paths), made=made,
        probes=record.probes, digests=record.digests, place=record.place,
        library=record.library, archive=record.archive, members=record.members,
    )
    os.makedirs(os.path.dirname(path), exist_ok=True)
    data = msgspec.json.encode(stored)
    write_atomically(path, msgspec.json.encode(_File(msgspec.Raw(data), digest_bytes(data))))


def _made(entry: _StoredMade, stored: _Stored) -> Made:
    return Made(
        request=msgspec.structs.replace(stored.requests[entry.request], source=entry.source),
        reading=Reading(
            files=tuple(stored.texts[number] for number in entry.files),
            absent=tuple(stored.paths[number] for number in entry.absent),
            present=entry.present, untracked=entry.untracked, unshared=entry.unshared,
            library=entry.library,
        ),
        object=entry.object, output=entry.output, milliseconds=entry.milliseconds,
    )
