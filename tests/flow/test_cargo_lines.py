"""This module checks what cargo is told: which files and variables to watch, and what to link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from workspace import Report, Workspace


def resolved(workspace: Workspace, report: Report) -> set[str]:
    """The watched paths as cargo reads them: relative ones start at the package root."""
    return {os.path.normpath(workspace.crate / path) for path in report.watched}


def crate_paths(workspace: Workspace, *names: str) -> set[str]:
    return {str(workspace.crate / name) for name in names}


SOURCES = ("kernels/hash.cu", "kernels/msm.cu", "kernels/ntt.cu")
HEADERS = ("kernels/include/field.cuh", "kernels/include/limbs.cuh")


def test_every_source_and_header_is_watched(prover: Workspace) -> None:
    """C01"""
    report = prover.build_under_cargo()
    assert crate_paths(prover, *SOURCES, *HEADERS, "cudabuild.toml") <= resolved(prover, report)


def test_every_watched_path_exists_and_is_no_pattern(prover: Workspace) -> None:
    """C02"""
    prover.config(include=["kernels/include", "kernels/never"])
    report = prover.build_under_cargo()
    assert report.watched
    for path in report.watched:
        assert (prover.crate / path).exists(), path
        assert "*" not in path
        assert path.strip() == path and path


def test_no_path_is_watched_twice(prover: Workspace) -> None:
    """C02"""
    report = prover.build_under_cargo()
    assert len(set(report.watched)) == len(report.watched)


def test_place_where_a_new_source_would_appear_is_watched(prover: Workspace) -> None:
    """C02: cargo walks a watched folder, so a file that appears in it reruns the build script."""
    report = prover.build_under_cargo()
    new = prover.path("kernels/new.cu")
    assert set(map(str, new.parents)) & resolved(prover, report)
    prover.write("kernels/new.cu", "int new_one;\n")
    again = prover.build_under_cargo()
    assert "int new_one;" in prover.archive_text()
    assert str(new) in resolved(prover, again)
    prover.remove("kernels/new.cu")
    last = prover.build_under_cargo()
    assert str(new) not in resolved(prover, last)
    assert resolved(prover, last) == resolved(prover, report)


@pytest.mark.parametrize("place", ["kernels/first", "kernels/include"])
def test_place_where_a_shadowing_header_would_appear_is_watched(prover: Workspace, place: str) -> None:
    """C02"""
    prover.path("kernels/first").mkdir()
    prover.config(include=["kernels/first", "kernels/include"])
    report = prover.build_under_cargo()
    assert set(map(str, [prover.path(place), *prover.path(place).parents])) & resolved(prover, report)


def test_package_root_is_never_watched_as_a_folder(prover: Workspace) -> None:
    """C03: target/ lies in it, so that it would be newer after every build."""
    prover.path("target").mkdir()
    report = prover.build_under_cargo()
    assert str(prover.crate) not in resolved(prover, report)
    assert not crate_paths(prover, "target") & resolved(prover, report)


def test_generated_header_in_out_dir_is_tracked_but_not_watched(prover: Workspace) -> None:
    """C03"""
    (prover.out / "gen.cuh").write_text("#define GEN 1\n")
    prover.write("kernels/hash.cu", '#include "gen.cuh"\nint hash = GEN;\n')
    prover.config(include=["kernels/include", "${OUT_DIR}"])
    report = prover.build_under_cargo()
    inside = [path for path in resolved(prover, report) if path.startswith(str(prover.out))]
    assert inside == [str(prover.out / "cudabuild/stamp")]  # older than every build, until `invalidate` touches it
    prover.compiles()
    (prover.out / "gen.cuh").write_text("#define GEN 2\n")
    prover.build_under_cargo()
    assert prover.compiles() == ["kernels/hash.cu"]
    assert "int hash = 2;" in prover.archive_text()


def test_out_dir_inside_the_crate_is_not_watched(prover: Workspace) -> None:
    """C03"""
    prover.out = prover.path("target/debug/build/prover-1/out")
    prover.out.mkdir(parents=True)
    report = prover.build_under_cargo()
    for path in resolved(prover, report):
        assert not str(prover.out).startswith(path), f"{path} holds OUT_DIR"


def test_toolkit_is_a_few_lines(prover: Workspace) -> None:
    """DESIGN 5: the toolkit's 1,500 headers are not listed one by one."""
    report = prover.build_under_cargo()
    outside = [path for path in resolved(prover, report) if not path.startswith(str(prover.crate))]
    assert not [path for path in outside if path.endswith("host_config.h")]
    assert len(outside) < 25


def test_header_outside_the_crate_is_watched(prover: Workspace) -> None:
    """C09"""
    shared = prover.root / "shared"
    shared.mkdir()
    (shared / "shared.cuh").write_text("int shared_1;\n")
    prover.write("kernels/hash.cu", '#include "shared.cuh"\n')
    prover.config(include=["kernels/include", "../shared"])
    report = prover.build_under_cargo()
    assert str(shared / "shared.cuh") in resolved(prover, report)
    (shared / "shared.cuh").write_text("int shared_2;\n")
    prover.compiles()
    prover.build_under_cargo()
    assert prover.compiles() == ["kernels/hash.cu"]


