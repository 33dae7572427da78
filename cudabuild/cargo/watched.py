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
    read: set[str] = set()
    for entry in made:
        read.update(name for name, _ in entry.reading.files)
        read.update(entry.reading.present)
    found.update(toolchain.search.outside(map(roots.real, read)))
    return found


def folders(config: BuildConfig, toolchain: Toolchain | None, made: Iterable[Made], roots: Roots) -> set[str]:
    """Where a new file could match a glob, or be found before a header that was read; and the toolkit's headers as a whole
    (1,900 files in one folder add 6 ms to a cargo build with nothing to do, 1,500 lines would add more)."""
    found = set(glob_folders(config))
    found.update(above for above in _missing_includes(config, roots).values() if _is_part(above, roots))
    if toolchain is None:
        return found
    root = os.path.normpath(toolchain.root)
    builtin = map(os.path.normpath, toolchain.search.builtin)
    found.update(folder for folder in builtin if toolchain.root and within(folder, root))
    return found | _shadowing(toolchain, made, roots)


def blind_spots(
    config: BuildConfig, toolchain: Toolchain | None, made: Iterable[Made], roots: Roots, own: Sequence[str]
) -> list[str]:
    """Warnings for new files and folders that could matter and that cargo cannot be told to see."""
    globs = [folder for folder in glob_folders(config) if os.path.isdir(folder) and not is_watchable(folder, own)]
    found = [
        f"cargo will not see a new file that matches `sources` in {folder}: that folder also holds what changes at every build "
        "or commit; keep the sources in a folder of their own"
        for folder in globs
    ]
    found += [
        f"cargo will not see the include folder {folder} appear: it does not exist, and neither does a folder around it that "
        "cargo could watch; make it, or leave it out"
        for folder, above in _missing_includes(config, roots).items()
        if not (_is_part(above, roots) and is_watchable(above, own))
    ]
    shadowing = _shadowing(toolchain, made, roots) if toolchain is not None else set()
    blind = [
        folder for folder in sorted(shadowing.difference(globs))
        if os.path.isdir(folder) and not is_watchable(folder, own) and not any(within(folder, path) for path in own)
    ]  # fmt: skip
    if blind:
        found.append(
            f"cargo will not see a new header in {', '.join(blind)} that comes before one in another folder: what changes at "
            "every build or commit is there too; keep sources and headers in folders of their own"
        )
    return found


def _missing_includes(config: BuildConfig, roots: Roots) -> dict[str, str]:
    """The configured include folders that do not exist, and the nearest folder above each that does: there one would appear."""
    found = {}
    for folder in map(roots.absolute, (*config.include, *config.system_include)):
        if not os.path.isdir(folder) and not within(folder, roots.out):
            above = os.path.dirname(os.path.normpath(folder))
            while not os.path.isdir(above):
                above = os.path.dirname(above)
            found[folder] = above
    return found


def _is_part(folder: str, roots: Roots) -> bool:
    """Whether a folder is a part of the crate: the whole of it is too much to watch."""
    return folder != roots.crate and within(folder, roots.crate)


def _shadowing(toolchain: Toolchain, made: Iterable[Made], roots: Roots) -> set[str]:
    """The folders where a new header would be found before one that was read."""
    search = toolchain.search
    missing_folders = {folder for folder in search.folders if not os.path.isdir(folder)}
    absent = {name for entry in made for name in entry.reading.absent}
    # A search folder that does not exist could be anywhere, and all of its parent is too much to watch; see _missing_includes
    # for those that the user named. What is installed on the machine is too much as well: cargo would walk through all of it.
    return {
        os.path.dirname(path) for path in search.outside(map(roots.real, absent))
        if path not in missing_folders and not within(path, _INSTALLED)
    }  # fmt: skip
