"""This module installs a toolkit around the fake nvcc: the folders, tools and libraries that discovery looks for."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

from fake_nvcc import MARK

SUPPORT = Path(__file__).parent
ARCHS_13 = "75 80 86 87 88 89 90 100 103 110 120 121"
ARCHS_12 = "50 52 53 60 61 62 70 72 75 80 86 87 89 90"

PROFILE = """TOP              = $(_HERE_)/..
CICC_PATH        = $(TOP)/nvvm/bin
INCLUDES        +=  "-I$(TOP)/$(_TARGET_DIR_)/include" $(_SPACE_)
PTXAS_FLAGS     +=
"""

CUDA_RUNTIME = '#pragma once\n#include "crt/host_config.h"\nint cuda_runtime;\n'
EMPTY_ARCHIVE = b"!<arch>\n"


class FakeToolkit:
    """A toolkit at `root`. `library_folder` is where libcudart lies, by the layout: lib64, lib, targets/x86_64-linux/lib."""

    def __init__(self, root: Path, version: str = "13.0.88", archs: str = ARCHS_13, library_folder: str = "lib64") -> None:
        self.root, self.version, self.archs = root, version, archs
        self.nvcc = root / "bin/nvcc"
        self.libraries = root / library_folder
        self.install()

    def install(self) -> None:
        for name in ("cudafe++", "fatbinary", "ptxas", "nvlink"):
            self.put(f"bin/{name}", f"#!/bin/sh\n# {name} {self.version}\n", mode=0o755)
        self.put("nvvm/bin/cicc", f"#!/bin/sh\n# cicc {self.version}\n", mode=0o755)
        self.put("bin/nvcc.profile", PROFILE)
        self.put("nvvm/libdevice/libdevice.10.bc", f"libdevice {self.version}\n")
        include = "targets/x86_64-linux/include" if "targets" in str(self.libraries) else "include"
        self.put(f"{include}/cuda_runtime.h", CUDA_RUNTIME)
        self.put(f"{include}/crt/host_config.h", f'#pragma once\nchar const *CUDART = "{self.version}";\n')
        if include != "include":
            (self.root / "include").symlink_to(include)
        self.libraries.mkdir(parents=True, exist_ok=True)
        for name in ("libcudart_static.a", "libcudadevrt.a"):
            (self.libraries / name).write_bytes(EMPTY_ARCHIVE)
        (self.libraries / "libcudart.so").write_bytes(b"")
        (self.libraries / "stubs").mkdir(exist_ok=True)
        (self.libraries / "stubs/libcuda.so").write_bytes(b"")
        self.install_nvcc()

    def install_nvcc(self, version: str | None = None) -> None:
        self.version = version or self.version
        place(self.nvcc, "nvcc", f"{self.version} {self.archs}")

    def put(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path


def install_wrapper(path: Path, nvcc: Path) -> Path:
    """A shell script that is called nvcc and runs the real one, as distributions install it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {nvcc} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def install_host_compiler(path: Path, marker: str = "one") -> Path:
    """A host compiler that behaves as the machine's own, and whose bytes a test can change."""
    place(path, "gcc", marker)
    for name in ("cc1plus", "cc1", "as", "ld", "collect2"):
        (path.parent / f"fake-{name}").write_text(f"{name} {marker}\n", encoding="utf-8")
    return path


def place(path: Path, program: str, tail: str) -> None:
    """Installs a launcher whose bytes end in `tail`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(launcher(program).read_bytes() + MARK + tail.encode())
    path.chmod(0o755)


@functools.cache
def launcher(program: str) -> Path:
    """launcher.c, compiled once and kept beside the byte code."""
    real = shutil.which("gcc") or "/usr/bin/cc"
    script = SUPPORT / "fake_nvcc_main.py"
    defines = {"nvcc": [f'-DPYTHON="{sys.executable}"', f'-DSCRIPT="{script}"'], "gcc": [f'-DCOMPILER="{real}"']}[program]
    source = SUPPORT / "launcher.c"
    key = zlib.crc32(source.read_bytes() + repr(defines).encode())
    built = SUPPORT / "__pycache__" / f"{program}-{key:08x}"
    if not built.exists():
        built.parent.mkdir(exist_ok=True)
        half = built.with_suffix(f".{os.getpid()}")
        subprocess.run([real, "-O1", "-s", *defines, "-o", half, source], check=True)
        half.rename(built)
    return built


def run_nvcc(toolkit: FakeToolkit, *argv: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """One direct call of the fake, for its own tests."""
    return subprocess.run(
        [str(toolkit.nvcc), *argv], cwd=cwd, env=env, capture_output=True, text=True, check=False, errors="surrogateescape"
    )
