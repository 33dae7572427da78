"""This module checks how many compilers run at once, and who decides it."""

from __future__ import annotations

import os

import pytest
from workspace import Changes, Workspace

SLOW: Changes = {"FAKE_NVCC_FAULT": "slow:0.25"}


@pytest.fixture
def six(workspace: Workspace) -> Workspace:
    for number in range(6):
        workspace.write(f"kernels/k{number}.cu", f"int k{number};\n")
    return workspace


def overlap(workspace: Workspace) -> int:
    calls = workspace.nvcc_calls()
    assert len(calls) == 6
    return max(sum(other["start"] <= call["start"] < other["end"] for other in calls) for call in calls)


@pytest.mark.parametrize("jobs", [1, 3])
def test_jobs_option_limits_the_compilers(six: Workspace, jobs: int) -> None:
    """C22"""
    six.build("--jobs", str(jobs), env=SLOW)
    assert overlap(six) == jobs


def test_jobs_setting_limits_the_compilers(six: Workspace) -> None:
    """C22"""
    six.config(jobs=1)
    six.build(env=SLOW)
    assert overlap(six) == 1


def test_jobs_variable_limits_the_compilers(six: Workspace) -> None:
    """C22"""
    six.build(env={**SLOW, "CUDABUILD_JOBS": "1"})
    assert overlap(six) == 1


def test_cargos_number_of_jobs_limits_the_compilers(six: Workspace) -> None:
    """C22"""
    six.build_under_cargo(env={**SLOW, "NUM_JOBS": "1"})
    assert overlap(six) == 1


@pytest.mark.parametrize("tokens", [0, 1])
def test_cargos_jobserver_limits_the_compilers(six: Workspace, tokens: int) -> None:
    """C22: the process itself is one job, each token one more."""
    read, write = os.pipe()
    os.write(write, b"+" * tokens)
    flags = f"-j --jobserver-fds={read},{write} --jobserver-auth={read},{write}"
    six.build_under_cargo(env={**SLOW, "NUM_JOBS": "8", "CARGO_MAKEFLAGS": flags}, pass_fds=(read, write))
    assert overlap(six) == 1 + tokens
    os.close(write)
    assert len(os.read(read, 10)) == tokens, "tokens go back"
    os.close(read)


def test_number_of_jobs_is_not_part_of_the_key(six: Workspace) -> None:
    six.build("--jobs", "1")
    six.compiles()
    six.build("--jobs", "2")
    assert six.compiles() == []


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_nonsensical_number_of_jobs_is_refused(six: Workspace, value: str) -> None:
    report = six.build(env={"CUDABUILD_JOBS": value}, expect=2)
    assert "CUDABUILD_JOBS" in report.error and value in report.error
