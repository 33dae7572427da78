"""This module checks the tools around nvcc: Python, ninja, ar, cargo and rustc."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator

import cudabuild
from cudabuild.checks.finding import Finding, Seen, first_line
from cudabuild.errors import ToolchainError
from cudabuild.host import search_path
from cudabuild.ninja.process import find_ninja

_PACKAGED_NINJA = "pip install 'ninja>=1.13' beside cudabuild"


def python(_seen: Seen) -> Iterator[Finding]:
    """Which cudabuild this is: PATH may lead a build script to another one."""
    folder = os.path.dirname(os.path.abspath(cudabuild.__file__))
    found = f"{cudabuild.__version__}, {folder}; Python {platform.python_version()}, {sys.executable}"
    yield Finding("cudabuild", "ok", "cudabuild", found)


def ninja(seen: Seen) -> Iterator[Finding]:
    """ninja, and whether it counts its compilers among cargo's jobs. Cargo's jobserver is a pipe; upstream's ninja
    knows only the fifo kind, and before 1.13 none."""
    path = find_ninja(seen.env.peek("PATH"))
    version = first_line([path, "--version"], seen)
    if "jobserver" in version:
        yield Finding("ninja", "ok", "ninja", f"{version}, {path}; heeds cargo's job limit")
    else:
        problem = f"ninja {version} does not know cargo's jobserver, so under cargo it does not heed cargo's job limit"
        yield Finding("ninja", "warning", "ninja", f"{version}, {path}", problem, _PACKAGED_NINJA)


def ar(seen: Seen) -> Iterator[Finding]:
    found = search_path("ar", seen.env.peek("PATH"))
    if not found:
        raise ToolchainError("ar is not on PATH", "install binutils")
    yield Finding("ar", "ok", "ar", f"{first_line([found[0], '--version'], seen)}, {found[0]}")


def cargo(seen: Seen) -> Iterator[Finding]:
    yield _rust("cargo", seen)


def rustc(seen: Seen) -> Iterator[Finding]:
    if search_path("rustc", seen.env.peek("PATH")) or search_path("cargo", seen.env.peek("PATH")):
        yield _rust("rustc", seen)


def _rust(name: str, seen: Seen) -> Finding:
    found = search_path(name, seen.env.peek("PATH"))
    if not found:
        problem = f"{name} is not on PATH: the CUDA library can be built by hand, but no crate that links it"
        return Finding(
            name, "warning", name, "not found", problem, "install Rust with rustup, or put its bin folder on PATH"
        )
    line = first_line([found[0], "--version"], seen)
    version = re.search(r"(\d+)\.(\d+)\S*", line)
    if version is None:
        return Finding(
            name, "warning", name, found[0], f"`{name} --version` says {line!r}", f"is this the real {name}?"
        )
    if name == "cargo" and (int(version[1]), int(version[2])) < (1, 77):
        problem = f"cargo {version[0]} does not know `cargo::` directives, which came with 1.77"
        cure = f'update Rust, or write rust-version = "{version[1]}.{version[2]}" into [package] for the older form'
        return Finding(name, "warning", name, f"{version[0]}, {found[0]}", problem, cure)
    return Finding(name, "ok", name, f"{version[0]}, {found[0]}")
