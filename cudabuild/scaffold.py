"""This module is `cudabuild init`: it writes a build script and a cudabuild.toml into a crate, from templates/."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import msgspec

from cudabuild import files
from cudabuild.errors import ConfigError

_CONFIG = "cudabuild.toml"
_SOURCE_FOLDERS = ("kernels", "cuda", "src")
_READ_BY_NVCC = (".cu", ".cuh", ".h", ".hpp")
_INCLUDED_SOURCE = re.compile(rb'^\s*#\s*include\s*["<]([^">\n]+\.cu)[">]', re.MULTILINE)
_RUN_BY_HAND = (
    '    let status = std::process::Command::new("cudabuild").arg("build").status().unwrap();',
    "    if !status.success() { std::process::exit(status.code().unwrap_or(1)) }",
)


class Guess(msgspec.Struct, frozen=True):
    """What a crate's files say about its CUDA code, as cudabuild.toml words it."""

    sources: tuple[str, ...]
    include: tuple[str, ...]


def init(folder: str, force: bool, ask: Callable[[str], bool] | None) -> list[str]:
    """Write the two files and return what to tell the user. `ask` answers whether a file may be overwritten; where it is None
    or its input has ended, nobody can be asked. Either every file is written or none."""
    package = _package(folder)
    guess = guess_sources(folder)
    configured = "cudabuild" in package.get("metadata", {})
    script = _build_script(package)
    wanted = {script: template("build.rs").replace("rerun-if-changed=build.rs", f"rerun-if-changed={script}")}
    if not configured:
        wanted[_CONFIG] = render_config(package["name"], guess)

    lines = []
    to_write = {}
    for name, text in wanted.items():
        if not os.path.lexists(os.path.join(folder, name)):
            to_write[name] = text
        elif files.read(os.path.join(folder, name)) == text.encode():
            lines.append(f"{name} is up to date")
        elif force or _may_overwrite(name, ask):
            to_write[name] = text
        else:
            lines += _kept(name)
    _write_all(folder, to_write)
    lines += [f"wrote {name}" for name in to_write]
    if configured:
        lines.append(f"wrote no {_CONFIG}: Cargo.toml has [package.metadata.cudabuild]")
    return lines + _next_steps(guess, configured)


def guess_sources(folder: str) -> Guess:
    """Globs for the .cu files in the usual folders. A .cu file that another file includes is a part of that one's unit; where
    there are such files no glob is right, and the others are named one by one."""
    sources: list[str] = []
    include: list[str] = []
    for top in _SOURCE_FOLDERS:
        found = _files_below(folder, top)
        units = [path for path in found if path.endswith(".cu")]
        if not units:
            continue
        included = {name for path in found for name in _included_sources(os.path.join(folder, path))}
        roots = [path for path in units if os.path.basename(path) not in included]
        if roots and len(roots) < len(units):
            sources += roots
        else:
            nested = any(os.path.dirname(path) != top for path in units)
            sources.append(f"{top}/**/*.cu" if nested else f"{top}/*.cu")
        if os.path.isdir(os.path.join(folder, top, "include")):
            include.append(f"{top}/include")
    if os.path.isdir(os.path.join(folder, "include")):
        include.append("include")
    return Guess(tuple(sources), tuple(include))


def render_config(package_name: str, guess: Guess) -> str:
    """The text of cudabuild.toml."""
    placeholders = {
        "@name@": package_name.replace("-", "_") + "_cuda",
        "@sources@": _toml_list(guess.sources or ("kernels/*.cu",)),
        "@include@": _toml_list(guess.include or ("kernels/include",)),
    }
    text = template(_CONFIG)
    if not guess.include:
        text = text.replace("include =", "# include =")
    return re.sub("@[a-z]+@", lambda match: placeholders[match[0]], text)


