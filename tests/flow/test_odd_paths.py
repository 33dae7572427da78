"""This module checks that names with spaces, signs and letters of other alphabets are tracked like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from workspace import Workspace

ODD_NAMES = ["h h.cuh", "a#b.cuh", "d$x.cuh", "ü.cuh", "p%q.cuh", "c:d.cuh", "e;f.cuh", "it's.cuh", "st*r.cuh", "t\tb.cuh"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_header_with_an_odd_name_is_tracked(prover: Workspace, name: str) -> None:
    """C10"""
    prover.write(f"kernels/include/{name}", "#define ODD 1\n")
    prover.write("kernels/msm.cu", f'#include "{name}"\nint msm = ODD;\n')
    report = prover.build_under_cargo()
    assert [path for path in report.watched if path.endswith(name)]
    prover.compiles()
    prover.build()
    assert prover.compiles() == []
    prover.edit(f"kernels/include/{name}", "1", "2")
    prover.build()
    assert prover.compiles() == ["kernels/msm.cu"]
    assert "int msm = 2;" in prover.archive_text()


def test_header_that_the_compiler_cannot_name_is_never_silently_untracked(prover: Workspace) -> None:
    """C10: nvcc writes a backslash as a slash."""
    prover.write("kernels/include/back\\slash.cuh", "#define ODD 1\n")
    prover.write("kernels/msm.cu", '#include "back\\slash.cuh"\nint msm = ODD;\n')
    report = prover.build(expect=(0, 1, 2, 4))
    if report.exit_code == 0:
        prover.edit("kernels/include/back\\slash.cuh", "1", "2")
        prover.build()
        assert "int msm = 2;" in prover.archive_text()
    else:
        assert "slash.cuh" in report.error


@pytest.mark.parametrize("folder", ["w s", "ünï", "cr#1", "a=b", "50%", "x(1)"])
def test_crate_in_a_folder_with_an_odd_name_builds(tmp_path: Path, folder: str) -> None:
    """C10"""
    workspace = Workspace(tmp_path / folder, crate="the crate", forked=True)
    workspace.write("kernels/inc dir/h.cuh", "#define VAL 1\n")
    workspace.write("kernels/k k.cu", '#include "h.cuh"\nint k = VAL;\n')
    workspace.config(include=["kernels/inc dir"])
    workspace.build()
    assert workspace.compiles() == ["kernels/k k.cu"]
    workspace.build()
    assert workspace.compiles() == []
    workspace.edit("kernels/inc dir/h.cuh", "1", "2")
    report = workspace.build_under_cargo()
    assert workspace.compiles() == ["kernels/k k.cu"]
    assert [path for path in report.watched if path.endswith("inc dir/h.cuh")]


@pytest.mark.parametrize("folder", ["cr$1", "$HOME", "q`touch pwn`"])
def test_crate_in_a_folder_that_a_shell_would_expand_builds_or_is_refused(tmp_path: Path, folder: str) -> None:
    """C10: nvcc hands its own steps to sh unquoted, so such a path must be kept from it or be refused by name."""
    workspace = Workspace(tmp_path / folder, forked=True)
    workspace.write("kernels/k.cu", "int k;\n")
    report = workspace.build(expect=(0, 2))
    if report.exit_code == 0:
        assert "$" not in "".join(argument for call in workspace.nvcc_calls() for argument in call["argv"])
    else:
        assert folder in report.error
