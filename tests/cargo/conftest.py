"""This module offers crates to be built with cargo and a real nvcc."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cargo import CargoWorkspace
from real import missing, real_nvcc


@pytest.fixture
def crates(tmp_path: Path) -> CargoWorkspace:
    """An empty folder for crates."""
    nvcc = real_nvcc()
    if nvcc is None:
        missing("nvcc")
    if shutil.which("cargo") is None:
        missing("cargo")
    return CargoWorkspace(tmp_path, nvcc)


@pytest.fixture
def crate(crates: CargoWorkspace) -> CargoWorkspace:
    """The least crate with a kernel; see CargoWorkspace.probe_crate."""
    crates.probe_crate()
    return crates
