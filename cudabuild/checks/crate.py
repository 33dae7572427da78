"""This module checks the crate around the current folder, if there is one, against the toolkit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import msgspec

from cudabuild.cargo.places import find_places
from cudabuild.checks.finding import Finding, Seen
from cudabuild.config.load import load
from cudabuild.config.manifest import read_toml
from cudabuild.config.schema import BuildConfig, Overrides
from cudabuild.errors import ConfigError, CudabuildError
from cudabuild.files import read
from cudabuild.graph.units import find_units
from cudabuild.host import Environment, run
from cudabuild.nvcc import archs, arguments
from cudabuild.nvcc.toolchain import native_archs
from cudabuild.roots import Roots

_BROKEN_MANIFEST = "cargo reads the same file: `cargo metadata` says more"
_BY_CARGO = "known-to-cargo-alone"
"""Stands for a value that there is none of by hand; no check sees it."""
_FROM_CARGO = re.compile(rb"\$\{(DEP_\w+)\}")


def configuration(seen: Seen) -> Iterator[Finding]:
    """The file that says what to build; it may choose the tools that the other checks look at."""
    try:
        places = find_places(None, None, seen.env, seen.cwd)
    except ConfigError:
        if seen.env.peek("CARGO_MANIFEST_DIR"):
            raise
        yield Finding("crate", "note", "crate", "not inside a crate: only the machine is looked at")
        return
    manifest = os.path.join(places.crate, "Cargo.toml")
    document = read_toml(manifest, _BROKEN_MANIFEST) or {}
    own = os.path.lexists(os.path.join(places.crate, "cudabuild.toml"))
    package = document.get("package")
    metadata = package.get("metadata") if isinstance(package, dict) else None
    if not own and not (isinstance(metadata, dict) and "cudabuild" in metadata):
        if package is None:
            yield Finding("crate", "note", "crate", f"{places.crate} is a workspace: only the machine is looked at")
        else:
            yield Finding(
                "crate", "note", "crate", f"{places.crate} does not use cudabuild yet (`cudabuild init` sets it up)"
            )
        return
    seen.places = places
    seen.config = _load_as_cargo_would(places.crate, seen.env)
    yield Finding("crate", "ok", "crate", f"{seen.config.name}, {seen.config.config_file}")


def _load_as_cargo_would(crate: str, env: Environment) -> BuildConfig:
    """The configuration, without what only a build under cargo knows: the sources and architectures that the build
    script adds, and the DEP_ variables of other crates."""
    script = _build_script(crate)[1] or b""
    added = Overrides(
        source=(_BY_CARGO,) if b'"--source"' in script else (), arch=(_BY_CARGO,) if b'"--arch"' in script else ()
    )
    text = b"".join(read(os.path.join(crate, name)) or b"" for name in ("cudabuild.toml", "Cargo.toml"))
    unset = {name.decode(): _BY_CARGO for name in _FROM_CARGO.findall(text)}
    config = load(crate, Environment({**unset, **env.copy()}), added)
    known = {
        name: tuple(value for value in getattr(config, name) if _BY_CARGO not in value)
        for name in ("sources", "arch", "include", "system_include", "define")
    }
    return msgspec.structs.replace(config, **known)


def _build_script(crate: str) -> tuple[str, bytes | None]:
    """Its name, and its text unless it is missing or switched off."""
    package = (read_toml(os.path.join(crate, "Cargo.toml"), _BROKEN_MANIFEST) or {}).get("package")
    named = package.get("build", "build.rs") if isinstance(package, dict) else "build.rs"
    name = named if isinstance(named, str) else "build.rs"
    return name, read(os.path.join(crate, name)) if named is not False else None


def sources(seen: Seen) -> Iterator[Finding]:
    if seen.config is None or seen.places is None:
        return
    config, roots = seen.config, Roots(seen.places.crate, seen.places.out)
    if not config.sources:
        yield Finding("crate-sources", "note", "sources", "the build script adds them (--source)")
    units = find_units(config, roots)
    arguments.check_paths(config, units, roots)
    if units:
        yield Finding("crate-sources", "ok", "sources", f"{len(units)}: {_shortened([unit.source for unit in units])}")
    for folder in (*config.include, *config.system_include):
        if not os.path.isdir(os.path.join(config.crate_root, folder)):
            problem = f"the include folder {folder!r} does not exist in {config.crate_root}"
            yield Finding("crate-include", "warning", "sources", "", problem, f"correct it in {config.config_file}")


def arch(seen: Seen) -> Iterator[Finding]:
    """The crate's architectures: known to the toolkit, and fit for this machine's GPUs."""
    if seen.config is None or seen.nvcc is None:
        return
    if not seen.config.arch:
        yield Finding("crate-arch", "note", "arch", "the build script adds them (--arch)")
        return
    nvcc, gpus = seen.nvcc.nvcc, seen.gpus()

    def native() -> tuple[str, ...]:
        return gpus.numbers() or native_archs(nvcc, Environment(seen.child()), seen.patience)

    resolved = archs.resolve(seen.config.arch, seen.available, native, f"nvcc {seen.version} at {nvcc}")
    seen.archs = resolved.archs
    yield Finding("crate-arch", "ok", "arch", ", ".join(label for one in seen.archs for label in one.labels()))
    for warning in resolved.warnings:
        yield Finding(
            "crate-arch-native", "warning", "arch", "", warning, "name the architectures to build for in `arch`"
        )
    for number in gpus.numbers():
        if not any(_runs_on(one, int(number)) for one in seen.archs):
            problem = f"nothing in `arch` runs on this machine's GPU, which is sm_{number}"
            yield Finding("crate-arch-gpu", "warning", "arch", "", problem, f'add "{number}" to `arch` to run it here')


def _runs_on(one: archs.Arch, gpu: int) -> bool:
    """Machine code runs on its own minor version and later ones, PTX on all later GPUs; `a` only where it says."""
    number = int(one.virtual.rstrip("af"))
    if one.virtual.endswith("a"):
        return number == gpu
    same_major = number // 10 == gpu // 10
    return number <= gpu and (same_major or (one.ptx and not one.virtual.endswith("f")))


def flags(seen: Seen) -> Iterator[Finding]:
    """nvcc's own opinion of the crate's flags; it reads them without compiling."""
    if (
        seen.config is None
        or seen.places is None
        or seen.nvcc is None
        or seen.host is None
        or not (seen.plan and seen.archs)
    ):
        return
    roots = Roots(seen.places.crate, seen.places.out)
    given = arguments.flags(seen.config, seen.archs, seen.host.path, roots, "cuda")
    command = list(arguments.probe_command(seen.nvcc.nvcc, given))
    done = run(command, env=seen.child(), cwd=seen.places.crate, timeout=seen.patience)
    if done.returncode != 0:
        said = " / ".join(line for line in done.stderr.splitlines() if line.strip() and not line.startswith("#$"))
        cure = f"check `flags`, `host-flags` and `std` in {seen.config.config_file}"
        yield Finding(
            "crate-flags", "error", "flags", "refused", f"nvcc {seen.version} refuses the crate's flags: {said}", cure
        )
    else:
        yield Finding("crate-flags", "ok", "flags", "nvcc takes them")


def build_script(seen: Seen) -> Iterator[Finding]:
    """What makes cargo call cudabuild."""
    if seen.config is None or seen.places is None:
        return
    name, text = _build_script(seen.places.crate)
    cure = "`cudabuild init` writes one that does"
    if not os.path.exists(os.path.join(seen.places.crate, "Cargo.toml")):
        yield Finding("crate-build-script", "note", "build script", "no Cargo.toml here: built by hand only")
    elif text is None:
        problem = f"{name} is missing or switched off, so cargo does not call cudabuild"
        yield Finding("crate-build-script", "warning", "build script", "none", problem, cure)
    elif b"cudabuild" not in text:
        problem = f"{name} does not mention cudabuild, so cargo does not call it"
        yield Finding("crate-build-script", "warning", "build script", name, problem, cure)
    else:
        yield Finding("crate-build-script", "ok", "build script", f"{name} calls cudabuild")


def output(seen: Seen) -> Iterator[Finding]:
    if seen.places is None:
        return
    folder = seen.places.out
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        raise CudabuildError(
            f"{folder} cannot be written, and builds by hand go to {seen.places.out}", "give it to this user"
        )
    yield Finding("crate-output", "ok", "output", f"{seen.places.out}, when built by hand")


def _shortened(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
