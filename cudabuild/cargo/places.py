"""This module says where a build is: the crate, its workspace's target folder, OUT_DIR."""

from __future__ import annotations

import os

import msgspec

from cudabuild.errors import ConfigError
from cudabuild.files import digest_text, read
from cudabuild.host import Environment


class Places(msgspec.Struct, frozen=True):
    """Absolute folders. `cargo` tells whether cargo runs us as (part of) a build script."""

    crate: str
    out: str
    cargo: bool


def find_places(manifest_dir: str | None, out: str | None, env: Environment, cwd: str) -> Places:
    """The crate is the one named, else cargo's, else the nearest one upwards of `cwd`.

    By hand the output goes to <target>/cudabuild/, so that `cargo clean` removes it. There the crate's folder name is not enough:
    a workspace may hold a/kernels and b/kernels.
    """
    crate = _utf8(_crate(manifest_dir, env, cwd))
    from_cargo = env.peek("OUT_DIR")
    if out is None and from_cargo:
        return Places(crate, _utf8(os.path.abspath(from_cargo)), True)
    if out is None:
        target = target_folder(crate, env)
        unique = digest_text(os.path.relpath(crate, target))[:8]
        out = os.path.join(target, "cudabuild", f"{os.path.basename(crate)}-{unique}")
    return Places(crate, _utf8(os.path.abspath(os.path.join(cwd, out))), False)


def _crate(manifest_dir: str | None, env: Environment, cwd: str) -> str:
    named = manifest_dir or env.peek("CARGO_MANIFEST_DIR")
    if named:
        folder = os.path.abspath(os.path.join(cwd, named))
        if not os.path.isdir(folder):
            raise ConfigError(f"the crate's folder {named!r} does not exist", "name the folder that holds Cargo.toml")
        return folder
    folder = os.path.abspath(cwd)
    while True:
        if any(os.path.isfile(os.path.join(folder, name)) for name in ("cudabuild.toml", "Cargo.toml")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            raise ConfigError(
                f"there is no Cargo.toml or cudabuild.toml in {cwd} or above it",
                "run it inside a crate, or name one with --manifest-dir",
            )
        folder = parent


def _utf8(path: str) -> str:
    """Cargo's lines and the report are UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the path {os.fsencode(path)!r} is not UTF-8", "cargo cannot name it either; rename it") from error
    return path


def target_folder(crate: str, env: Environment) -> str:
    """Cargo's target folder: CARGO_TARGET_DIR, else that of the workspace around the crate."""
    named = env.peek("CARGO_TARGET_DIR")
    if named:
        return os.path.abspath(named)
    root = folder = crate
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        manifest = read(os.path.join(folder, "Cargo.toml"))
        if manifest is not None and b"[workspace" in manifest:
            root = folder
            break
    return os.path.join(root, "target")
