"""This module is the configuration's fields, their types and defaults; the docstrings are their documentation."""

from __future__ import annotations

from typing import Literal

import msgspec

DEFAULT_SIZE = 10 * 10**9


class BuildConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What to build, with every table merged and every ${VAR} replaced. Paths are as the user wrote them: relative ones start
    at `crate_root`."""

    name: str
    """The archive is lib<name>.a; default: the package's name with `_` for `-`, and `_cuda`."""
    crate_root: str
    """Absolute folder of Cargo.toml."""
    config_file: str
    """Absolute path of the file that held the configuration."""
    sources: tuple[str, ...]
    """Globs of .cu and host .c, .cc, .cpp files; `**` crosses folders."""
    arch: tuple[str, ...]
    """GPU architectures as words; see nvcc.archs for their grammar."""
    include: tuple[str, ...] = ()
    system_include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    """`NAME` or `NAME=VALUE`."""
    std: str = "c++17"
    opt: int = 3
    debug: bool = False
    lineinfo: bool = False
    cudart: Literal["static", "shared", "none"] = "static"
    flags: tuple[str, ...] = ()
    """More arguments for nvcc, verbatim and in order."""
    host_flags: tuple[str, ...] = ()
    """Arguments for the host compiler; each is passed through -Xcompiler."""
    link: tuple[str, ...] = ()
    """More libraries to link, in cargo's form [KIND=]NAME."""
    toolkit: str | None = None
    """A toolkit's root folder, or an nvcc."""
    host_compiler: str | None = None
    """The C++ compiler that nvcc calls (-ccbin)."""
    jobs: int | None = None
    log: Literal["quiet", "summary", "verbose"] = "summary"
    """What cargo shows beside warnings. `quiet`: nothing; `summary`: one line for each run; `verbose`: also one for each unit."""
    cache_dir: str | None = None
    """Folder of the shared cache; default: cudabuild in the user's cache folder."""
    cache_size: int = DEFAULT_SIZE
    """Bytes; beyond it, what was not used for the longest time goes."""
    cache_mode: Literal["off", "read-only", "read-write"] = "read-write"


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line adds to the configuration."""

    source: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    system_include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    arch: tuple[str, ...] = ()
    flag: tuple[str, ...] = ()
    host_flag: tuple[str, ...] = ()
    feature: tuple[str, ...] = ()
    """Cargo features to assume, for a run by hand."""
    profile: str | None = None
    """Cargo profile to assume, for a run by hand."""
    toolkit: str | None = None
    host_compiler: str | None = None
    jobs: int | None = None
    cache: Literal["off", "read-only", "read-write"] | None = None
