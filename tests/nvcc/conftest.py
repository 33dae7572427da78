"""This module offers a crate to be built by hand with a real nvcc."""

from __future__ import annotations

from pathlib import Path

import pytest
from real import Project, missing, real_nvcc


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A crate without sources."""
    nvcc = real_nvcc()
    if nvcc is None:
        missing("nvcc")
    return Project(tmp_path, nvcc)