READ = [
    "NVCC", "CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CPATH", "CPLUS_INCLUDE_PATH", "PTXAS_FLAGS",
    "CUDABUILD_LOG", "CUDABUILD_JOBS",
]  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_variable_that_was_read_is_announced_even_when_unset(prover: Workspace, name: str) -> None:
    """C14"""
    assert name in prover.build_under_cargo().values("rerun-if-env-changed")


def test_variable_in_a_configured_value_is_announced(prover: Workspace) -> None:
    """C14"""
    prover.config(define=["KEY=${MY_KEY}"])
    report = prover.build_under_cargo(env={"MY_KEY": "5"})
    assert "MY_KEY" in report.values("rerun-if-env-changed")
    assert "define KEY=5" in prover.archive_text()


def test_second_build_prints_the_same_lines(prover: Workspace) -> None:
    """C12 without a cache"""
    first = [line for line in prover.build_under_cargo().directives if line[0] != "warning"]
    again = [line for line in prover.build_under_cargo().directives if line[0] != "warning"]
    assert first == again


@pytest.mark.parametrize("mistake", ["SYNTAX_ERROR\n", '#include "nope.h"\n'])
def test_failed_build_still_tells_cargo_what_to_watch(prover: Workspace, mistake: str) -> None:
    """C18 (c): otherwise the fix would not rerun the build script once cargo has forgotten the failure."""
    prover.build_under_cargo()
    prover.write("kernels/hash.cu", mistake)
    report = prover.build_under_cargo(expect=1)
    assert crate_paths(prover, *SOURCES, *HEADERS, "cudabuild.toml") <= resolved(prover, report)
    assert "NVCC_APPEND_FLAGS" in report.values("rerun-if-env-changed")


def test_configuration_error_still_tells_cargo_what_to_watch(prover: Workspace) -> None:
    """C18 (c)"""
    prover.config(nonsense=1)
    report = prover.build_under_cargo(expect=2)
    assert "cudabuild.toml" in "".join(report.watched)


def test_stdout_holds_directives_only(prover: Workspace) -> None:
    """DESIGN promise 5"""
    prover.write("kernels/hash.cu", "WARN noisy\n")
    report = prover.build_under_cargo(env={"CUDABUILD_LOG": "verbose"})
    assert report.directives  # reading them checks the form of every line
    assert "noisy" in report.stderr


def position(report: Report, text: str) -> int:
    lines = [value for key, value in report.directives if key == "rustc-link-lib"]
    return next(index for index, value in enumerate(lines) if value.rpartition("=")[2] == text)


def test_own_library_is_linked_before_the_runtime_and_the_runtime_before_cxx(prover: Workspace) -> None:
    """C24"""
    report = prover.build_under_cargo()
    assert "static=kernels" in [value.replace(":+whole-archive", "") for value in report.values("rustc-link-lib")]
    assert position(report, "kernels") < position(report, "cudart_static") < position(report, "stdc++")
    assert f"native={prover.out}" in report.values("rustc-link-search")


@pytest.mark.parametrize(("choice", "wanted"), [("static", {"cudart_static"}), ("shared", {"cudart"}), ("none", set())])
def test_runtime_is_linked_as_configured_and_once(prover: Workspace, choice: str, wanted: set[str]) -> None:
    """C24"""
    prover.config(cudart=choice)
    names = {value.rpartition("=")[2] for value in prover.build_under_cargo().values("rustc-link-lib")}
    assert names & {"cudart", "cudart_static"} == wanted


def test_configured_libraries_are_linked_after_the_own_one(prover: Workspace) -> None:
    """C24"""
    prover.config(link=["dylib=nvml", "cublas"])
    report = prover.build_under_cargo()
    assert position(report, "kernels") < position(report, "nvml") < position(report, "cublas")


def test_crate_and_its_folders_are_left_as_they_were(prover: Workspace) -> None:
    """C07: the sources may be read-only, and cargo would rerun for ever if the build wrote beside them."""

    def snapshot() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in [prover.crate, *prover.crate.rglob("*")]}

    before = snapshot()
    prover.build_under_cargo()
    prover.edit("kernels/hash.cu", "7", "8")
    edited = prover.path("kernels/hash.cu")
    after_edit = {**before, str(edited): edited.stat().st_mtime_ns}
    prover.build_under_cargo()
    assert snapshot() == after_edit


def test_nothing_is_written_outside_out_dir(prover: Workspace, tmp_path: Path) -> None:
    """DESIGN promise 5"""
    temp = tmp_path / "temp"
    temp.mkdir()
    prover.build_under_cargo(env={"TMPDIR": str(temp)})
    assert list(temp.iterdir()) == []
    assert list((prover.root / "home").iterdir()) == []
    assert {path.name for path in prover.out.iterdir()} == {"libkernels.a", "cudabuild"}
