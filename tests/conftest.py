"""This module offers the scratch crate to every test, and puts tests/support on the path."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

# A shell that runs the tests in the background has SIGINT ignored, nohup SIGHUP, and both are inherited by what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

from toolkit import FakeToolkit
from workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A crate with no source yet, a fake toolkit on PATH, and an environment with nothing of the caller's in it."""
    return Workspace(tmp_path, forked=True)


@pytest.fixture
def toolkit(tmp_path: Path) -> FakeToolkit:
    return FakeToolkit(tmp_path / "cuda")


@pytest.fixture
def prover(workspace: Workspace) -> Workspace:
    """Three kernels: msm and ntt read field.cuh, which reads limbs.cuh; hash reads nothing."""
    workspace.write("kernels/include/limbs.cuh", "#pragma once\n#define LIMBS 1\n")
    workspace.write("kernels/include/field.cuh", '#pragma once\n#include "limbs.cuh"\n#define FIELD 1\n')
    workspace.write("kernels/msm.cu", '#include "field.cuh"\nint msm[] = {FIELD, LIMBS};\n')
    workspace.write("kernels/ntt.cu", '#include "field.cuh"\nint ntt[] = {FIELD, LIMBS};\n')
    workspace.write("kernels/hash.cu", "int hash = 7;\n")
    return workspace
