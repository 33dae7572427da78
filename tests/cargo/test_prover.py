"""examples/prover: no CUDA where none is asked for, and with it exactly the units that read what was edited."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cargo import CargoWorkspace
from workspace import REPOSITORY

pytestmark = [pytest.mark.cargo, pytest.mark.nvcc]

CUDA = "gpu-prover/cuda"
UNITS = [f"cuda/{name}.cu" for name in ("field_ops", "msm", "ntt", "prover")]
WITH_CUDA = ("-p", "daemon", "--features", "cuda")


@pytest.fixture
def prover(crates: CargoWorkspace) -> CargoWorkspace:
    """A copy of the example. Its units are compiled in their three architectures: one header is read by the newest alone."""
    example = REPOSITORY / "examples/prover"
    shutil.copytree(example, crates.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
    return crates


def tags(crates: CargoWorkspace) -> str:
    """The tag that each unit was compiled with, as the daemon prints them."""
    lines = crates.run_program("prover-daemon").splitlines()
    (line,) = (line for line in lines if line.startswith("cuda units: "))
    return line.removeprefix("cuda units: ")


def all_tagged(tag: str) -> str:
    return " ".join(f"{unit}={tag}" for unit in ("prover", "ntt", "msm", "field_ops"))


def test_without_the_feature_nothing_of_cuda_is_asked_for(prover: CargoWorkspace) -> None:
    built = prover.build(CUDABUILD="/nowhere/cudabuild", NVCC="/nowhere/nvcc")
    assert (built.script_runs, built.compiled) == (0, [])
    assert not list(prover.target.glob("debug/build/gpu-prover-*"))
    assert "proving with the CPU reference" in prover.run_program("prover-daemon")


@pytest.mark.slow
def test_an_edit_compiles_exactly_its_readers_and_reaches_the_daemon(prover: CargoWorkspace) -> None:
    """C01, C08, C11"""
    assert prover.build(*WITH_CUDA).compiled == UNITS
    assert tags(prover) == all_tagged("prover-1")

    prover.edit(f"{CUDA}/ff/field.cuh", '"prover-1"', '"prover-2"')
    assert prover.build(*WITH_CUDA).compiled == UNITS
    assert tags(prover) == all_tagged("prover-2")
    for file, readers in {
        "ntt/ntt.cuh": ["cuda/ntt.cu", "cuda/prover.cu"],
        "msm/bucket.cuh": ["cuda/msm.cu", "cuda/prover.cu"],
        "prover.cu": ["cuda/prover.cu"],
        "prover.cuh": ["cuda/prover.cu"],
    }.items():
        append(prover, file)
        built = prover.build(*WITH_CUDA)
        assert built.compiled == readers
        assert prover.changes("cuda/prover.cu", "gpu-prover") == [f"cuda/{file}"]
    for file in ("mul_sm90.cuh", "mul_generic.cuh", "mul_host.cuh"):
        append(prover, f"ff/arch/{file}")
    # All three at once: that each is among the reasons shows that no pass of the compiler was left out.
    assert prover.build(*WITH_CUDA).compiled == UNITS
    assert sorted(prover.changes("cuda/ntt.cu", "gpu-prover")) == [
        f"cuda/ff/arch/{file}" for file in ("mul_generic.cuh", "mul_host.cuh", "mul_sm90.cuh")
    ]
    at_rest = prover.build(*WITH_CUDA)
    assert (at_rest.script_runs, at_rest.compiled) == (0, [])


def append(crates: CargoWorkspace, file: str) -> None:
    path: Path = crates.folder / CUDA / file
    path.write_text(path.read_text() + "// A comment.\n")


def test_header_of_two_units_compiles_two(prover: CargoWorkspace) -> None:
    """The least of the above, for one architecture."""
    prover.edit("gpu-prover/cudabuild.toml", '["80", "90", "compute_90"]', '["80"]')
    assert prover.build(*WITH_CUDA).compiled == UNITS
    assert tags(prover) == all_tagged("prover-1")
    append(prover, "ntt/ntt.cuh")
    assert prover.build(*WITH_CUDA).compiled == ["cuda/ntt.cu", "cuda/prover.cu"]
