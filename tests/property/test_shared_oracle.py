"""This module walks through three checkouts that share one cache: whatever was edited, copied, wiped or damaged, each library is
that of a clean build without a cache, a second build has nothing to do, and a state that was built before compiles nothing.

CUDABUILD_ORACLE_STEPS and CUDABUILD_ORACLE_SEED say how far, and where.
"""

from __future__ import annotations

import copy
import os
import shutil
from pathlib import Path

import crate_model
import test_oracle
from crate_model import CrateModel
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from workspace import Changes, Report, Workspace

STEPS = test_oracle.STEPS * 3 // 10
DAMAGES = ("delete", "empty", "cut", "flip", "lock")
ROOM = ("entries", "readings", "probes", "digests")

Place = tuple[int, int]
"""Which checkout, and which of its two output folders."""
Branch = tuple[CrateModel, str, dict[str, int]]
"""Files and settings, what the link leads to, and the files' times."""


class SharedOracle(test_oracle.Oracle):
    def __init__(self) -> None:
        self.mode = "read-write"
        self.place: Place = (0, 0)
        self.seen: set[str] = set()
        """States that were built with the cache, which must be able to give all of their objects again."""
        self.strangers: set[tuple[Place, str]] = set()
        """Objects in output folders that the cache may not have."""
        self.branches: list[Branch] = []
        super().__init__()
        first, model = self.workspace, self.model
        self.cache = self.folder / "cache"
        self.models = [model, copy.deepcopy(model), copy.deepcopy(model)]
        self.checkouts = [first, self.checkout("second"), self.checkout("deeper/third/of/three")]
        self.enter(self.place)
        self.check("copies of the crate")

    def build(self, env: Changes | None = None, out: Path | None = None) -> Report:
        cache: Changes = {"CUDABUILD_CACHE": self.mode, "CUDABUILD_CACHE_DIR": str(self.folder / "cache")}
        return super().build({**cache, **(env or {})}, out)

    def clean_build(self) -> dict[str, bytes] | None:
        mode, self.mode = self.mode, "off"
        try:
            return super().clean_build()
        finally:
            self.mode = mode

    # What the cache owes

    def state(self) -> str:
        """All that decides a library, and where it is made if its objects may hold that."""
        now = self.model.settings
        bound = "-lineinfo" in now.flags or {"CPATH", "CPLUS_INCLUDE_PATH"} & {*now.environment}
        tools = [path.read_bytes() for path in sorted(self.workspace.toolkit.root.rglob("*")) if path.suffix in ("", ".h", ".bc")
                 and path.is_file() and path.stat().st_size < 10_000]  # fmt: skip
        link = os.readlink(self.workspace.path(crate_model.LINK))
        files = sorted((name, file.text()) for name, file in self.model.files.items())
        return repr((self.place if bound else "", now, link, files, tools))

    def judge_work(self, report: Report) -> None:
        if self.mode != "off" and self.state() in self.seen:
            assert report.compiled == [], f"this was built before, and compiles again: {report.units}"
        for source in (*report.compiled, *report.restored):
            self.strangers.discard((self.place, source))
            if self.mode != "read-write":
                self.strangers.add((self.place, source))
        if self.mode == "read-write" and report.exit_code == 0 and not any((self.place, kept) in self.strangers for kept in report.kept):
            self.seen.add(self.state())

    def owe_nothing(self) -> None:
        """The cache may have lost anything."""
        self.seen.clear()
        places = [(checkout, out) for checkout in range(3) for out in range(2)]
        self.strangers.update((place, source) for place in places for source in crate_model.SOURCES)

    # Steps: places

    def checkout(self, name: str) -> Workspace:
        other = copy.copy(self.workspace)
        other.crate, other.settings = self.folder / name, dict(self.workspace.settings)
        shutil.copytree(self.workspace.crate, other.crate, symlinks=True)
        return other

    def enter(self, place: Place) -> None:
        self.place = place
        checkout, out = place
        self.workspace, self.model = self.checkouts[checkout], self.models[checkout]
        self.workspace.out = self.folder / f"out-{checkout}-{out}"
        self.workspace.out.mkdir(exist_ok=True)

    @rule(checkout=st.integers(0, 2), out=st.integers(0, 1))
    def go_elsewhere(self, checkout: int, out: int) -> None:
        self.enter((checkout, out))
        self.check(f"go to output folder {out} of checkout {checkout}")

    @rule()
    def wipe_the_output(self) -> None:
        shutil.rmtree(self.workspace.out)
        self.check("wipe the output folder")

    @rule(to=st.integers(0, 2), keep_times=st.booleans(), out=st.integers(0, 1))
    def copy_the_crate(self, to: int, keep_times: bool, out: int) -> None:
        source, target = self.workspace, self.checkouts[to]
        if source is not target:
            shutil.rmtree(target.crate)
            shutil.copytree(source.crate, target.crate, symlinks=True, copy_function=shutil.copy2 if keep_times else shutil.copy)
            self.models[to], target.settings = copy.deepcopy(self.model), dict(source.settings)
            self.enter((to, out))
            self.check(f"copy the crate over checkout {to} {'with' if keep_times else 'without'} times, go there, to output {out}")

    @rule()
    def remember_a_branch(self) -> None:
        times = {name: self.workspace.path(name).stat().st_mtime_ns for name in self.model.files}
        self.branches.append((copy.deepcopy(self.model), os.readlink(self.workspace.path(crate_model.LINK)), times))

    @precondition(lambda self: self.branches)
    @rule(pick=test_oracle.picks, times=st.sampled_from(("old", "new", "ancient")))
    def switch_to_a_branch(self, pick: int, times: str) -> None:
        number = pick % len(self.branches)
        model, link, old = self.branches[number]
        for name in self.model.files.keys() - model.files.keys():
            self.workspace.remove(name)
        checkout = self.place[0]
        self.model = self.models[checkout] = copy.deepcopy(model)
        for name in model.files:
            self.put(name)
            if times != "new":
                when = old[name] if times == "old" else 1_000_000_000 * 10**9
                os.utime(self.workspace.path(name), ns=(when, when))
        self.workspace.symlink(crate_model.LINK, link)
        self.configure()
        self.check(f"switch to branch {number} with {times} times")

    # Steps: the cache

    @rule(mode=st.sampled_from(("off", "read-only", "read-write", "read-write")))
    def use_the_cache(self, mode: str) -> None:
        self.mode = mode
        self.check(f"--cache={mode}")

    @rule(pick=test_oracle.picks, room=st.sampled_from(ROOM), how=st.sampled_from(DAMAGES), at=st.integers(0, 1_000_000), wipe=st.booleans())
    def damage_the_cache(self, pick: int, room: str, how: str, at: int, wipe: bool) -> None:
        place = self.cache / "v1" / room
        files = sorted(path for path in (place, *place.rglob("*")) if path.is_file())
        path = files[pick % len(files)] if files else None
        if path is None:
            return
        damage(path, how, at)
        self.owe_nothing()
        if wipe:
            shutil.rmtree(self.workspace.out)
        self.check(f"{how} {path.relative_to(self.cache)} at {at}{', wipe the output folder' if wipe else ''}")

    @rule(room=st.sampled_from((*ROOM, "tmp", "locks", "")), wipe=st.booleans())
    def remove_a_room_of_the_cache(self, room: str, wipe: bool) -> None:
        place = self.cache / "v1" / room if room else self.cache
        if place.is_file():
            place.unlink()
        else:
            shutil.rmtree(place, ignore_errors=True)
        self.owe_nothing()
        if wipe:
            shutil.rmtree(self.workspace.out)
        self.check(f"remove {place.relative_to(self.folder)}{', wipe the output folder' if wipe else ''}")


def damage(path: Path, how: str, at: int) -> None:
    """`lock` takes away all rights; the superuser does not notice."""
    path.chmod(0o600)
    content = path.read_bytes()
    spot = at % max(1, len(content))
    if how == "delete":
        path.unlink()
    elif how == "lock":
        path.chmod(0)
    elif how == "flip" and content:
        path.write_bytes(content[:spot] + bytes([content[spot] ^ (1 << at % 8)]) + content[spot + 1 :])
    else:
        path.write_bytes(content[:spot] if how == "cut" else b"")


def test_checkouts_that_share_a_cache_build_as_without_one() -> None:
    test_oracle.walk(SharedOracle, STEPS)
