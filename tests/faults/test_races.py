"""Many builds with one cache, and a cleaner beside them."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import stored
from workspace import Workspace

CRATES = 4
BUILDS = 8


@pytest.fixture
def worktrees(crate: Workspace, cache: Path) -> list[Workspace]:
    """Crates at different places that use the same kernels."""
    crate.write("kernels/hash.cu", "int hash = 7;\n")
    found = [crate]
    for number in range(1, CRATES):
        root = crate.root / f"place{number}"
        root.mkdir()
        other = Workspace(root, f"worktree{number}", forked=True)
        shutil.copytree(crate.crate, other.crate, dirs_exist_ok=True)
        other.env = crate.env
        found.append(other)
    return found


@contextmanager
def cleaner(crate: Workspace, active: bool) -> Iterator[None]:
    """`cache-clean --all`, over and over."""
    stop, mistakes = threading.Event(), []

    def clean() -> None:
        while not stop.wait(0.02):
            done = crate.run(["cache-clean", "--all"], crate.crate, crate.env)
            if done.exit_code or "Traceback" in done.stderr:
                mistakes.append(done)

    crate.forked = False  # no fork beside threads
    thread = threading.Thread(target=clean)
    if active:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if active:
            thread.join()
        crate.forked = True
    assert mistakes == []


def race(worktrees: list[Workspace], start: Any, value: int, *, cleaning: bool) -> None:
    """Every crate twice, all at once, into folders that no build used and with an empty cache."""
    crate = worktrees[0]
    shutil.rmtree(Path(str(crate.env["CUDABUILD_CACHE_DIR"])), ignore_errors=True)
    crate.forget_calls()
    for place in worktrees:
        place.write("kernels/include/field.cuh", f"#pragma once\n#define FIELD {value}\n")
    outs = [(place, place.root / f"out-{value}-{copy}") for place in worktrees for copy in range(BUILDS // CRATES)]
    with cleaner(crate, cleaning):
        builds = [start(place.arguments(out=out), place.crate, place.env) for place, out in outs]
        said = [build.communicate(timeout=60) for build in builds]
    libraries = []
    for build, (_, stderr), (place, out) in zip(builds, said, outs, strict=True):
        assert build.returncode == 0, stderr
        assert "Traceback" not in stderr
        libraries.append(place.archive_members(out))
        assert b"int msm[] = {%d};" % value in b"".join(libraries[-1].values())
    assert all(library == libraries[0] for library in libraries)
    if not cleaning:
        assert crate.compiles() == ["kernels/hash.cu", "kernels/msm.cu", "kernels/ntt.cu"]
        assert all('"warnings": []' in stdout for stdout, _ in said)
    assert stored.files(Path(str(crate.env["CUDABUILD_CACHE_DIR"])), "tmp") == []


@pytest.mark.parametrize("cleaning", [False, True], ids=["alone", "with a cleaner"])
def test_eight_builds_at_once(worktrees: list[Workspace], start: Any, cleaning: bool) -> None:
    """C19: no exception, the right library each, and the same work done once in all."""
    for value in range(3):
        race(worktrees, start, value, cleaning=cleaning)


@pytest.mark.slow
@pytest.mark.parametrize("cleaning", [False, True], ids=["alone", "with a cleaner"])
def test_eight_builds_at_once_ten_times(worktrees: list[Workspace], start: Any, cleaning: bool) -> None:
    """C19"""
    for value in range(10):
        race(worktrees, start, value, cleaning=cleaning)


def test_size_limit_is_kept_by_many_at_once(worktrees: list[Workspace], cache: Path, start: Any) -> None:
    """Those that remove find files gone that others removed."""
    for place in worktrees:
        place.config(cache={"size": "6 kB"})
    for value in range(2):
        for number, place in enumerate(worktrees):
            place.write("kernels/hash.cu", f"int hash{number} = {value};\n")
        builds = [start(place.arguments(out=place.root / f"o{value}"), place.crate, place.env) for place in worktrees]
        for build in builds:
            stdout, stderr = build.communicate(timeout=60)
            assert build.returncode == 0, stderr
            assert '"warnings": []' in stdout
    assert sum(path.stat().st_size for path in stored.entries(cache)) <= 6000
    assert os.path.isfile(cache / "cudabuild-cache")
