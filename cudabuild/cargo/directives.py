"""This module makes the lines that a build script prints for cargo.

Cargo reruns the script when a listed path is newer than its last start, and for every listed path that does not exist; a listed
folder stands for all that is below it; there are no globs. So a line names an existing file that was read, or a folder where a
new file could matter, and never what the build itself writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

import msgspec

from cudabuild.files import within


class Directive(msgspec.Struct, frozen=True):
    """`key=value` after the prefix."""

    key: str
    value: str


def rerun_if_changed(files: Iterable[str], folders: Iterable[str], own: Sequence[str]) -> tuple[Directive, ...]:
    """One line for each existing file and folder, absolute; `own` are the folders that builds write to."""
    own = [*own, *map(os.path.realpath, own)]
    paths = {path for file in files if os.path.isfile(file) and (path := _outside(file, own)) and _is_printable(path)}
    # One that cannot be watched must not take those below it along.
    watched = _outermost({_normal(folder) for folder in folders if is_watchable(folder, own)})
    return tuple(Directive("rerun-if-changed", path) for path in (*sorted(paths), *sorted(watched)))


def rerun_if_env_changed(names: Iterable[str]) -> tuple[Directive, ...]:
    """Every variable that was read, set or not. Cargo announces its own (CARGO_*, OUT_DIR, …) by itself."""
    return tuple(Directive("rerun-if-env-changed", name) for name in sorted(names))


def link(archive: str, name: str, cudart: str, folders: Sequence[str], extra: Sequence[str]) -> tuple[Directive, ...]:
    """The lines that link the archive: the archive first, then what it needs, in the order that GNU ld wants.

    libcudart_static needs dl, rt and pthread, which are libraries of their own before glibc 2.34; the host code that nvcc
    makes needs libstdc++ for guards, exceptions and unwinding. `folders` are the toolkit's that the linker has to search.
    """
    lines = [
        Directive("rustc-link-search", f"native={os.path.dirname(archive)}"),
        Directive("rustc-link-lib", f"static={name}"),
    ]
    lines += [Directive("rustc-link-search", f"native={folder}") for folder in folders]
    lines += [Directive("rustc-link-lib", library) for library in extra]
    if cudart == "static":
        lines.append(Directive("rustc-link-lib", "static=cudart_static"))
        lines += [Directive("rustc-link-lib", f"dylib={library}") for library in ("dl", "rt", "pthread")]
    elif cudart == "shared":
        lines.append(Directive("rustc-link-lib", "dylib=cudart"))
    lines.append(Directive("rustc-link-lib", "dylib=stdc++"))
    return tuple(lines)


def warning(text: str) -> Directive:
    """A line that cargo shows. It shows one line only."""
    return Directive("warning", " ".join(text.split()))


def render(directives: Iterable[Directive], rust_version: str | None) -> str:
    """The text for stdout. `cargo::` is an error in a package whose rust-version is older than 1.77, which is when it came;
    all of these keys are also known with one colon."""
    prefix = "cargo:" if _older(rust_version, (1, 77)) else "cargo::"
    return "".join(f"{prefix}{directive.key}={directive.value}\n" for directive in directives)


def _older(version: str | None, than: tuple[int, int]) -> bool:
    parts = re.match(r"(\d+)(?:\.(\d+))?", version or "")
    return parts is not None and (int(parts[1]), int(parts[2] or 0)) < than


def _normal(path: str) -> str:
    """The path without `.` and `..`, unless a symlink on the way makes that another file."""
    normal = os.path.normpath(path)
    return normal if os.path.exists(normal) and os.path.samefile(normal, path) else path


def _outside(path: str, own: Sequence[str]) -> str | None:
    """The path by a name that is not in a folder of `own`; None for what really lies there. (Other build scripts link headers
    of their crates into an OUT_DIR.)"""
    real, normal = os.path.realpath(path), _normal(path)
    if any(within(real, folder) for folder in own):
        return None
    return real if any(within(normal, folder) for folder in own) else normal


def _is_printable(path: str) -> bool:
    """Cargo trims a line's end and reads up to a newline."""
    return path == path.strip() and "\n" not in path


def is_watchable(folder: str, own: Sequence[str]) -> bool:
    """An existing folder that holds nothing that changes by itself: no output of ours, no git database."""
    real = os.path.realpath(folder)
    return (
        os.path.isdir(folder)
        and _is_printable(folder)
        and not os.path.isdir(os.path.join(folder, ".git"))
        and not any(within(path, real) or within(real, path) for path in own)
    )


def _outermost(paths: set[str]) -> set[str]:
    """Without those below another: cargo looks at a folder with all that is in it."""
    kept: set[str] = set()
    for path in sorted(paths):
        parent = path
        while (parent := os.path.dirname(parent)) not in kept and parent != os.path.dirname(parent):
            pass
        if parent not in kept:
            kept.add(path)
    return kept
