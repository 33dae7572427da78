"""Whatever is wrong with the cache: one warning, and the right library."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import stored
from conftest import build_with_faults, clean_library
from workspace import Changes, Report, Workspace


def check(crate: Workspace, report: Report, words: str) -> None:
    assert crate.archive_members() == clean_library(crate)
    warnings = report.data["warnings"]
    assert len(warnings) == 1 and words in warnings[0], warnings
    assert "Traceback" not in report.stderr


def edit(crate: Workspace) -> None:
    crate.edit("kernels/include/field.cuh", "FIELD 1", "FIELD 2")


def test_cache_folder_that_is_a_file(crate: Workspace, cache: Path) -> None:
    cache.write_text("a file")
    check(crate, crate.build(), "Not a directory")
    assert cache.read_text() == "a file"


def test_cache_folder_below_a_file(crate: Workspace) -> None:
    crate.use_cache(crate.path("Cargo.toml") / "cache")
    check(crate, crate.build(), "Not a directory")


def test_cache_folder_that_is_not_ours(crate: Workspace, cache: Path) -> None:
    cache.mkdir()
    (cache / "thesis.tex").write_text("dear")
    check(crate, crate.build(), "not taken for a cache")
    assert stored.tree(cache) == {"thesis.tex": b"dear"}


def test_cache_folder_is_a_link_to_nothing(crate: Workspace, cache: Path) -> None:
    cache.symlink_to("gone/cache")
    check(crate, crate.build(), str(cache))


@pytest.mark.parametrize("kind", ["tmp", "locks", "entries", "readings", "probes"])
def test_file_in_the_place_of_a_folder_of_the_cache(crate: Workspace, cache: Path, kind: str) -> None:
    crate.build()
    shutil.rmtree(cache / "v1" / kind)
    (cache / "v1" / kind).write_text("a file")
    if kind == "probes":
        crate.config(define=["OTHER"])
    edit(crate)
    check(crate, crate.build(), "Not a directory")


def test_folder_in_the_place_of_a_file_of_the_cache(crate: Workspace, cache: Path) -> None:
    crate.build()
    for path in (*stored.entries(cache), *stored.files(cache, "readings")):
        path.unlink()
        path.mkdir()
    shutil.rmtree(crate.out)
    check(crate, crate.build(), "Is a directory")


def test_cache_that_cannot_be_written(crate: Workspace, cache: Path) -> None:
    crate.build()
    edit(crate)
    before = stored.tree(cache)
    with stored.read_only(cache):
        check(crate, crate.build(), "cannot be written")
        shutil.rmtree(crate.out)
        crate.edit("kernels/include/field.cuh", "FIELD 2", "FIELD 1")
        report = crate.build()
        assert (len(report.restored), report.data["warnings"]) == (2, []), "what is there is used"
    assert stored.tree(cache) == before


def test_cache_whose_parent_cannot_be_written(crate: Workspace) -> None:
    (crate.root / "closed").mkdir()
    crate.use_cache(crate.root / "closed/cache")
    with stored.read_only(crate.root / "closed"):
        check(crate, crate.build(), "closed/cache")


def test_without_a_home(crate: Workspace) -> None:
    check(crate, crate.build(env={"CUDABUILD_CACHE": None, "HOME": None}), "HOME is not set")


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EROFS", "EACCES", "ESTALE", "EDQUOT"])
def test_every_change_to_the_cache_fails(crate: Workspace, cache: Path, error: str) -> None:
    crate.build()
    edit(crate)
    check(crate, build_with_faults(crate, at="all", how=error, under=cache), os.strerror(getattr(errno, error)))


@pytest.mark.parametrize("error", ["EPERM", "EXDEV", "ENOSYS"])
def test_file_system_without_rename_over(crate: Workspace, cache: Path, error: str) -> None:
    check(crate, build_with_faults(crate, at="all", how=error, under=cache, kind="rename"), "cannot be written")
    assert stored.files(cache, "tmp") == []


@pytest.mark.parametrize("error", ["ENOLCK", "ENOSYS", "EOPNOTSUPP", "EINVAL", "NotImplementedError"])
def test_file_system_without_locks(crate: Workspace, cache: Path, error: str) -> None:
    """Nor does it cost what is stored."""
    check(crate, build_with_faults(crate, at="all", how=error, kind="flock"), "no file can be locked in")
    assert len(stored.entries(cache)) == 2


@pytest.fixture
def small_disk(crate: Workspace) -> Iterator[Path]:
    folder = crate.root / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_disk_that_is_full(crate: Workspace, small_disk: Path) -> None:
    cache = crate.use_cache(small_disk / "cache")
    crate.write("kernels/large.cu", "".join(f"int number{number};\n" for number in range(3000)))
    check(crate, crate.build(), "No space left on device")
    assert stored.files(cache, "tmp") == []
    crate.remove("kernels/large.cu")
    crate.build()


def test_cache_removed_while_a_build_compiles(crate: Workspace, cache: Path) -> None:
    crate.build()
    edit(crate)
    run = crate.start(env={"FAKE_NVCC_FAULT": "slow:1"})
    crate.wait_for(lambda: list((crate.out / "cudabuild").glob("run-*/*/*/*")))
    shutil.rmtree(cache)
    _, stderr = run.communicate(timeout=30)
    assert run.returncode == 0, stderr
    assert crate.archive_members() == clean_library(crate)
    crate.forget_calls()
    report = crate.build(out=crate.root / "second")
    assert report.data["warnings"] == [] and len(report.restored) == 2, "it was made again, whole"


def test_cache_removed_over_and_over(crate: Workspace, cache: Path) -> None:
    """At worst a folder is left without its marker, which says so until somebody removes it."""
    stop = threading.Event()

    def remove() -> None:
        while not stop.wait(0.01):
            shutil.rmtree(cache, ignore_errors=True)

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        for number in range(4):
            crate.write("kernels/msm.cu", f"int msm = {number};\n")
            report = crate.build()
            assert len(report.data["warnings"]) <= 1 and "Traceback" not in report.stderr
            assert f"int msm = {number};" in crate.archive_text()
    finally:
        stop.set()
        remover.join()
    assert crate.archive_members() == clean_library(crate)


def test_trouble_is_told_to_cargo_too(crate: Workspace, cache: Path) -> None:
    cache.write_text("a file")
    report = crate.build_under_cargo()
    assert len([text for text in report.values("warning") if "cache" in text and "Not a directory" in text]) == 1


NO_HOME: Changes = {"CUDABUILD_CACHE": None, "HOME": None}


def test_cache_that_is_off_needs_no_home(crate: Workspace) -> None:
    assert crate.build("--cache=off", env=NO_HOME).data["warnings"] == []
