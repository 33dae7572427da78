"""`cudabuild cache` and `cudabuild cache-clean`, run as a user runs them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
import stored
from tool import Done
from workspace import Workspace

DAY = 86400


@pytest.fixture
def cache(prover: Workspace) -> Path:
    """The cache of three units, last used 30, 20 and 10 days ago."""
    cache = prover.use_cache()
    prover.build()
    for entry, days in zip(stored.entries(cache), (30, 20, 10), strict=True):
        used = time.time() - days * DAY
        os.utime(entry, (used, used))
    return cache


def run(prover: Workspace, *arguments: str, expect: int = 0, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
    done = prover.run(list(arguments), cwd or prover.crate, env or prover.environment())
    assert done.exit_code == expect, done
    assert "Traceback" not in done.stderr
    return done


def listed(done: Done) -> list[str]:
    """The entries that a cleaning named, in its order."""
    return [line.split()[-1] for line in done.stdout.splitlines() if "/v1/entries/" in line]


def size(entry: Path, cache: Path) -> int:
    return entry.stat().st_size + sum(path.stat().st_size for path in stored.files(cache, "readings") if path.name == entry.name)


@pytest.mark.parametrize(
    ("arguments", "gone"),
    [
        (["--all"], 3), (["--older-than", "15d"], 2), (["--older-than", "4w"], 1), (["--older-than", "1h"], 3),
        (["--older-than", "31d"], 0), ([], 0), (["--max-size", "1 GB"], 0), (["--max-size", "0kB"], 3),
        (["--max-size", "1 GB", "--older-than", "2w"], 2),
    ],
)  # fmt: skip
def test_dry_run_prints_the_list_of_what_the_run_then_removes(prover: Workspace, cache: Path, arguments: list[str], gone: int) -> None:
    """C05"""
    before = sorted(stored.entries(cache), key=lambda path: path.stat().st_mtime)
    total = sum(size(path, cache) for path in before)
    tree = stored.tree(cache)
    dry = run(prover, "cache-clean", *arguments, "--dry-run")
    assert stored.tree(cache) == tree
    done = run(prover, "cache-clean", *arguments)
    assert listed(dry) == listed(done) == [str(path) for path in before[:gone]]
    assert stored.entries(cache) == sorted(before[gone:])
    assert {path.name for path in stored.files(cache, "readings")} == {path.name for path in before[gone:]}
    assert f"would remove {gone} object" in dry.stdout and f"removed {gone} object" in done.stdout
    if gone == 3:
        assert f"{total / 1000:.1f} kB" in done.stdout


def test_max_size_keeps_the_newest_that_fit(prover: Workspace, cache: Path) -> None:
    newest = max(stored.entries(cache), key=lambda path: path.stat().st_mtime)
    run(prover, "cache-clean", "--max-size", f"{size(newest, cache) / 1000:.3f}kB")
    assert stored.entries(cache) == [newest]


def test_cleaned_cache_is_usable_and_its_objects_are_compiled_again(prover: Workspace, cache: Path) -> None:
    """C05: with another OUT_DIR, nothing is left to restore."""
    run(prover, "cache-clean", "--all")
    assert list(stored.tree(cache)).count("cudabuild-cache") == 1
    prover.compiles()
    assert len(prover.build(out=prover.root / "second").compiled) == 3
    assert len(prover.build(out=prover.root / "third").units) == 3
    assert len(prover.compiles()) == 3


@pytest.mark.parametrize("arguments", [["cache-clean"], ["cache-clean", "--all"], ["cache", "stats"], ["cache", "verify"]])
@pytest.mark.parametrize("folder", ["gone", "empty"])
def test_no_cache_is_an_empty_one(prover: Workspace, arguments: list[str], folder: str) -> None:
    cache = prover.use_cache()
    if folder == "empty":
        cache.mkdir()
    done = run(prover, *arguments)
    assert "empty" in done.stdout
    assert not cache.exists() or list(cache.iterdir()) == []


@pytest.mark.parametrize("arguments", [["cache-clean", "--all"], ["cache", "stats"], ["cache", "verify"]])
def test_foreign_folder_is_refused_and_left_alone(prover: Workspace, arguments: list[str]) -> None:
    """C05"""
    prover.use_cache(prover.root / "home")
    (prover.root / "home/v1/entries/ab").mkdir(parents=True)
    (prover.root / "home/v1/entries/ab/thesis.tex").write_text("dear")
    done = run(prover, *arguments, expect=2)
    assert "not taken for a cache" in done.stderr and "CUDABUILD_CACHE_DIR" in done.stderr
    assert (prover.root / "home/v1/entries/ab/thesis.tex").read_text() == "dear"
    assert not (prover.root / "home/cudabuild-cache").exists()


def test_file_in_the_caches_place_is_refused(prover: Workspace) -> None:
    prover.use_cache().write_text("a file")
    assert "cannot be used" in run(prover, "cache-clean", "--all", expect=2).stderr


def test_what_cannot_be_removed_is_named_and_fails(prover: Workspace, cache: Path) -> None:
    held = stored.entries(cache)[0]
    with stored.read_only(held.parent):
        done = run(prover, "cache-clean", "--all", expect=1)
    assert f"could not be removed: {held}" in done.stdout
    assert "removed 2 objects" in done.stdout
    assert stored.entries(cache) == [held]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--older-than", "7"], "write 30m, 12h, 7d or 4w"), (["--older-than", "-7d"], "expected one argument"),
        (["--max-size", "10"], "write 500MB or 10GB"), (["--max-size", "many GB"], "write 500MB or 10GB"),
    ],
)  # fmt: skip
def test_what_is_no_age_or_size_is_explained(prover: Workspace, cache: Path, arguments: list[str], words: str) -> None:
    before = stored.tree(cache)
    assert words in run(prover, "cache-clean", *arguments, expect=2).stderr
    assert stored.tree(cache) == before


def test_stats_count_objects_bytes_and_ages(prover: Workspace, cache: Path) -> None:
    total = sum(size(path, cache) for path in stored.entries(cache))
    words = run(prover, "cache", "stats").stdout
    assert f"{cache}: 3 objects, {total / 1000:.1f} kB" in words
    assert "oldest 30 days ago, newest 10 days ago" in words


def test_verify_finds_and_removes_what_is_damaged(prover: Workspace, cache: Path) -> None:
    assert "3 objects" in run(prover, "cache", "verify").stdout
    entry = stored.entries(cache)[1]
    data = bytearray(entry.read_bytes())
    data[-40] ^= 1
    entry.write_bytes(data)
    done = run(prover, "cache", "verify", expect=1)
    assert f"{entry} is damaged and was removed" in done.stdout and "1 damaged" in done.stdout
    assert entry not in stored.entries(cache)
    assert "2 objects" in run(prover, "cache", "verify").stdout


def test_verify_does_not_count_as_use(prover: Workspace, cache: Path) -> None:
    before = [path.stat().st_mtime for path in stored.entries(cache)]
    run(prover, "cache", "verify")
    assert [path.stat().st_mtime for path in stored.entries(cache)] == before


# Where the cache is


def path_of(prover: Workspace, cwd: Path | None = None, **env: str) -> str:
    base = {"PATH": prover.env["PATH"], "PYTHONPATH": prover.env["PYTHONPATH"], **env}
    return run(prover, "cache", "path", env=base, cwd=cwd).stdout.strip()


def test_path_is_where_a_build_keeps_its_objects(prover: Workspace) -> None:
    home = prover.root / "home"
    for settings, env, expected in [
        ({}, {"HOME": str(home)}, home / ".cache/cudabuild"),
        ({}, {"HOME": str(home), "XDG_CACHE_HOME": str(home / "xdg")}, home / "xdg/cudabuild"),
        ({}, {"HOME": str(home), "XDG_CACHE_HOME": "relative"}, home / ".cache/cudabuild"),
        ({"cache": {"dir": "../shared"}}, {"HOME": str(home)}, prover.root / "shared"),
        ({"cache": {"dir": "../shared"}}, {"CUDABUILD_CACHE_DIR": str(home / "named")}, home / "named"),
        ({"cache": {"dir": "${BASE}/shared"}}, {"HOME": str(home), "BASE": str(home / "base")}, home / "base/shared"),
    ]:
        prover.config(**{"cache": None, **settings})
        assert os.path.normpath(path_of(prover, **env)) == str(expected)
        assert os.path.normpath(path_of(prover, cwd=prover.crate / "kernels", **env)) == str(expected)
        prover.build(env={"CUDABUILD_CACHE": None, "HOME": None, **env})
        assert len(stored.entries(expected)) == 3, expected
        shutil.rmtree(expected)
        shutil.rmtree(prover.out)
        prover.out.mkdir()


def test_relative_folder_in_the_variable_starts_at_the_current_folder(prover: Workspace) -> None:
    """As every tool understands a path that its user typed."""
    for cwd in (prover.crate, prover.crate / "kernels"):
        env = {"CUDABUILD_CACHE": None, "CUDABUILD_CACHE_DIR": "near"}
        prover.build(env=env, cwd=cwd)
        assert len(stored.entries(cwd / "near")) == 3
        assert path_of(prover, cwd=cwd, CUDABUILD_CACHE_DIR="near") == str(cwd / "near")
        shutil.rmtree(prover.out)


def test_variable_that_is_not_set_is_told_as_a_build_tells_it(prover: Workspace) -> None:
    prover.config(cache={"dir": "${BASE}/shared"})
    done = run(prover, "cache", "path", expect=2)
    assert "BASE is not set" in done.stderr


def test_without_a_home_the_cure_is_told(prover: Workspace) -> None:
    env = {"PATH": prover.env["PATH"], "PYTHONPATH": prover.env["PYTHONPATH"]}
    assert "set CUDABUILD_CACHE_DIR" in run(prover, "cache", "path", env=env, expect=2).stderr


def test_clean_without_options_keeps_to_the_limit_of_the_crate(prover: Workspace, cache: Path) -> None:
    prover.config(cache={"size": "0.1 kB"})
    assert "removed 3 objects" in run(prover, "cache-clean").stdout
