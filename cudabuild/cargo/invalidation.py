"""This module makes cargo run a crate's build script again: that one only, in every profile."""

from __future__ import annotations

import os

from cudabuild.cargo.places import target_folder
from cudabuild.cargo.targets import build_folders
from cudabuild.errors import ConfigError
from cudabuild.files import read
from cudabuild.host import Environment


def invalidate(crate: str | None, env: Environment, cwd: str, *, rebuild: bool) -> list[str]:
    """Touch the stamps of a crate's build folders, or of all in the workspace around `cwd`; what was done, in lines.

    `cargo clean -p` removes the dev profile's folders only, and takes the compiled crate with them.
    """
    root = _around(cwd)
    target = target_folder(root, env)
    folders = build_folders(target)
    chosen = [folder for folder in folders if crate is None or folder.crate == crate]
    if not chosen:
        known = ", ".join(sorted({folder.crate for folder in folders})) or "none"
        raise ConfigError(
            f"cudabuild has built {'nothing' if crate is None else f'no crate {crate!r}'} in {target}; crates there: {known}",
            "name one of those, or run it in the workspace that cargo built",
        )
    for folder in chosen:
        folder.out.invalidate(rebuild=rebuild)
    what = "and compile everything" if rebuild else "and compile what is not up to date"
    return [f"{folder.crate} ({folder.profile}): the next cargo build will run its build script {what}" for folder in chosen]


def _around(cwd: str) -> str:
    folder = os.path.abspath(cwd)
    while read(os.path.join(folder, "Cargo.toml")) is None:
        parent = os.path.dirname(folder)
        if parent == folder:
            raise ConfigError(f"there is no Cargo.toml in {cwd} or above it", "run it in the workspace that cargo builds")
        folder = parent
    return folder
