"""This module looks into object files."""

from __future__ import annotations

import os
import struct


def holds_hidden_names(path: str) -> bool:
    """Whether an object defines device code or data that its source calls static or anonymous.

    nvcc gives those global names that are unique by a checksum of the source's real path. One object that is linked twice into a
    program, as a hit for two crates with the same source would be, then defines them twice.
    """
    with open(path, "rb") as file:
        data = file.read()
    return any(mark in data for mark in (b"_GLOBAL__N__", b"_INTERNAL_", b"__nv_static_"))


def is_whole(path: str) -> bool:
    """Whether an object has all the bytes that its header promises.

    A full disk or a killed compiler can leave the beginning of one. An ELF object ends with its section table or with the last
    section; the table's end is known from the header (ELF-64, little-endian: e_shoff at 0x28, e_shentsize and e_shnum at 0x3a).
    Other formats, such as LLVM bitcode by `-flto`, have only to be there.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        header = file.read(64)
    if header[:6] != b"\x7fELF\x02\x01":
        return size > 0
    if len(header) < 64:
        return False
    (table,) = struct.unpack_from("<Q", header, 0x28)
    entry_size, entries = struct.unpack_from("<HH", header, 0x3A)
    return bool(table + entry_size * entries <= size)
