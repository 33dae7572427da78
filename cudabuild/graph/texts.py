"""This module finds in a source text what a compiler's dependency list leaves out.

nvcc reports the files that it entered. It does not report `__has_include`, `.incbin`, `#embed`, or a header skipped because
`#pragma once` took it for a copy of one seen before; and a `#line` can make it report a file that was never read.
All searches are textual and err towards finding too much, comments included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

_HAS_INCLUDE = re.compile(rb'\b(\w*has_include\w*)[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([^\s)]))', re.IGNORECASE)
# `__has_include` by itself: given another name, or asked with a comment or a macro in between.
_BARE_PROBE = re.compile(
    rb'(defined[ \t]*\(?[ \t]*|#[ \t]*ifn?def[ \t]+)?\b__has_include(?:_next)?\b(?![ \t]*\([ \t]*["<])'
)
_INCLUDE = re.compile(
    rb'^[ \t]*#[ \t]*(include|include_next|import|define[ \t]+\w+)[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE
)
_LINE = re.compile(rb'^[ \t]*#[ \t]*(?:line[ \t]+)?\d+[ \t]+"([^"\n]+)"', re.MULTILINE)
_ONCE = re.compile(rb'pragma[ \t("]+once')
_MOMENT = re.compile(rb'\b__(?:DATE|TIME|TIMESTAMP)__\b')
_BINARY = re.compile(rb'\.incbin\b|\.include[ \t]+\\*"|^[ \t]*#[ \t]*embed\b', re.MULTILINE)


class Mention(msgspec.Struct, frozen=True):
    """A header's name as written, and whether in quotes (the includer's own folder is searched first)."""

    name: str
    quoted: bool
    further: bool = False
    """Whether the search goes on behind the first one found, as `#include_next` and `__has_include_next` have it."""


class Text(msgspec.Struct, frozen=True):
    """What one file mentions."""

    includes: tuple[Mention, ...]
    """Names that it includes, or that a macro of it has as its value, which may be included."""
    probes: tuple[Mention, ...]
    """Names that `__has_include` asks for."""
    computed_probe: bool
    """`__has_include` of something that only the preprocessor knows."""
    line_names: tuple[str, ...]
    """File names in `#line` directives."""
    includes_binary: bool
    pragma_once: bool
    moments: tuple[str, ...] = ()
    """The macros that it names and that have the time of the compile, or of the file, as their value."""


def examine(data: bytes) -> Text:
    """Search one file's bytes."""
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\\\r\n", b"").replace(b"\\\n", b"")
    probes = list(_HAS_INCLUDE.finditer(data)) if b"has_include" in data.lower() else []
    return Text(
        includes=_mentions(_INCLUDE.finditer(data)),
        probes=_mentions(probes),
        # `#define HAS(x) __has_include(x)` computes; a macro of one's own called HAS_INCLUDE(<x>) is taken as a probe itself.
        computed_probe=b"__has_include" in data and any(not bare[1] for bare in _BARE_PROBE.finditer(data)),
        line_names=tuple(sorted({_decoded(match[1]) for match in _LINE.finditer(data)})),
        includes_binary=_BINARY.search(data) is not None,
        pragma_once=_ONCE.search(data) is not None,
        moments=moments(data),
    )


def moments(data: bytes) -> tuple[str, ...]:
    """The names of the macros for a time that stand in a text; `__TIMESTAMP__` is the one that SOURCE_DATE_EPOCH leaves."""
    return tuple(sorted({_decoded(match[0]) for match in _MOMENT.finditer(data)}))


def _mentions(matches: Iterable[re.Match[bytes]]) -> tuple[Mention, ...]:
    """Group 1 is the word that mentions, 2 a name in quotes, 3 one in angle brackets."""
    found: dict[Mention, None] = {}
    for match in matches:
        further = b"_next" in match[1].lower()
        if match[2]:
            found[Mention(_decoded(match[2]), True, further)] = None
        elif match[3]:
            found[Mention(_decoded(match[3].strip()), False, further)] = None
    return tuple(found)


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
