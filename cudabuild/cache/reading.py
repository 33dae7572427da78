"""This module makes the Reading of a compile from what nvcc reported, and tells whether an earlier one is still true."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice

from cudabuild.cache.keys import KeyChange, Reading, Request
from cudabuild.files import Digests, read, within
from cudabuild.graph.search import Search, shadows, topmost_missing
from cudabuild.graph.texts import Mention, Text, examine, moments
from cudabuild.roots import Roots


class Disk:
    """The present state of the files that readings name: digests, existence and texts, each asked for once a build."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._current: dict[str, str | None] = {}
        self._exists: dict[str, bool] = {}
        self._texts: dict[str, Text] = {}
        self.unchanged: set[tuple[str, str]] = set()
        """Files of readings, by logical path and digest, that are found to be so."""
        self.absent: set[str] = set()
        """Paths of readings that are found to be absent."""

    def digest(self, path: str) -> str | None:
        if path not in self._current:
            self._current[path] = self._digests.of(path)
        return self._current[path]

    def exists(self, path: str) -> bool:
        if path not in self._exists:
            self._exists[path] = os.path.exists(path)
        return self._exists[path]

    def holds(self, path: str) -> bool:
        """Whether there is something to include at `path`: a folder is nothing."""
        return self.exists(path) and not os.path.isdir(path)

    def text(self, path: str) -> Text:
        if path not in self._texts:
            self._texts[path] = examine(read(path) or b"")
        return self._texts[path]

    def forget(self) -> None:
        """Look again from here on: compilers ran meanwhile."""
        self._current.clear()
        self._exists.clear()
        self._texts.clear()
        self.unchanged.clear()
        self.absent.clear()


