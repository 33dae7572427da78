"""Killed at any moment, a build leaves nothing that a later one takes for good, and nothing that a later one waits for."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import stored
from conftest import clean_library
from workspace import Workspace


def kill_and_build(crate: Workspace, cache: Path, rounds: int) -> None:
    moment = random.Random(rounds)
    crate.build()
    started = time.monotonic()
    crate.build(out=crate.root / "timed")
    crate.start().communicate()
    whole = time.monotonic() - started
    ended = 0
    for number in range(2, rounds + 2):
        crate.write("kernels/include/field.cuh", f"#pragma once\n#define FIELD {number}\n")
        if number % 5 == 0:
            shutil.rmtree(crate.out)
            crate.out.mkdir()
        run = crate.start()
        time.sleep(moment.uniform(0, 1.2 * whole))
        ended += run.poll() is not None
        run.kill()
        run.communicate()
        report = crate.build()
        assert report.data["warnings"] == [], number
        text = crate.archive_text()
        assert all(f"int {kernel}[] = {{{number}}};" in text for kernel in ("msm", "ntt")), number
    assert ended < rounds, "none was killed"
    assert crate.archive_members() == clean_library(crate)
    crate.forget_calls()
    crate.build(out=crate.root / "last")
    assert crate.compiles() == []
    assert crate.run(["cache", "verify"], crate.crate, crate.env).exit_code == 0
    assert len(list((crate.out / "cudabuild").glob("run-*"))) == 1
    assert [path for path in stored.tree(crate.out) if path.endswith(".tmp")] == []


def test_killed_at_twenty_moments(crate: Workspace, cache: Path) -> None:
    """C18"""
    kill_and_build(crate, cache, 20)


@pytest.mark.slow
def test_killed_at_two_hundred_moments(crate: Workspace, cache: Path) -> None:
    """C18"""
    kill_and_build(crate, cache, 200)


def test_claim_of_a_killed_build_is_not_waited_for(crate: Workspace, cache: Path) -> None:
    """C20: its compilers may live on, and hold no lock."""
    run = crate.start(env={"FAKE_NVCC_FAULT": "hang"})
    crate.wait_for(lambda: len([call for call in crate.nvcc_calls() if call["child"]]) == 2)
    assert len([path for path in stored.files(cache, "locks") if len(path.name) == 64]) == 2
    orphans = [pid for call in crate.nvcc_calls() for pid in (call["pid"], call["child"])]
    run.kill()
    run.communicate()
    try:
        started = time.monotonic()
        report = crate.build(out=crate.root / "second")
        assert time.monotonic() - started < 10
        assert len(report.compiled) == 2 and report.data["warnings"] == []
    finally:
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_stray_lock_files_are_not_waited_for(crate: Workspace, cache: Path) -> None:
    """C20: whatever they say of whom they belong to."""
    crate.build()
    locks = [*stored.files(cache, "locks"), crate.out / "cudabuild/lock"]
    assert len(locks) == 4
    shutil.rmtree(cache / "v1/entries")
    for lock in locks:
        lock.write_text("1\nanother-host\n")
    crate.write("kernels/include/field.cuh", "#pragma once\n#define FIELD 2\n")
    started = time.monotonic()
    report = crate.build()
    assert time.monotonic() - started < 10
    assert len(report.compiled) == 2 and report.data["warnings"] == []


def test_live_build_is_waited_for_by_name_and_its_work_taken(crate: Workspace, cache: Path, start: Any) -> None:
    """C20"""
    first = crate.start(env={"FAKE_NVCC_FAULT": "slow:2"})
    crate.wait_for(lambda: len([path for path in stored.files(cache, "locks") if len(path.name) == 64]) == 2)
    second = start(crate.arguments(out=crate.root / "second"), crate.crate, crate.env)
    _, stderr = second.communicate(timeout=30)
    assert first.poll() is not None or first.wait(5) == 0
    first.communicate()
    assert second.returncode == 0, stderr
    assert "waiting for another build that compiles kernels/msm.cu" in stderr
    assert crate.compiles() == ["kernels/msm.cu", "kernels/ntt.cu"]
    assert crate.archive_members() == crate.archive_members(crate.root / "second")


def test_failure_of_the_build_that_is_waited_for_is_nobody_elses(crate: Workspace, cache: Path, start: Any) -> None:
    first = crate.start(env={"FAKE_NVCC_FAULT": "hang"})
    crate.wait_for(lambda: len([call for call in crate.nvcc_calls() if call["child"]]) == 2)
    second = start(crate.arguments(out=crate.root / "second"), crate.crate, crate.env)
    time.sleep(1)
    assert second.poll() is None
    first.send_signal(signal.SIGTERM)
    _, stderr = second.communicate(timeout=20)
    first.communicate()
    assert first.returncode == 143
    assert second.returncode == 0, stderr
    assert len(crate.archive_members(crate.root / "second")) == 2
