"""This module lists what cargo has to watch: the files that were read, and the folders where a new file could matter."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import cudabuild
from cudabuild.cache.record import Made
from cudabuild.cargo.directives import is_watchable
from cudabuild.config.schema import BuildConfig
from cudabuild.files import within
from cudabuild.graph.units import Unit, glob_folders
from cudabuild.nvcc.toolchain import Toolchain
from cudabuild.roots import Roots

_INSTALLED = "/usr/local/include"


def configuration(crate: str) -> tuple[str, ...]:
    """Where a configuration can be that could not be read."""
    return os.path.join(crate, "cudabuild.toml"), os.path.join(crate, "Cargo.toml")


def files(config: BuildConfig, units: Sequence[Unit], toolchain: Toolchain | None, made: Iterable[Made], roots: Roots) -> set[str]:
    """The configuration, the sources, every header outside the toolkit and the host compiler, the tools, and cudabuild itself.

    The toolkit's own 1,500 headers are left to one line for their folder; see `folders`.
    """
    found = {config.config_file, cudabuild.__file__, *(roots.absolute(unit.source) for unit in units)}
    if toolchain is None:
        return found
    found.update(toolchain.paths)
    read = {name for entry in made for name, _ in entry.reading.files}
    found.update(toolchain.search.outside(map(roots.real, read)))
    return found


def folders(config: BuildConfig, toolchain: Toolchain | None, made: Iterable[Made], roots: Roots) -> set[str]:
    """Where a new file could match a glob, or be found before a header that was read; and the toolkit's headers as a whole
    (1,900 files in one folder add 6 ms to a cargo build with nothing to do, 1,500 lines would add more)."""
    found = set(glob_folders(config))
    if toolchain is None:
        return found
    search, root = toolchain.search, os.path.normpath(toolchain.root)
    found.update(folder for folder in map(os.path.normpath, search.builtin) if toolchain.root and within(folder, root))
    missing_folders = {folder for folder in search.folders if not os.path.isdir(folder)}
    absent = {name for entry in made for name in entry.reading.absent}
    for path in search.outside(map(roots.real, absent)):
        # A search folder that does not exist could be anywhere, and all of its parent is too much to watch. So is what is
        # installed on the machine: cargo would walk through it at every build.
        if path not in missing_folders and not within(path, _INSTALLED):
            found.add(os.path.dirname(path))
    return found


def blind_globs(config: BuildConfig, own: Sequence[str]) -> list[str]:
    """Warnings for the globs whose new files cargo cannot be told to see."""
    return [
        f"cargo will not see a new file that matches `sources` in {folder}: that folder also holds what changes at every build "
        "or commit; keep the sources in a folder of their own"
        for folder in glob_folders(config)
        if os.path.isdir(folder) and not is_watchable(folder, own)
    ]