class Incomplete(Exception):
    """A file that the compiler reported is not there: it was removed meanwhile."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def take(
    request: Request, reported: Sequence[str], search: Search, disk: Disk, roots: Roots
) -> tuple[Reading, tuple[str, ...]]:
    """The reading of a compile of `request` that just ended; `reported` are the depfile's names, as nvcc spelled them.

    Also returns the paths that exist where a header might have been found first. If one came to exist while the compiler ran,
    the compile may or may not have seen it, which is for the caller to judge.

    Raises Incomplete when a reported file is gone and no `#line` explains its name.
    """
    paths = list(dict.fromkeys(roots.absolute(name) for name in reported))
    missing = [path for path in paths if disk.digest(path) is None]
    paths = [path for path in paths if disk.digest(path) is not None]
    phantoms = {roots.absolute(name) for path in paths for name in disk.text(path).line_names} if missing else set()
    for path in missing:
        if path not in phantoms:
            raise Incomplete(path)
    paths += _unreported(paths, search, disk)
    looked_at: dict[str, None] = {}

    def exists(path: str) -> bool:
        if disk.exists(path):
            looked_at[path] = None
            return True
        return False

    absent = shadows(paths, search, exists)
    present: set[str] = set()
    untracked: list[str] = []
    for path in paths:
        text = disk.text(path)
        builtin = search.is_builtin(path)
        for mention in text.probes:
            _probe(mention, path, search, exists, absent, present)
        if text.computed_probe and not builtin:
            untracked.append(f"{roots.logical(path).removeprefix('@crate/')} uses __has_include with a computed name")
        if text.includes_binary and not builtin:
            untracked.append(f"{roots.logical(path).removeprefix('@crate/')} reads files by .incbin or #embed")
    if any("has_include" in word for word in (*request.flags, *(value for _, value in request.environment))):
        untracked.append("the flags give __has_include another name")
    # A phantom that comes to exist may be a file that is read after all.
    absent.update(missing)
    reading = Reading(
        files=tuple((roots.logical(path), disk.digest(path) or "") for path in paths),
        absent=tuple(sorted(roots.logical(path) for path in absent)),
        present=tuple(sorted(roots.logical(path) for path in present - set(paths))),
        untracked=tuple(untracked),
        unshared=(*_moments(request, paths, search, disk, roots), *_named_in_full(request, reported, paths, disk, roots)),
    )
    return reading, tuple(path for path in looked_at if os.path.isfile(path))


def changes(reading: Reading, disk: Disk, real: Callable[[str], str]) -> tuple[KeyChange, ...]:
    """What is no longer true of a reading; empty when a compile would read the same again.

    The units of a library share most of what they read, so what was found true for one is not looked at again for the next.
    """
    found: list[KeyChange] = []
    if not disk.unchanged.issuperset(reading.files):
        for text in reading.files:
            if text not in disk.unchanged:
                name, digest = text
                if (now := disk.digest(real(name))) == digest:
                    disk.unchanged.add(text)
                else:
                    found.append(KeyChange("file", name, digest, now))
    if not disk.absent.issuperset(reading.absent):
        for name in reading.absent:
            if name not in disk.absent:
                if disk.exists(real(name)):
                    found.append(KeyChange("absent", name))
                else:
                    disk.absent.add(name)
    found += [KeyChange("present", name) for name in reading.present if not disk.holds(real(name))]
    found += [KeyChange("untracked", reason) for reason in reading.untracked]
    return tuple(found)


def _unreported(paths: Sequence[str], search: Search, disk: Disk) -> list[str]:
    """Headers that a text includes and nvcc did not report by that name.

    gcc skips a header that `#pragma once` takes for a file seen before (it compares content, size and whole-second mtime, and a
    git checkout makes many equal files of one second). And it names a header of an -isystem folder by what a symlink leads to,
    while the link itself can be turned to another file.
    """
    once = {disk.digest(path) for path in paths if disk.text(path).pragma_once}
    named = set(paths)
    real = {os.path.realpath(path) for path in paths}
    found: dict[str, None] = {}
    for path in search.outside(paths):
        for mention in disk.text(path).includes:
            targets = filter(os.path.isfile, (os.path.join(*place) for place in search.candidates(mention, path)))
            for target in targets if mention.further else islice(targets, 1):
                if target not in named and (os.path.realpath(target) in real or disk.digest(target) in once):
                    found[target] = None
    return list(found)


def _moments(request: Request, paths: Sequence[str], search: Search, disk: Disk, roots: Roots) -> list[str]:
    """Why the object is of the moment in which it was made. Toolkit headers name such macros too, and no object holds them."""
    environment = dict(request.environment)
    fixed = {"__DATE__", "__TIME__"} if "SOURCE_DATE_EPOCH" in environment else set()
    words = " ".join((*request.flags, *environment.values()))
    found = [f"{name} in the flags" for name in moments(words.encode("utf-8", "surrogateescape")) if name not in fixed]
    for path in search.outside(paths):
        found += [f"{name} in {roots.logical(path)}" for name in disk.text(path).moments if name not in fixed]
    return found


def _named_in_full(
    request: Request, reported: Sequence[str], paths: Sequence[str], disk: Disk, roots: Roots
) -> list[str]:
    """Why the object is of its place: a text names a file of the crate by its absolute path, so in another checkout it still
    reads this one's. Where a flag does so, the request is bound to the place already."""
    if roots.crate in request.bound_to:
        return []
    names = {*reported, *(mention.name for path in paths for mention in disk.text(path).probes)}
    return sorted(name for name in names if name.startswith("/") and (within(name, roots.crate) or within(name, roots.out)))


def _probe(
    mention: Mention, path: str, search: Search, exists: Callable[[str], bool], absent: set[str], present: set[str]
) -> None:
    """Follow one question for a header, asked in the file `path`. A folder of that name does not answer it."""
    for folder, name in search.candidates(mention, path):
        missing = topmost_missing(folder, name, exists)
        place = os.path.join(folder, name)
        if missing is not None:
            absent.add(missing)
        elif not os.path.isdir(place):
            present.add(place)
            if not mention.further:
                return