def template(name: str) -> str:
    """A file of templates/, which a wheel carries inside the package and a checkout beside it."""
    package = os.path.dirname(os.path.abspath(__file__))
    for folder in (package, os.path.dirname(package)):
        data = files.read(os.path.join(folder, "templates", name))
        if data is not None:
            return data.decode()
    raise FileNotFoundError(f"templates/{name} is neither in {package} nor beside it: this installation is broken")


def _package(folder: str) -> dict[str, Any]:
    manifest = os.path.join(folder, "Cargo.toml")
    data = files.read(manifest)
    if data is None:
        raise ConfigError(f"there is no Cargo.toml in {folder}", "run `cudabuild init` in a crate's folder, or name the folder")
    try:
        package = msgspec.toml.decode(data).get("package")
    except msgspec.DecodeError as error:
        raise ConfigError(f"{manifest} is not valid TOML: {error}") from None
    if not isinstance(package, dict) or not isinstance(package.get("name"), str):
        raise ConfigError(f"{manifest} describes no package", "run `cudabuild init` in the folder of one of the workspace's crates")
    return package


def _build_script(package: dict[str, Any]) -> str:
    """The file that cargo runs: a build.rs beside another `build = …` would never run."""
    script = package.get("build", True)
    if script is True:
        return "build.rs"
    if isinstance(script, str):
        return script
    raise ConfigError(
        f"Cargo.toml of {package['name']} has `build = {msgspec.json.encode(script).decode()}`, so cargo would not run a build.rs",
        "remove that line, or set it to one file name",
    )


def _may_overwrite(name: str, ask: Callable[[str], bool] | None) -> bool:
    try:
        if ask is not None:
            return ask(f"{name} is already there. Overwrite it?")
    except EOFError:
        pass
    raise ConfigError(f"{name} is already there, and nobody can be asked", "`cudabuild init --force` overwrites it")


def _kept(name: str) -> list[str]:
    if name == _CONFIG:
        return [f"kept {name}"]
    return [f"kept {name}, which then has to run cudabuild itself:", *_RUN_BY_HAND]


def _next_steps(guess: Guess, configured: bool) -> list[str]:
    sources = ", ".join(guess.sources)
    if configured:
        first = "check [package.metadata.cudabuild]"
    elif sources:
        first = f"check {_CONFIG}: it compiles {sources}"
    else:
        first = f"put CUDA sources into kernels/, or name theirs in {_CONFIG}: none was found"
    return ["next:", f"  {first}", "  cargo build", "  cudabuild doctor, if a tool is not found"]


def _files_below(folder: str, top: str) -> list[str]:
    """Paths from `folder` of the files that nvcc may read, sorted."""
    found = []
    for parent, _, names in os.walk(os.path.join(folder, top)):
        found += [os.path.relpath(os.path.join(parent, name), folder) for name in names if name.endswith(_READ_BY_NVCC)]
    return sorted(found)


def _included_sources(path: str) -> set[str]:
    return {os.path.basename(os.fsdecode(name)) for name in _INCLUDED_SOURCE.findall(files.read(path) or b"")}


def _toml_list(words: tuple[str, ...]) -> str:
    # A JSON string is a TOML string.
    return "[" + ", ".join(msgspec.json.encode(word).decode() for word in words) + "]"


def _write_all(folder: str, texts: dict[str, str]) -> None:
    """Each text goes beside its file first, so that a full disk or a read-only folder is met before anything is replaced."""
    staged = {f"{os.path.join(folder, name)}.{os.getpid()}.tmp": name for name in texts}
    try:
        for temporary, name in staged.items():
            if os.path.isdir(os.path.join(folder, name)):
                raise ConfigError(f"{name} is a folder in {folder}", "move it away; cudabuild writes a file of that name")
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(texts[name])
        for temporary, name in staged.items():
            os.replace(temporary, os.path.join(folder, name))
    except OSError as error:
        raise ConfigError(f"cannot write into {folder}: {error.strerror}") from None
    finally:
        for temporary in staged:
            if os.path.exists(temporary):
                os.unlink(temporary)
