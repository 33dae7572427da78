"""This module checks which objects may hold the names of folders, so that they are good in one place only."""

from __future__ import annotations

from typing import Any

import pytest

from cudabuild.config.schema import BuildConfig
from cudabuild.graph.units import Unit
from cudabuild.nvcc.arguments import bound_to, flags
from cudabuild.roots import Roots

HERE = Roots("/ws/prover", "/ws/prover/target/debug/build/prover-1/out", "/opt/cuda/bin/..")
BOTH = (HERE.crate, HERE.out)
UNIT = Unit("kernels/a.cu", "cuda", "a")


def bound(unit: Unit = UNIT, environment: dict[str, str] | None = None, **settings: Any) -> tuple[str, ...]:
    config = BuildConfig(
        name="k", crate_root=HERE.crate, config_file="cudabuild.toml", sources=("kernels/*.cu",), arch=("80",), **settings
    )
    return bound_to(config, unit, flags(config, (), None, HERE, "cuda"), environment or {}, HERE)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"include": ("kernels/include", "/ws/prover/inc")}, {"system_include": ("kernels/include",)}, {"opt": 0},
        {"define": ("A=g", "G", "LINEINFO")}, {"host_flags": ("-Wall", "-fopenmp")}, {"include": ("/ws/prover-two/inc",)},
        {"flags": ("--use_fast_math", "-Xptxas=-v")}, {"environment": {"NVCC_APPEND_FLAGS": "-gencode arch=compute_90,code=sm_90"}},
        {"environment": {"NVCC_APPEND_FLAGS": "--generate-code=arch=compute_90,code=sm_90 --gpu-code=sm_90"}},
        {"include": ("/opt/cuda/include",)}, {"flags": ("-I/opt/cuda/bin/../include",)},
    ],
    ids=str,
)  # fmt: skip
def test_ordinary_object_is_good_everywhere(settings: dict[str, Any]) -> None:
    assert bound(**settings) == ()


@pytest.mark.parametrize(
    "settings",
    [
        {"debug": True}, {"lineinfo": True}, {"flags": ("-lineinfo",)}, {"flags": ("--generate-line-info",)}, {"flags": ("-G",)},
        {"flags": ("--device-debug",)}, {"flags": ("-g",)}, {"host_flags": ("-g",)}, {"host_flags": ("-ggdb3",)}, {"host_flags": ("-g1",)},
        {"flags": ("-Xcompiler=-Wall,-g",)}, {"flags": ("-Xcompiler", "-g")}, {"host_flags": ("--coverage",)},
        {"host_flags": ("-fprofile-generate",)}, {"environment": {"NVCC_APPEND_FLAGS": "-O2 -lineinfo"}},
        {"environment": {"NVCC_PREPEND_FLAGS": "-Xcompiler -Wall,-g"}}, {"flags": ("-Xcompiler=-g",)}, {"flags": ("-Xptxas=-g",)},
        {"host_flags": ("-gdwarf-4",)}, {"host_flags": ("-gsplit-dwarf",)}, {"host_flags": ("-gz=zlib",)},
        {"flags": ("--compiler-options=-Wall,-ggdb3",)}, {"environment": {"NVCC_APPEND_FLAGS": "-Xcompiler='-O1 -gdwarf-4'"}},
    ],
    ids=str,
)  # fmt: skip
def test_debug_information_binds_to_the_place(settings: dict[str, Any]) -> None:
    assert bound(**settings) == BOTH


@pytest.mark.parametrize("folder", [f"{HERE.out}/gen", "target/debug/build/prover-1/out/gen", HERE.out])
def test_folder_of_generated_headers_binds_to_the_place(folder: str) -> None:
    """`__FILE__` in such a header names the output folder."""
    assert bound(include=(folder,)) == BOTH
    assert bound(system_include=(folder,)) == BOTH


@pytest.mark.parametrize("source", [f"{HERE.out}/gen.cu", "target/debug/build/prover-1/out/gen.cu"])
def test_generated_source_binds_to_the_place(source: str) -> None:
    assert bound(Unit(source, "cuda", "gen")) == BOTH


@pytest.mark.parametrize(
    "settings",
    [
        {"flags": ("-I/ws/prover/inc",)}, {"flags": ("--include-path=/ws/prover/inc",)}, {"flags": ("--pre-include=/ws/prover/a.h",)},
        {"define": ('DATA="/ws/prover/data"',)}, {"environment": {"CPATH": "/usr/x:/ws/prover/inc"}},
        {"environment": {"NVCC_APPEND_FLAGS": "-I/ws/prover"}},
    ],
    ids=str,
)  # fmt: skip
def test_flag_that_names_the_crate_in_full_binds_to_it(settings: dict[str, Any]) -> None:
    """In another checkout the same words still mean this one; and `__FILE__` in what is found there says so."""
    assert bound(**settings) == (HERE.crate,)


def test_variable_that_names_the_toolkit_binds_to_it() -> None:
    assert bound(environment={"CPATH": "/opt/cuda/bin/../include"}) == ("/opt/cuda/bin/..",)
