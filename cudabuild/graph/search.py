"""This module is the compiler's search for headers: where a name is looked for, and where a new file would be found first.

Pure but for one question, whether a path exists, which the caller answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import msgspec

from cudabuild.files import within
from cudabuild.graph.texts import Mention

Exists = Callable[[str], bool]


class Search(msgspec.Struct, frozen=True):
    """The folders that are searched for headers, absolute, in order, missing ones included. `builtin` are those of them that
    belong to the toolkit or to the host compiler: nobody edits there, so they are folded where files are listed one by one.

    `real` are the same folders with symlinks and `..` resolved, where that was looked up: gcc names a file of an -isystem folder
    by whichever of the two names is shorter.
    """

    folders: tuple[str, ...]
    builtin: tuple[str, ...]
    real: tuple[str, ...] = ()

    def places(self, path: str) -> list[tuple[int, str]]:
        """Every folder that a file may have been found in, by its position, and the file's name from there."""
        found: dict[tuple[int, str], None] = {}
        for position, names in enumerate(zip(self.folders, self.real or self.folders, strict=True)):
            for folder in names:
                if within(path, folder):
                    found[position, path[len(folder):].lstrip("/")] = None
        return list(found)

    def is_builtin(self, path: str) -> bool:
        """Whether a file belongs to the toolkit or the host compiler. A folder that the user names inside them is the user's."""
        places = self.places(path)
        # The shorter the name from there, the deeper the folder.
        closest = min((len(name) for _, name in places), default=0)
        return any(len(name) == closest and self.folders[position] in self.builtin for position, name in places)

    def outside(self, paths: Iterable[str]) -> list[str]:
        """Those of `paths` that do not belong to the toolkit or the host compiler."""
        known: dict[str, bool] = {}
        found = []
        for path in paths:
            folder = os.path.dirname(path)
            if folder not in known:
                known[folder] = self.is_builtin(folder)
            if not known[folder]:
                found.append(path)
        return found

    def candidates(self, mention: Mention, includer: str) -> list[tuple[str, str]]:
        """Every folder in which a mentioned header is looked for, in order, and its name there."""
        if mention.name.startswith("/"):
            return [os.path.split(mention.name)]
        beside = [os.path.dirname(includer)] if mention.quoted else []
        return [(folder, mention.name) for folder in (*beside, *self.folders)]


def shadows(files: Iterable[str], search: Search, exists: Exists) -> set[str]:
    """Paths that must stay absent because a header there would be read in place of one of `files` (absolute, as spelled).

    For a file found in the k-th folder, its name in the folders before it; and its name beside every file of the project, since
    an `#include "…"` looks beside its includer first. Only the topmost missing part of a path is named: `inc/crt` stands for
    all of `inc/crt/…` while `inc/crt` does not exist, which keeps the toolkit's 1,500 headers at some hundred paths.
    """
    files = list(files)
    beside = sorted({os.path.dirname(file) for file in search.outside(files)})
    found: set[str] = set()
    asked: set[tuple[str, str]] = set()
    for file in files:
        for position, name in search.places(file):
            for earlier in (*search.folders[:position], *beside):
                if (earlier, name) not in asked:
                    asked.add((earlier, name))
                    missing = topmost_missing(earlier, name, exists)
                    if missing is not None:
                        found.add(missing)
    return found


def topmost_missing(folder: str, name: str, exists: Exists) -> str | None:
    """The first part of folder/name that does not exist; None when all of it does. A missing `folder` is named itself."""
    if not exists(folder):
        return folder
    path = folder
    for part in name.split("/"):
        path = f"{path}/{part}"
        if not exists(path):
            return path
    return None
