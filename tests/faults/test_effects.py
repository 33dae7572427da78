"""At every effect of a build, one at a time, the disk fails or the process dies; the next build is right and wastes nothing."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
import stored
from conftest import build_with_faults, clean_library
from workspace import Workspace

SAMPLE = 17
HOWS = ("ENOSPC", "die")
SCENES = ("first", "rebuild", "restore")

Library = dict[str, bytes]


def prepare(crate: Workspace, scene: str) -> None:
    """Put the crate, its OUT_DIR and the cache back to where the scene begins."""
    cache = Path(str(crate.env["CUDABUILD_CACHE_DIR"]))
    for folder in (cache, crate.out, crate.root / "other", crate.root / "another"):
        shutil.rmtree(folder, ignore_errors=True)
    crate.out.mkdir()
    if scene != "first":
        crate.write("kernels/include/field.cuh", "#pragma once\n#define FIELD 1\n")
        crate.build()
    if scene == "restore":
        shutil.rmtree(crate.out)
        crate.out.mkdir()
    if scene == "rebuild":
        crate.write("kernels/include/field.cuh", "#pragma once\n#define FIELD 2\n")
    crate.forget_calls()


def effects(crate: Workspace, scene: str) -> list[str]:
    """What one build does, in order."""
    prepare(crate, scene)
    log = crate.root / "effects"
    log.unlink(missing_ok=True)
    build_with_faults(crate, log=log)
    return log.read_text().splitlines()


def check_one(crate: Workspace, cache: Path, scene: str, how: str, number: int, library: Library) -> None:
    prepare(crate, scene)
    report = build_with_faults(crate, at=number, how=how, expect=(0, 1, 2, 3, 86))
    assert "Traceback" not in report.stderr, report.stderr
    if report.exit_code == 0:
        assert crate.archive_members() == library
        assert len(report.data["warnings"]) <= 1
    if how == "die":
        assert report.exit_code == 86
    crate.forget_calls()

    report = crate.build()
    assert report.data["warnings"] == []
    assert crate.archive_members() == library
    again = crate.compiles()
    if how != "die" and report.data["kept"] == 2:
        assert again == []

    for other in ("other", "another"):
        crate.build(out=crate.root / other)
        assert crate.archive_members(crate.root / other) == library
        # What could not be stored while the disk failed is stored now.
        assert crate.compiles() == [] or (how != "die" and other == "other" and again == []), "all is in the cache"
    check_no_leftovers(crate, cache)


def check_no_leftovers(crate: Workspace, cache: Path) -> None:
    """None in OUT_DIR; in the cache none for longer than an hour, when a file there may be one that is being written."""
    assert [path for path in stored.tree(crate.out) if path.endswith(".tmp")] == []
    # The last compile's, and one that could not be removed while the disk failed; the next compile removes both.
    assert len(list((crate.out / "cudabuild").glob("run-*"))) <= 2
    assert len(stored.tree(crate.out / "cudabuild/obj")) == 2
    for path in stored.files(cache, "tmp"):
        os.utime(path, (time.time() - 7200,) * 2)
    assert crate.run(["cache-clean"], crate.crate, crate.env).exit_code == 0
    assert stored.files(cache, "tmp") == []
    assert {path.name for path in cache.iterdir()} == {"cudabuild-cache", "CACHEDIR.TAG", "v1"}


@pytest.fixture
def library(crate: Workspace, cache: Path, request: pytest.FixtureRequest) -> Library:
    scene = request.node.callspec.params["scene"]
    prepare(crate, scene)
    return clean_library(crate)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("scene", SCENES)
def test_failure_or_death_at_one_effect_in_some(crate: Workspace, cache: Path, library: Library, scene: str, how: str) -> None:
    count = len(effects(crate, scene))
    first = 3 + SCENES.index(scene) * 5 + HOWS.index(how) * 9
    for number in range(first, count + 1, SAMPLE):
        check_one(crate, cache, scene, how, number, library)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("scene", SCENES)
def test_failure_or_death_at_every_effect(crate: Workspace, cache: Path, library: Library, scene: str, how: str) -> None:
    for number in range(1, len(effects(crate, scene)) + 1):
        check_one(crate, cache, scene, how, number, library)


@pytest.mark.parametrize("scene", SCENES)
def test_effects_are_seen(crate: Workspace, cache: Path, scene: str) -> None:
    """The sweep would pass if its hook saw nothing."""
    seen = effects(crate, scene)
    kinds = {line.partition(" ")[0] for line in seen}
    assert {"open", "rename", "mkdir"} <= kinds
    assert any(f" {cache}/v1/" in line for line in seen)
    assert any("record.json" in line for line in seen)
