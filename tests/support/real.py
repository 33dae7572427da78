"""This module offers the real nvcc of the machine, and scratch crates that are built by hand with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workspace import Report, Workspace

from cudabuild.errors import ToolchainError
from cudabuild.host import Environment
from cudabuild.nvcc import find


def real_nvcc() -> str | None:
    """The nvcc that cudabuild itself finds here, or None."""
    try:
        return find.find(None, Environment(os.environ)).nvcc
    except ToolchainError:
        return None


def unit_source(value: str, headers: tuple[str, ...] = (), name: str = "probe") -> str:
    """A unit as small as one with host and device code can be. Its object holds `value` where both run."""
    includes = "".join(f"#include {header if header.startswith('<') else chr(34) + header + chr(34)}\n" for header in headers)
    return f"{includes}__global__ void {name}_kernel(int *out) {{ *out = {value}; }}\nextern \"C\" int {name}() {{ return {value}; }}\n"


class Project(Workspace):
    """A crate built by hand with a real nvcc. What was compiled is told by the report and, independently of it, by which
    object files are new."""

    def __init__(self, root: Path, nvcc: str, crate: str = "crate") -> None:
        super().__init__(root, crate)
        self.env |= {"PATH": "/usr/bin:/bin", "NVCC": nvcc}

    def object_files(self, out: Path | None = None) -> dict[str, tuple[int, int]]:
        """Identity of each object, by its unit's name. Inode and time of change: a compile always makes a new file."""
        folder = (out or self.out) / "cudabuild/obj"
        found = folder.iterdir() if folder.is_dir() else ()
        return {path.name: (path.stat().st_ino, path.stat().st_ctime_ns) for path in found}

    def object_bytes(self, out: Path | None = None) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in ((out or self.out) / "cudabuild/obj").iterdir()}

    def build(self, *args: str, out: Path | None = None, **options: Any) -> Report:
        before = self.object_files(out)
        report = super().build(*args, out=out, **options)
        after = self.object_files(out)
        new = [name for name, identity in after.items() if before.get(name) != identity]
        assert len(new) == len(report.compiled), f"the report says {report.compiled}, new objects are {new}"
        return report

    def settle(self) -> None:
        """Build, and hold that a second build finds nothing to do."""
        self.build()
        assert self.build().compiled == []
