"""This module checks that a failed build says so, and leaves nothing that a later one could take for good."""

from __future__ import annotations

import random
import signal
import time

import pytest
from workspace import Changes, Workspace

READERS = ["kernels/msm.cu", "kernels/ntt.cu"]


@pytest.fixture
def built(prover: Workspace) -> Workspace:
    prover.build()
    prover.compiles()
    return prover


def test_syntax_error_fails_the_build_with_the_compilers_own_words(built: Workspace) -> None:
    """C18 (c)"""
    built.edit("kernels/hash.cu", "int", "SYNTAX_ERROR int")
    report = built.build(expect=1)
    assert report.data["outcome"] == "failed"
    assert report.failed == ["kernels/hash.cu"]
    assert 'kernels/hash.cu(1): error: identifier "SYNTAX_ERROR" is undefined' in report.stderr
    assert "SYNTAX_ERROR" in report.units["kernels/hash.cu"]["output"]
    assert report.data["error"]["exit_code"] == 1


def test_failed_build_leaves_no_newer_archive(built: Workspace) -> None:
    """C18 (c)"""
    before = built.archive_path().stat()
    built.edit("kernels/hash.cu", "7", "SYNTAX_ERROR")
    built.build(expect=1)
    if built.archive_path().exists():
        assert built.archive_path().stat().st_mtime_ns == before.st_mtime_ns
        assert "int hash = 7;" in built.archive_text()


def test_fixing_the_error_compiles_that_source_alone(built: Workspace) -> None:
    """C18 (c)"""
    built.edit("kernels/hash.cu", "7", "SYNTAX_ERROR")
    built.build(expect=1)
    built.compiles()
    built.edit("kernels/hash.cu", "SYNTAX_ERROR", "9")
    built.build()
    assert built.compiles() == ["kernels/hash.cu"]
    assert "int hash = 9;" in built.archive_text()


def test_undoing_a_broken_edit_is_a_good_build_again(built: Workspace) -> None:
    """C18 (c)"""
    good = built.archive_path().read_bytes()
    built.edit("kernels/hash.cu", "7", "SYNTAX_ERROR")
    built.build(expect=1)
    built.edit("kernels/hash.cu", "SYNTAX_ERROR", "7")
    built.build()
    assert built.archive_path().read_bytes() == good


def test_failure_is_not_forgotten(built: Workspace) -> None:
    """C18 (c)"""
    built.edit("kernels/hash.cu", "7", "SYNTAX_ERROR")
    for _ in range(2):
        assert built.build(expect=1).failed == ["kernels/hash.cu"]
    assert built.compiles() == ["kernels/hash.cu"] * 2


def test_one_failure_does_not_waste_the_others_work(built: Workspace) -> None:
    """C22"""
    built.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    built.edit("kernels/msm.cu", "int msm", "SYNTAX_ERROR int msm")
    built.build("--jobs", "1", expect=1)
    built.edit("kernels/msm.cu", "SYNTAX_ERROR ", "")
    built.build()
    compiled = built.compiles()
    assert compiled.count("kernels/ntt.cu") == 1
    assert "int ntt[] = {1, 2};" in built.archive_text()


def test_all_errors_are_shown_in_one_build(built: Workspace) -> None:
    for source in READERS:
        built.edit(source, "int", "SYNTAX_ERROR int")
    report = built.build("--jobs", "1", expect=1)
    assert report.failed == READERS


def test_missing_include_names_the_place(built: Workspace) -> None:
    built.edit("kernels/hash.cu", "int", '#include "nope.cuh"\nint')
    report = built.build(expect=1)
    assert "kernels/hash.cu:1:10: fatal error: nope.cuh: No such file or directory" in report.stderr


def test_header_that_was_missing_is_seen_when_it_appears(built: Workspace) -> None:
    built.edit("kernels/hash.cu", "int", '#include "nope.cuh"\nint')
    built.build(expect=1)
    built.write("kernels/include/nope.cuh", "int THERE;\n")
    built.build()
    assert "int THERE;" in built.archive_text()


@pytest.mark.parametrize("fault", ["empty-object", "no-object", "truncate"])
def test_compiler_that_lies_about_its_object_is_not_believed(built: Workspace, fault: str) -> None:
    """C18 (a)"""
    built.edit("kernels/hash.cu", "7", "8")
    report = built.build(env={"FAKE_NVCC_FAULT": fault}, expect=1)
    assert report.failed == ["kernels/hash.cu"]
    built.build()
    assert "int hash = 8;" in built.archive_text()


def test_killed_compiler_is_called_killed(built: Workspace) -> None:
    """C22"""
    built.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    env: Changes = {"FAKE_NVCC_FAULT": "crash", "FAKE_NVCC_FAULT_SOURCE": "msm.cu"}
    report = built.build(env=env, expect=1)
    assert report.failed == ["kernels/msm.cu"]
    said = (report.error + report.stderr).lower()
    assert "killed" in said and "memory" in said and "msm.cu" in said and "jobs" in said
    built.compiles()
    built.build()
    assert built.compiles() == ["kernels/msm.cu"]
    assert "int msm[] = {1, 2};" in built.archive_text()


def test_compilers_warning_is_shown(built: Workspace) -> None:
    built.edit("kernels/hash.cu", "int", "WARN look here\nint")
    report = built.build()
    assert "kernels/hash.cu(1): warning #177-D: look here" in report.stderr
    assert "look here" in report.units["kernels/hash.cu"]["output"]


def test_missing_temporary_folder_is_named(built: Workspace) -> None:
    """C21"""
    built.edit("kernels/hash.cu", "7", "8")
    report = built.build(env={"TMPDIR": "/nonexistent/x"}, expect=(0, 1, 2, 3))
    # A temporary folder of the tool's own makes TMPDIR harmless; otherwise the message names it.
    assert report.exit_code == 0 or "TMPDIR" in report.stderr


def test_record_survives_a_failed_build(built: Workspace) -> None:
    built.edit("kernels/hash.cu", "7", "SYNTAX_ERROR")
    built.build(expect=1)
    built.edit("kernels/hash.cu", "SYNTAX_ERROR", "7")
    built.compiles()
    built.build()
    assert set(built.compiles()) <= {"kernels/hash.cu"}


def test_no_sources_is_an_error_of_the_configuration(workspace: Workspace) -> None:
    report = workspace.build(expect=2)
    assert "kernels/*.cu" in report.error


@pytest.mark.parametrize("seed", range(4))
def test_build_after_a_kill_at_any_point_ends_right(prover: Workspace, seed: int) -> None:
    """C18 (b)"""
    chance = random.Random(seed)
    prover.build()
    for number in range(5):
        prover.edit("kernels/include/limbs.cuh", f"LIMBS {number + 1}", f"LIMBS {number + 2}")
        run = prover.start(env={"FAKE_NVCC_FAULT": "slow:0.02"})
        time.sleep(chance.uniform(0.0, 0.35))
        run.send_signal(signal.SIGKILL)
        run.communicate()
        prover.build()
        assert f"int msm[] = {{1, {number + 2}}};" in prover.archive_text()
        assert f"int ntt[] = {{1, {number + 2}}};" in prover.archive_text()
        prover.build(out=prover.root / f"clean{number}")
        assert prover.archive_members() == prover.archive_members(prover.root / f"clean{number}")
