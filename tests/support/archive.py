"""This module reads a static archive's members, with their names, from its bytes."""

from __future__ import annotations


def members(archive: bytes) -> list[tuple[str, bytes]]:
    """Names and contents in the archive's order; the symbol table and the table of long names are left out."""
    assert archive.startswith(b"!<arch>\n"), archive[:20]
    at, long_names, found = 8, b"", []
    while at < len(archive):
        header = archive[at : at + 60]
        assert header[58:60] == b"`\n", f"no member header at {at}"
        name, size = header[:16].decode().rstrip(), int(header[48:58])
        content = archive[at + 60 : at + 60 + size]
        assert len(content) == size, f"{name} is cut short"
        at += 60 + size + size % 2
        if name == "//":
            long_names = content
        elif name.startswith("/") and name[1:].isdigit():
            start = int(name[1:])
            found.append((long_names[start : long_names.index(b"/\n", start)].decode(), content))
        elif name not in ("/", "/SYM64/"):
            found.append((name.removesuffix("/"), content))
    return found
