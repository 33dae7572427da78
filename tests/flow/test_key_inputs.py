"""This module checks that flags, environment and tools decide about a compile, and that nothing else does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from toolkit import FakeToolkit, install_host_compiler
from workspace import Workspace

ALL = ["kernels/hash.cu", "kernels/msm.cu", "kernels/ntt.cu"]


@pytest.fixture
def built(prover: Workspace) -> Workspace:
    prover.build()
    prover.compiles()
    return prover


CHANGES: list[dict[str, Any]] = [
    {"arch": ["90"]},
    {"arch": ["80", "90"]},
    {"arch": ["compute_80"]},
    {"define": ["X=1"]},
    {"opt": 0},
    {"std": "c++20"},
    {"debug": True},
    {"lineinfo": True},
    {"flags": ["--use_fast_math"]},
    {"host_flags": ["-Wall"]},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_changed_setting_compiles_everything_and_back_again(built: Workspace, change: dict[str, Any]) -> None:
    """C13"""
    first = built.archive_members()
    before = {key.replace("_", "-"): built.settings.get(key.replace("_", "-")) for key in change}
    built.config(**change)
    report = built.build()
    assert built.compiles() == ALL
    assert report.reason(ALL[0])
    assert set(built.archive_members().values()).isdisjoint(first.values())
    built.config(**before)
    built.build()
    assert built.archive_members() == first


def test_value_of_a_define_is_part_of_the_key(prover: Workspace) -> None:
    """C13"""
    prover.write("kernels/hash.cu", "int hash = X;\n")
    for value in ("1", "2"):
        prover.config(define=[f"X={value}"])
        prover.build()
        assert f"int hash = {value};" in prover.archive_text()


def test_order_of_include_folders_is_part_of_the_key(prover: Workspace) -> None:
    """C13"""
    for folder in ("one", "two"):
        prover.write(f"kernels/{folder}/which.cuh", f"int {folder};\n")
    prover.write("kernels/hash.cu", '#include "which.cuh"\n')
    for first, second in (("one", "two"), ("two", "one")):
        prover.config(include=["kernels/include", f"kernels/{first}", f"kernels/{second}"])
        prover.build()
        assert f"int {first};" in prover.archive_text()


def test_order_of_defines_is_part_of_the_key(prover: Workspace) -> None:
    """C13"""
    prover.write("kernels/hash.cu", "int hash = X;\n")
    for first, second in (("1", "2"), ("2", "1")):
        prover.config(define=[f"X={first}", f"X={second}"])
        prover.build()
        assert f"int hash = {second};" in prover.archive_text()


def test_order_of_architectures_and_the_hash_seed_do_not_matter(prover: Workspace) -> None:
    """C13"""
    prover.config(arch=["80", "90"])
    prover.build(env={"PYTHONHASHSEED": "0"})
    prover.compiles()
    prover.config(arch=["90", "80"])
    for seed in ("1", "2"):
        prover.build(env={"PYTHONHASHSEED": seed})
    assert prover.compiles() == []


def test_comment_in_the_configuration_compiles_nothing(built: Workspace) -> None:
    built.write("cudabuild.toml", "# a remark\n" + built.path("cudabuild.toml").read_text())
    built.build()
    assert built.compiles() == []


def test_feature_table_adds_to_the_settings(prover: Workspace) -> None:
    """C13"""
    prover.write("Cargo.toml", prover.path("Cargo.toml").read_text() + "\n[features]\nfast = []\n")
    prover.config(features={"fast": {"define": ["FAST"]}})
    prover.build()
    assert "define FAST" not in prover.archive_text()
    prover.build("--feature", "fast")
    assert "define FAST" in prover.archive_text()
    prover.build_under_cargo(env={"CARGO_FEATURE_FAST": "1"})
    assert "define FAST" in prover.archive_text()


def test_debug_and_release_objects_are_not_shared(prover: Workspace) -> None:
    """C13"""
    prover.config(profile={"dev": {"opt": 0}, "release": {"opt": 2}})
    prover.build_under_cargo()
    assert "flag -O 0" in prover.archive_text()
    prover.build_under_cargo(env={"PROFILE": "release", "OPT_LEVEL": "3", "DEBUG": "false"})
    assert "flag -O 2" in prover.archive_text()


def test_command_line_adds_to_the_settings(prover: Workspace) -> None:
    prover.write("more/extra.cu", '#include "extra.cuh"\nint extra = EXTRA;\n')
    prover.write("more/include/extra.cuh", "")
    report = prover.build(
        "--source", "more/*.cu", "--include", "more/include", "--define", "EXTRA=5", "--flag=-lineinfo", "--host-flag=-Wall", "--arch", "90"
    )  # fmt: skip
    assert "more/extra.cu" in report.compiled
    text = prover.archive_text()
    assert "int extra = 5;" in text and "flag -lineinfo" in text and "code compute_90" in text and "-Wall" in text


VARIABLES = {
    "NVCC_APPEND_FLAGS": "-DFOO",
    "NVCC_PREPEND_FLAGS": "-DFOO",
    "PTXAS_FLAGS": "-v",
    "CUDAFE_FLAGS": "--diag_suppress=1",
    "NVVM_FLAGS": "-v",
    "OCG_FLAGS": "-v",
    "GCC_EXEC_PREFIX": "/nowhere/",
    "COMPILER_PATH": "/nowhere",
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variable_that_the_compiler_reads_is_part_of_the_key(built: Workspace, name: str) -> None:
    """C14"""
    first = built.archive_members()
    report = built.build(env={name: VARIABLES[name]})
    assert built.compiles() == ALL
    assert name in report.reason(ALL[0])
    built.build(env={name: VARIABLES[name]})
    assert built.compiles() == []
    built.build()
    assert built.archive_members() == first


@pytest.mark.parametrize("name", ["CPATH", "CPLUS_INCLUDE_PATH", "INCLUDES", "SYSTEM_INCLUDES"])
def test_variable_that_adds_an_include_folder_is_part_of_the_key(prover: Workspace, name: str) -> None:
    """C14"""
    prover.write("there/which.cuh", "int THERE;\n")
    prover.write("kernels/hash.cu", '#if __has_include("which.cuh")\n#include "which.cuh"\n#endif\n')
    option = {"INCLUDES": "-I", "SYSTEM_INCLUDES": "-isystem "}.get(name, "")
    value = f"{option}{prover.path('there')}"
    prover.build()
    assert "int THERE;" not in prover.archive_text()
    prover.build(env={name: value})
    assert "int THERE;" in prover.archive_text()
    prover.edit("there/which.cuh", "THERE", "THERE_2")
    prover.build(env={name: value})
    assert "int THERE_2;" in prover.archive_text()


@pytest.mark.parametrize("name", ["LANG", "CUDA_VISIBLE_DEVICES", "NVCC_FLAGS", "CFLAGS", "CUDA_CACHE_PATH", "HOME"])
def test_variable_that_the_compiler_ignores_compiles_nothing(built: Workspace, name: str) -> None:
    built.build(env={name: str(built.root / "home")})
    assert built.compiles() == []


def test_flags_from_the_environment_are_not_passed_twice(prover: Workspace) -> None:
    """C14"""
    prover.build(env={"NVCC_APPEND_FLAGS": "-DTWICE", "NVCC_PREPEND_FLAGS": "-DBEFORE"})
    for call in prover.nvcc_calls():
        assert not [word for word in call["argv"] if "TWICE" in word or "BEFORE" in word]
    assert prover.archive_text().count("define TWICE") == len(ALL)


def swap(path: Path, text: str) -> None:
    """New bytes under the old mtime, as a package manager that sets times installs them."""
    stat = path.stat()
    path.write_text(text)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


TOOLS = ["bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvcc.profile", "nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"]


@pytest.mark.parametrize("tool", TOOLS)
def test_tool_replaced_in_place_compiles_everything(built: Workspace, tool: str) -> None:
    """C15"""
    path = built.toolkit.root / tool
    text = path.read_text()
    swap(path, text[:-2] + "!\n")
    report = built.build()
    assert built.compiles() == ALL
    assert Path(tool).name in report.reason(ALL[0]) or "toolkit" in report.reason(ALL[0])
    built.build()
    assert built.compiles() == []


def test_touched_tool_compiles_nothing(built: Workspace) -> None:
    """C15"""
    for tool in (*TOOLS, "bin/nvcc"):
        (built.toolkit.root / tool).touch()
    built.build()
    assert built.compiles() == []


def test_edited_toolkit_header_compiles_everything(built: Workspace) -> None:
    """C15"""
    swap(built.toolkit.root / "include/crt/host_config.h", "#pragma once\nint PATCHED;\n")
    built.build()
    assert built.compiles() == ALL
    assert "PATCHED" in built.archive_text()


def test_new_release_of_the_toolkit_compiles_everything(built: Workspace) -> None:
    """C15"""
    built.toolkit.install_nvcc("13.0.99")
    report = built.build()
    assert built.compiles() == ALL
    assert report.data["toolkit"]["version"] == "13.0.99"


def test_second_name_of_one_toolkit_compiles_nothing(prover: Workspace) -> None:
    """C15"""
    link = prover.root / "cuda"
    link.symlink_to(prover.toolkit.root)
    prover.build(env={"CUDA_HOME": str(link)})
    prover.compiles()
    prover.build(env={"CUDA_HOME": str(prover.toolkit.root)})
    assert prover.compiles() == []


def test_link_that_leads_to_another_toolkit_compiles_everything(prover: Workspace) -> None:
    """C15"""
    other = FakeToolkit(prover.root / "cuda-13.1", version="13.1.5")
    link = prover.root / "cuda"
    link.symlink_to(prover.toolkit.root)
    prover.build(env={"CUDA_HOME": str(link)})
    prover.compiles()
    link.unlink()
    link.symlink_to(other.root)
    prover.build(env={"CUDA_HOME": str(link)})
    assert prover.compiles() == ALL
    assert "13.1.5" in prover.archive_text()


def test_deleted_toolkit_leaves_no_trace_in_the_next_build(built: Workspace) -> None:
    """C15"""
    other = FakeToolkit(built.root / "cuda-13.1", version="13.1.5")
    shutil.rmtree(built.toolkit.root)
    report = built.build_under_cargo(env={"PATH": f"{other.root}/bin:{built.system_path}"})
    assert built.compiles() == ALL
    assert str(built.toolkit.root) not in report.stdout


def test_host_compiler_replaced_in_place_compiles_everything(prover: Workspace) -> None:
    """C27"""
    compiler = install_host_compiler(prover.root / "tools/g++-own")
    prover.config(host_compiler=str(compiler))
    prover.build()
    prover.compiles()
    stat = compiler.stat()
    install_host_compiler(compiler, marker="two")
    os.utime(compiler, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    prover.build()
    assert prover.compiles() == ALL


def test_another_gcc_first_on_the_path_compiles_everything(built: Workspace) -> None:
    """C27"""
    install_host_compiler(built.root / "tools/gcc", marker="another")
    built.build(env={"PATH": f"{built.root}/tools:{built.env['PATH']}"})
    assert built.compiles() == ALL
