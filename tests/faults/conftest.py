"""This module offers builds in which chosen effects go wrong, and builds that are started together."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from workspace import REPOSITORY, Codes, Report, Workspace

HOOK = Path(__file__).parents[1] / "support/effects"


def build_with_faults(crate: Workspace, *, expect: Codes = 0, out: Path | None = None, **settings: str | int | Path) -> Report:
    """A build as a new process under support/effects: `at=3, how="die"`."""
    hook = {f"EFFECTS_{name.upper()}": str(value) for name, value in settings.items()}
    crate.forked = False
    try:
        path = f"{HOOK}:{REPOSITORY}"
        return crate.build(env={**hook, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}, expect=expect, out=out)
    finally:
        crate.forked = True


@pytest.fixture
def crate(tmp_path: Path) -> Workspace:
    """Two kernels that read field.cuh."""
    workspace = Workspace(tmp_path, forked=True)
    workspace.write("kernels/include/field.cuh", "#pragma once\n#define FIELD 1\n")
    workspace.write("kernels/msm.cu", '#include "field.cuh"\nint msm[] = {FIELD};\n')
    workspace.write("kernels/ntt.cu", '#include "field.cuh"\nint ntt[] = {FIELD};\n')
    return workspace


@pytest.fixture
def cache(crate: Workspace) -> Path:
    return crate.use_cache()


def clean_library(crate: Workspace) -> dict[str, bytes]:
    """What a build with neither cache nor past makes of the sources as they are."""
    out = crate.root / "clean"
    shutil.rmtree(out, ignore_errors=True)
    log = crate.env["FAKE_NVCC_LOG"]
    crate.build("--cache=off", out=out, env={"FAKE_NVCC_LOG": f"{log}.clean"})
    return crate.archive_members(out)


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts a command line of the tool in a session of its own; whatever is left of it ends with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(arguments: list[str], cwd: Path, env: dict[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "cudabuild", *arguments], cwd=cwd, env=env, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.communicate()
