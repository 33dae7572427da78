"""This module offers the real nvcc of the machine, and scratch crates that are built by hand with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

import pytest
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


def missing(tool: str) -> NoReturn:
    """Skip the test, unless CUDABUILD_REQUIRE (`nvcc,cargo`) says that the tool has to be here."""
    if tool in os.environ.get("CUDABUILD_REQUIRE", "").split(","):
        pytest.fail(f"no {tool} on this machine, and CUDABUILD_REQUIRE asks for it")
    pytest.skip(f"no {tool} on this machine")


def unit_source(value: str, headers: tuple[str, ...] = (), name: str = "probe") -> str:
    """A unit as small as one with host and device code can be; both hold the number `value`. Headers are `h.cuh` or `<h.cuh>`."""
    includes = "".join(f"#include {header}\n" if header.startswith("<") else f'#include "{header}"\n' for header in headers)
    kernel = f"__global__ void {name}_kernel(int *out) {{ *out = {value}; }}\n"
    return f'{includes}{kernel}extern "C" int {name}() {{ return {value}; }}\n'


def unit_text(*headers: str) -> str:
    """A unit whose object holds the text that its headers define as TEXT."""
    return unit_source("1", headers) + 'extern "C" const char *text() { return TEXT; }\n'


class Project(Workspace):
    """A crate built by hand with a real nvcc. What was compiled is told by the report and, independently of it, by which
    object files are new."""

    def __init__(self, root: Path, nvcc: str, crate: str = "crate") -> None:
        super().__init__(root, crate)
        self.nvcc = nvcc
        self.env |= {"PATH": "/usr/bin:/bin", "NVCC": nvcc}

    def objects(self, out: Path | None = None) -> list[Path]:
        folder = (out or self.out) / "cudabuild/obj"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def build(self, *args: str, out: Path | None = None, **options: Any) -> Report:
        before = _identities(self.objects(out))
        report = super().build(*args, out=out, **options)
        new = _identities(self.objects(out)) - before
        told = [*report.compiled, *report.restored]
        assert len(new) == len(told), f"the report says {told}, new objects are {new}"
        return report

    def settle(self) -> Report:
        """Build, and hold that there is nothing left to do."""
        report = self.build()
        again = self.build()
        assert again.compiled == [], [(source, again.reason(source)) for source in again.compiled]
        return report


def _identities(objects: list[Path]) -> set[tuple[str, int, int]]:
    """A compile always makes a new file, and so does the cache."""
    return {(path.name, path.stat().st_ino, path.stat().st_ctime_ns) for path in objects}
