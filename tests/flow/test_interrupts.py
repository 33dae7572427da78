"""This module checks that Ctrl-C and a terminating signal end the whole tree of compilers, and leave nothing half done."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from workspace import Changes, Workspace

HANG: Changes = {"FAKE_NVCC_FAULT": "hang", "FAKE_NVCC_FAULT_SOURCE": "msm.cu"}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("whole_group", [False, True], ids=["process", "group"])
def test_signal_ends_every_process_and_gives_its_exit_code(prover: Workspace, number: signal.Signals, code: int, whole_group: bool) -> None:
    """C21: a terminal sends SIGINT to the whole group, a supervisor a signal to the process alone."""
    temp = prover.root / "temp"
    temp.mkdir()
    prover.build()
    good = prover.archive_path().read_bytes()
    prover.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    prover.forget_calls()
    run = prover.start(env={**HANG, "TMPDIR": str(temp)})
    prover.wait_for(lambda: any(call["child"] for call in prover.nvcc_calls()))
    processes = [pid for call in prover.nvcc_calls() if call["child"] for pid in (call["pid"], call["child"])]
    started = time.monotonic()
    if whole_group:
        os.killpg(run.pid, number)
    else:
        run.send_signal(number)
    _, stderr = run.communicate(timeout=10)
    assert time.monotonic() - started < 5
    assert run.returncode == code, stderr
    assert "Traceback" not in stderr
    prover.wait_for(lambda: not any(map(alive, processes)), seconds=2)
    assert list(temp.iterdir()) == []
    assert prover.archive_path().read_bytes() == good

    prover.compiles()
    prover.build()
    assert "kernels/msm.cu" in prover.compiles()
    assert "int msm[] = {1, 2};" in prover.archive_text()
    assert "int ntt[] = {1, 2};" in prover.archive_text()


def test_interrupted_first_build_leaves_no_archive(prover: Workspace) -> None:
    """C21"""
    run = prover.start(env=HANG)
    prover.wait_for(lambda: any(call["child"] for call in prover.nvcc_calls()))
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=10)
    assert not prover.archive_path().exists()
    prover.build()
    assert len(prover.archive_members()) == 3


def test_second_build_of_one_out_dir_waits_for_the_first(prover: Workspace) -> None:
    """C20: and a killed one is not waited for."""
    first = prover.start(env={"FAKE_NVCC_FAULT": "slow:0.5"})
    prover.wait_for(lambda: (prover.out / "cudabuild").exists())
    second = prover.start()
    assert first.wait(20) == 0
    assert second.wait(20) == 0
    first.communicate()
    second.communicate()
    assert len(prover.archive_members()) == 3
    prover.compiles()
    prover.build()
    assert prover.compiles() == []


def test_killed_build_is_not_waited_for(prover: Workspace) -> None:
    """C20"""
    run = prover.start(env=HANG)
    prover.wait_for(lambda: any(call["child"] for call in prover.nvcc_calls()))
    orphans = [pid for call in prover.nvcc_calls() if call["child"] for pid in (call["pid"], call["child"])]
    run.send_signal(signal.SIGKILL)
    run.communicate()
    started = time.monotonic()
    prover.build()
    assert time.monotonic() - started < 10
    assert len(prover.archive_members()) == 3
    for pid in orphans:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_ends_the_tool_that_is_asked_and_what_it_started(prover: Workspace, number: signal.Signals, code: int) -> None:
    """Not only compiles take long: a toolkit on a network drive may answer late."""
    pids = prover.root / "pids"
    nvcc = prover.root / "slow/nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text(f'#!/bin/sh\nsleep 60 &\necho $$ $! >{pids}.new; mv {pids}.new {pids}; wait\n')
    nvcc.chmod(0o755)
    run = prover.start(env={"NVCC": str(nvcc)})
    prover.wait_for(pids.exists)
    run.send_signal(number)
    _, stderr = run.communicate(timeout=10)
    assert run.returncode == code, stderr
    assert "Traceback" not in stderr
    prover.wait_for(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()), seconds=2)
