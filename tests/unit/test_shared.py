"""The cache as builds meet it: what is taken from it, what is said again, and that damage costs a compile and one warning."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import stored
from workspace import Report, Workspace


@pytest.fixture
def cache(prover: Workspace) -> Path:
    return prover.use_cache()


def restored(report: Report) -> list[str]:
    return [source for source, unit in report.units.items() if unit["action"] == "restored"]


def elsewhere(prover: Workspace, number: int = 2, **options: object) -> Report:
    """A build into a folder that no build used."""
    return prover.build(out=prover.root / f"out{number}", **options)  # type: ignore[arg-type]


def same_library(prover: Workspace, number: int = 2) -> bool:
    return prover.archive_members() == prover.archive_members(prover.root / f"out{number}")


# Hits


def test_empty_out_dir_is_filled_without_any_compiler(prover: Workspace, cache: Path) -> None:
    prover.build()
    prover.forget_calls()
    report = elsewhere(prover)
    assert len(restored(report)) == 3 and report.data["restored"] == 3 and report.data["compiled"] == 0
    assert not prover.log.exists(), "nvcc was called"
    assert same_library(prover)


def test_library_is_removed_and_restored_five_times_with_the_same_entries(prover: Workspace, cache: Path) -> None:
    """C16"""
    prover.build()
    entries = stored.entries(cache)
    for _ in range(4):
        shutil.rmtree(prover.out)
        prover.build()
    assert stored.entries(cache) == entries
    assert len(prover.compiles()) == 3


def test_header_that_goes_back_hits(prover: Workspace, cache: Path) -> None:
    prover.build()
    first = prover.archive_members()
    prover.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    assert len(prover.build().compiled) == 2
    prover.edit("kernels/include/limbs.cuh", "LIMBS 2", "LIMBS 1")
    prover.forget_calls()
    report = prover.build()
    assert restored(report) == ["kernels/msm.cu", "kernels/ntt.cu"]
    assert report.reason("kernels/msm.cu") == "kernels/include/limbs.cuh changed"
    prover.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    assert len(restored(prover.build())) == 2
    assert prover.compiles() == []
    prover.edit("kernels/include/limbs.cuh", "LIMBS 2", "LIMBS 1")
    prover.build()
    assert prover.archive_members() == first


def test_dependencies_survive_a_hit(prover: Workspace, cache: Path) -> None:
    """C12: cargo gets the same lines, and an edit after it is seen."""
    before = prover.build_under_cargo()
    shutil.rmtree(prover.out)
    after = prover.build_under_cargo()
    assert len(restored(after)) == 3
    assert sorted(after.watched) == sorted(before.watched)
    prover.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    assert len(prover.build_under_cargo().compiled) == 2


def test_second_checkout_hits_and_watches_its_own_files(prover: Workspace, cache: Path, tmp_path: Path) -> None:
    """C12"""
    prover.build()
    (tmp_path / "second").mkdir()
    prover.forget_calls()
    other = Workspace(tmp_path / "second", "worktree", forked=True)
    shutil.copytree(prover.crate, other.crate, dirs_exist_ok=True)
    other.env, other.log = prover.env, prover.log
    report = other.build_under_cargo()
    assert len(restored(report)) == 3 and other.compiles() == []
    assert [path for path in report.watched if path.startswith(f"{prover.crate}/")] == []
    assert f"{other.crate}/kernels/include/limbs.cuh" in report.watched


def test_warnings_of_the_compiler_are_said_again(prover: Workspace, cache: Path) -> None:
    prover.write("kernels/hash.cu", "#warning slow hash\nint hash = 7;\n")
    first = prover.build()
    output = first.units["kernels/hash.cu"]["output"]
    assert "slow hash" in output and "slow hash" in first.stderr
    again = elsewhere(prover)
    assert again.units["kernels/hash.cu"]["action"] == "restored"
    assert again.units["kernels/hash.cu"]["output"] == output
    assert "slow hash" in again.stderr
    shutil.rmtree(prover.out)
    assert "slow hash" in prover.build_under_cargo().stderr


def test_changed_restored_object_is_replaced_by_the_right_one(prover: Workspace, cache: Path) -> None:
    """C17"""
    prover.build()
    first = prover.archive_members()
    elsewhere(prover)
    for path in (prover.root / "out2/cudabuild/obj").iterdir():
        with path.open("ab") as file:
            file.write(b"x")
    report = elsewhere(prover)
    assert report.reason("kernels/msm.cu") == "its object was altered"
    assert prover.archive_members(prover.root / "out2") == first
    assert [elsewhere(prover, 3).data["warnings"], prover.compiles()] == [[], ["kernels/hash.cu", "kernels/msm.cu", "kernels/ntt.cu"]]


# Misses


def test_failed_compile_is_never_stored(prover: Workspace, cache: Path) -> None:
    """C18"""
    prover.write("kernels/hash.cu", "#error broken\n")
    prover.build(expect=1)
    assert len(stored.entries(cache)) == 2
    assert elsewhere(prover, expect=1).failed == ["kernels/hash.cu"]


@pytest.mark.parametrize("fault", ["truncate", "empty-object", "no-object", "crash", "empty-depfile", "no-depfile"])
def test_bad_object_is_never_stored(prover: Workspace, cache: Path, fault: str) -> None:
    """C18"""
    prover.build(env={"FAKE_NVCC_FAULT": fault}, expect=1)
    assert stored.entries(cache) == [] and stored.files(cache, "readings") == []


def test_object_of_inputs_that_moved_is_never_stored(prover: Workspace, cache: Path) -> None:
    header = prover.path("kernels/include/limbs.cuh")
    prover.build(env={"FAKE_NVCC_FAULT": f"edit:{header}", "FAKE_NVCC_FAULT_SOURCE": "msm.cu"}, expect=4)
    sources = {path.read_bytes().partition(b'"source":"')[2].partition(b'"')[0] for path in stored.entries(cache)}
    assert b"@crate/kernels/msm.cu" not in sources


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def empty(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [half, flipped, empty])
@pytest.mark.parametrize("kind", ["entries", "readings", "probes", "digests"])
def test_damage_of_every_file_heals(prover: Workspace, cache: Path, kind: str, damage: Callable[[bytes], bytes]) -> None:
    """C18: a right library, one warning at most, and the next build finds all whole."""
    prover.build()
    files = [cache / "v1/digests"] if kind == "digests" else stored.files(cache, kind)
    assert files
    for path in files:
        path.write_bytes(damage(path.read_bytes()))
    prover.forget_calls()
    report = elsewhere(prover)
    assert same_library(prover)
    warnings = report.data["warnings"]
    assert len(warnings) == (kind == "entries"), warnings
    if warnings:
        assert "is damaged and was removed" in warnings[0]
    assert len(prover.compiles()) == (3 if kind in ("entries", "readings") else 0)
    healed = elsewhere(prover, 3)
    assert healed.data["warnings"] == [] and len(restored(healed)) == 3
    assert not prover.log.exists()
    assert same_library(prover, 3)


# Modes and limits


def test_cache_that_is_off_is_not_even_made(prover: Workspace, cache: Path) -> None:
    prover.build("--cache=off")
    assert not cache.exists()
    prover.build(env={"CUDABUILD_CACHE": "off"}, out=prover.root / "out3")
    prover.config(cache={"mode": "off"})
    prover.build(env={"CUDABUILD_CACHE": None}, out=prover.root / "out4")
    assert not cache.exists()
    assert len(prover.compiles()) == 9


def test_reader_takes_and_leaves_nothing(prover: Workspace, cache: Path) -> None:
    prover.build("--cache=read-only")
    assert not cache.exists()
    prover.build(out=prover.root / "out2")
    before = stored.tree(cache)
    prover.write("kernels/new.cu", "int one_more;\n")
    report = prover.build("--cache=read-only", out=prover.root / "out3")
    assert len(restored(report)) == 3 and report.compiled == ["kernels/new.cu"]
    assert report.data["warnings"] == []
    assert stored.tree(cache) == before


def test_cache_keeps_to_its_size_by_what_was_used_last(prover: Workspace, cache: Path) -> None:
    prover.build()
    one = max(path.stat().st_size for path in stored.entries(cache)) + 10_000
    shutil.rmtree(cache)
    prover.config(cache={"size": f"{3 * one / 1000:.0f} kB"})
    filler = "".join(f"// {number}\n" for number in range(10))
    for version in range(8):
        prover.write("kernels/hash.cu", f"int hash = {version};\n{filler}")
        report = elsewhere(prover, version + 10)
        assert report.data["warnings"] == []
        total = sum(path.stat().st_size for kind in ("entries", "readings") for path in stored.files(cache, kind))
        assert total <= 3 * one
    assert 1 <= len(stored.entries(cache)) < 11
    assert "kernels/hash.cu" in restored(elsewhere(prover, 99)), "the newest is kept"


def test_cache_too_small_for_anything_costs_no_build(prover: Workspace, cache: Path) -> None:
    prover.config(cache={"size": "0 kB"})
    assert elsewhere(prover).data["warnings"] == []
    assert stored.entries(cache) == []
    assert len(prover.archive_members(prover.root / "out2")) == 3


def test_build_with_nothing_to_do_imports_no_locks_and_no_compilers(prover: Workspace, cache: Path) -> None:
    prover.build()
    time.sleep(0.1)
    prover.build()  # what was too young for its stamp to be trusted is settled now
    hook = prover.root / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        "atexit.register(lambda: open(os.environ['MODULES'], 'w').write(' '.join(sys.modules)))\n"
    )
    done = prover.start(env={"PYTHONPATH": f"{hook}:{prover.env['PYTHONPATH']}", "MODULES": str(prover.root / "modules")})
    assert done.wait(20) == 0
    done.communicate()
    modules = set((prover.root / "modules").read_text().split())
    assert "cudabuild.cache.shared" in modules
    assert not modules & {"filelock", "subprocess", "ninja", "shutil", "tempfile", "cudabuild.housekeeping", "rich"}


def test_more_units_than_open_files_are_compiled(prover: Workspace, cache: Path) -> None:
    """A claim holds a file open; there may be more units than a process may have of them."""
    for number in range(44):
        prover.write(f"kernels/{number}.c", f"int unit{number};\n")
    prover.config(sources=["kernels/*.c"])
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
    try:
        report = prover.build()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(report.compiled) == 44
    assert os.path.isdir(cache)
