"""This module finds the sources and makes one translation unit of each."""

from __future__ import annotations

import hashlib
import os
from typing import Literal

import msgspec

from cudabuild.config.schema import BuildConfig
from cudabuild.errors import ConfigError
from cudabuild.roots import Roots

Language = Literal["cuda", "c++", "c"]
LANGUAGES: dict[str, Language] = {".cu": "cuda", ".cc": "c++", ".cpp": "c++", ".c": "c"}


class Unit(msgspec.Struct, frozen=True):
    """One source file and the object made of it. `source` is as given to nvcc; `name` is the object's file name without `.o`,
    unique in the library."""

    source: str
    language: Language
    name: str


def find_units(config: BuildConfig, roots: Roots) -> tuple[Unit, ...]:
    """The sources that the globs match now, in the order of their paths.

    A glob that matches nothing is an error, not an empty library.
    """
    sources: set[str] = set()
    for pattern in config.sources:
        matches = _expand(pattern, config.crate_root)
        if not matches:
            raise _no_match(pattern, config)
        sources.update(roots.argument(match) for match in matches)
    return tuple(_unit(source, config, roots) for source in sorted(sources))


def glob_folders(config: BuildConfig) -> tuple[str, ...]:
    """The folders in which a new file could match a glob: the part of each pattern before its first wildcard."""
    folders = set()
    for pattern in config.sources:
        if _is_glob(pattern):
            head = pattern[: min(pattern.find(character) for character in "*?[" if character in pattern)]
            folders.add(os.path.normpath(os.path.join(config.crate_root, os.path.dirname(head))))
    return tuple(sorted(folders))


def _is_glob(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


def _expand(pattern: str, crate_root: str) -> list[str]:
    path = os.path.join(crate_root, pattern)
    if not _is_glob(pattern):
        return [path] if os.path.isfile(path) else []
    import glob

    found = glob.glob(os.path.join(glob.escape(crate_root), pattern), recursive=True)
    # A file may be called `a[1].cu`.
    return [match for match in (path, *found) if os.path.isfile(match)]


def _no_match(pattern: str, config: BuildConfig) -> ConfigError:
    if _is_glob(pattern):
        return ConfigError(
            f"{config.config_file}: the pattern {pattern!r} in `sources` matches no file below {config.crate_root}",
            "write it relative to Cargo.toml's folder, or remove it",
        )
    return ConfigError(
        f"{config.config_file}: the source {pattern!r} does not exist in {config.crate_root}",
        "correct the path in `sources` (or in --source), or restore the file",
    )


def _unit(source: str, config: BuildConfig, roots: Roots) -> Unit:
    extension = os.path.splitext(source)[1]
    language = LANGUAGES.get(extension)
    if language is None:
        raise ConfigError(
            f"{config.config_file}: {source!r} matches `sources`, but {extension or 'no extension'} is not a source that can be "
            "compiled",
            f"sources end in {', '.join(sorted(LANGUAGES))}; headers are found by themselves",
        )
    # Two folders may hold a file of one name, and `a/b.cu` must not meet `a.b.cu`: the path's digest tells them apart.
    suffix = hashlib.sha256(roots.logical(source).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    stem = os.path.splitext(os.path.basename(source))[0]
    return Unit(source, language, f"{stem}-{suffix}")
