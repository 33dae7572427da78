"""This module checks the one promise: after any change, an incremental build gives what a clean build gives, and then nothing is
left to do.

What a clean build gives is computed in this process, with the fake nvcc's own preprocessor and the command line that a real clean
build used for the same settings; every so often a real clean build in a fresh folder is compared as well. CUDABUILD_ORACLE_STEPS
says how many steps to take, CUDABUILD_ORACLE_SEED which scripts to try.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import archive
import crate_model
import hypothesis
from crate_model import CrateModel, File
from fake_nvcc import expected_object
from hypothesis import HealthCheck, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from workspace import Changes, Report, Workspace

STEPS = int(os.environ.get("CUDABUILD_ORACLE_STEPS", "2000"))
STEPS_OF_A_SCRIPT = 25
CLEAN_BUILD_EVERY = 15

VARIABLES = {"NVCC_APPEND_FLAGS": "-DFEATURE=7", "NVCC_PREPEND_FLAGS": "-DFEATURE=8", "PTXAS_FLAGS": "-v"}

steps_done = 0
picks = st.integers(0, 1_000_000)
"""Chooses among what is there at that moment: the n-th, counted round and round."""


class Oracle(RuleBasedStateMachine):
    templates: ClassVar[dict[crate_model.Settings, list[str]]] = {}
    seeds: ClassVar[dict[str, str]] = {}
    """Each source's own --frandom-seed, the one argument besides the paths that differs between sources."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="oracle-"))
        self.workspace = Workspace(self.folder, forked=True)
        self.model = CrateModel.initial()
        self.script: list[str] = []
        self.counter = 0
        for name in self.model.files:
            self.put(name)
        twin_time = 1_700_000_000
        for twin in crate_model.TWINS:
            self.workspace.set_mtime(twin, twin_time)
        self.workspace.symlink(crate_model.LINK, f"../../{crate_model.TARGETS[0]}")
        self.configure()
        self.check("the first build")

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # Applying the model

    def number(self) -> int:
        self.counter += 1
        return self.counter

    def put(self, name: str) -> None:
        self.workspace.write(name, self.model.files[name].text())

    def configure(self) -> None:
        now = self.model.settings
        self.workspace.config(
            include=list(now.include), system_include=list(now.system), define=list(now.define), arch=list(now.arch), flags=list(now.flags)
        )

    def environment(self) -> Changes:
        folder = str(self.workspace.path(crate_model.OUTSIDE))
        return {name: VARIABLES.get(name, folder) for name in self.model.settings.environment}

    def change(self, name: str, file: File) -> None:
        self.model.files[name] = file
        self.put(name)

    def file(self, pick: int) -> str:
        names = [*self.model.files]
        return names[pick % len(names)]

    # Judging

    def build(self, env: Changes | None = None, out: Path | None = None) -> Report:
        return self.workspace.build(env={**self.environment(), **(env or {})}, expect=(0, 1), out=out)

    def command(self, source: str) -> list[str]:
        """The arguments that a clean build gives to nvcc for this source under today's settings."""
        if self.model.settings not in self.templates or source not in self.seeds:
            self.workspace.forget_calls()
            self.clean = self.clean_build()
            for call in self.workspace.nvcc_calls():
                argv = call["argv"]
                self.seeds[call["source"]] = argv[argv.index("--frandom-seed") + 1]
                places = {call["source"]: "SOURCE", self.seeds[call["source"]]: "SEED"}
                self.templates[self.model.settings] = [places.get(word, word) for word in argv]
        places = {"SOURCE": source, "SEED": self.seeds[source]}
        return [places.get(word, word) for word in self.templates[self.model.settings]]

    def clean_build(self) -> dict[str, bytes] | None:
        """The members of a real clean build's archive; None when it fails."""
        out = self.folder / "clean"
        out.mkdir()
        report = self.build(out=out)
        made = self.workspace.archive_members(out) if report.exit_code == 0 else None
        shutil.rmtree(out)
        return made

    def expected(self) -> dict[str, bytes | None]:
        """Each source's object, or None where the compiler will refuse it."""
        toolkit, crate = self.workspace.toolkit, str(self.workspace.crate)
        env = self.workspace.environment(self.environment())
        objects = {}
        for source in self.model.sources():
            argv = self.command(source)
            objects[source] = expected_object(str(toolkit.nvcc), toolkit.version, toolkit.archs, argv, crate, env)[1]
        return objects

    def check(self, step: str) -> None:
        global steps_done
        self.script.append(step)
        steps_done += 1
        try:
            self.judge()
        except AssertionError as error:
            script = "\n".join(f"  {number}. {text}" for number, text in enumerate(self.script))
            raise AssertionError(f"{error}\n\nafter these steps:\n{script}") from None

    def judge(self) -> None:
        self.clean: dict[str, bytes] | None = None
        expected = self.expected()
        refused = sorted(source for source, data in expected.items() if data is None)
        report = self.build()
        assert (report.exit_code != 0) == bool(refused), f"the compiler refuses {refused}, the build says: {report.stderr}"
        assert report.failed == refused
        self.judge_work(report)
        self.workspace.forget_calls()
        again = self.build()
        compiled_again = [call["source"] for call in self.workspace.nvcc_calls()]
        assert sorted(compiled_again) == refused, f"the second build compiled {compiled_again}: {again.units}"
        assert again.data["restored"] == 0, f"the second build restored: {again.units}"
        if refused:
            assert again.failed == refused
            return
        path = self.workspace.archive_path()
        members = archive.members(path.read_bytes())
        wanted = {data: source for source, data in expected.items() if data is not None}
        for name, data in members:
            assert data in wanted, f"member {name} is not what a clean build makes: {_difference(data, expected)}"
        assert sorted(data for _, data in members) == sorted(wanted), "the archive has not exactly one object for each source"
        if len(self.script) % CLEAN_BUILD_EVERY == 0:
            self.clean = self.clean_build()
        if self.clean is not None:
            assert self.clean == dict(members), "a clean build gives another archive"

    def judge_work(self, report: Report) -> None:
        """Whether the first build after a step did more than it had to."""

    # Steps: files

    @rule(pick=picks, line=st.sampled_from(crate_model.PLAIN + crate_model.CONDITIONAL))
    def add_a_line(self, pick: int, line: str) -> None:
        name = self.file(pick)
        text = line.format(self.model.files[name].word, n=self.number())
        self.change(name, self.model.files[name].with_line(text))
        self.check(f"add {text!r} to {name}")

    @rule(pick=picks, line=st.sampled_from(crate_model.INCLUDES), header=picks)
    def add_an_include(self, pick: int, line: str, header: int) -> None:
        names = [name for name in self.model.files if self.model.includable(name)]
        name = names[pick % len(names)]
        choices = self.model.includable(name)
        text = line.format(choices[header % len(choices)], n=self.number())
        self.change(name, self.model.files[name].with_line(text))
        self.check(f"add {text!r} to {name}")

    @rule(pick=picks, index=picks)
    def drop_a_line(self, pick: int, index: int) -> None:
        names = [name for name, file in self.model.files.items() if file.lines]
        name = names[pick % len(names)] if names else ""
        if name:
            lines = self.model.files[name].lines
            self.change(name, self.model.files[name].without_line(index % len(lines)))
            self.check(f"drop {lines[index % len(lines)]!r} from {name}")

    @rule(pick=picks, value=st.integers(100, 999), restore=st.booleans())
    def change_a_value(self, pick: int, value: int, restore: bool) -> None:
        name = self.file(pick)
        path = self.workspace.path(name)
        stat = path.stat()
        self.change(name, replace(self.model.files[name], value=value))
        if restore:
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self.check(f"write value {value} into {name}{', restoring the old mtime' if restore else ''}")

    @rule(pick=picks)
    def touch(self, pick: int) -> None:
        name = self.file(pick)
        self.workspace.touch(name)
        self.check(f"touch {name}")

    @rule(pick=picks, folder=st.sampled_from((*crate_model.FOLDERS, crate_model.OUTSIDE)), header=st.sampled_from(crate_model.HEADER_NAMES))
    def add_or_remove_a_header(self, pick: int, folder: str, header: str) -> None:
        name = f"{folder}/{header}"
        if name in self.model.files:
            del self.model.files[name]
            self.workspace.remove(name)
            self.check(f"remove {name}")
        else:
            self.change(name, File(f"{header.removesuffix('.cuh')}_{folder.replace('/', '_')}", value=100 + pick % 900))
            self.check(f"add {name}")

    @rule(source=st.sampled_from(crate_model.SOURCES))
    def add_or_remove_a_source(self, source: str) -> None:
        if source not in self.model.files:
            self.change(source, File(f"source_{source[8]}").with_line('#include "h1.cuh"'))
            self.check(f"add {source}")
        elif len(self.model.sources()) > 1:
            del self.model.files[source]
            self.workspace.remove(source)
            self.check(f"remove {source}")

    @rule(pick=picks, to=st.sampled_from(crate_model.SOURCES))
    def rename_a_source(self, pick: int, to: str) -> None:
        names = self.model.sources()
        name = names[pick % len(names)]
        if to not in self.model.files:
            self.model.files[to] = self.model.files.pop(name)
            self.workspace.rename(name, to)
            self.check(f"rename {name} to {to}")

    @rule(pick=picks, folder=st.sampled_from(crate_model.FOLDERS))
    def move_a_header(self, pick: int, folder: str) -> None:
        names = [name for name in self.model.headers() if name.rpartition("/")[2] in crate_model.HEADER_NAMES]
        name = names[pick % len(names)] if names else ""
        to = f"{folder}/{name.rpartition('/')[2]}"
        if name and to not in self.model.files:
            self.model.files[to] = self.model.files.pop(name)
            self.workspace.rename(name, to)
            self.check(f"move {name} to {to}")

    @rule(to=st.sampled_from(crate_model.TARGETS))
    def point_the_link(self, to: str) -> None:
        self.workspace.symlink(crate_model.LINK, f"../../{to}")
        self.check(f"point {crate_model.LINK} to {to}")

    @rule(mistake=st.sampled_from(crate_model.MISTAKES), pick=picks)
    def break_a_file(self, mistake: str, pick: int) -> None:
        name = self.file(pick)
        self.change(name, replace(self.model.files[name], mistake=mistake))
        self.check(f"break {name} with {mistake!r}")

    @precondition(lambda self: any(file.mistake for file in self.model.files.values()))
    @rule()
    def mend_all_files(self) -> None:
        for name, file in self.model.files.items():
            if file.mistake:
                self.change(name, replace(file, mistake=""))
        self.check("mend all files")

    # Steps: settings, environment, tools

    def set(self, **changes: Any) -> None:
        self.model.settings = replace(self.model.settings, **changes)
        self.configure()
        self.check(f"set {changes}")

    @rule(define=st.sampled_from(((), ("FEATURE",), ("FEATURE=2",), ("FEATURE=2", "FEATURE=3"))))
    def set_defines(self, define: tuple[str, ...]) -> None:
        self.set(define=define)

    @rule(arch=st.sampled_from((("80",), ("90",), ("80", "90"))))
    def set_architectures(self, arch: tuple[str, ...]) -> None:
        self.set(arch=arch)

    @rule(include=st.sampled_from((("inc/one", "inc/two", "inc"), ("inc/two", "inc/one", "inc"), ("inc", "inc/three", "inc/one"))))
    def set_include_folders(self, include: tuple[str, ...]) -> None:
        self.set(include=include)

    @rule(flags=st.sampled_from(((), ("-lineinfo",), ("--use_fast_math",))))
    def set_flags(self, flags: tuple[str, ...]) -> None:
        self.set(flags=flags)

    @rule(name=st.sampled_from((*VARIABLES, "CPATH", "CPLUS_INCLUDE_PATH")))
    def set_or_unset_a_variable(self, name: str) -> None:
        now = set(self.model.settings.environment) ^ {name}
        self.model.settings = replace(self.model.settings, environment=tuple(sorted(now)))
        self.check(f"environment {self.environment()}")

    @rule(tool=st.sampled_from(("bin/ptxas", "nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc", "include/crt/host_config.h")))
    def swap_a_tool(self, tool: str) -> None:
        path = self.workspace.toolkit.root / tool
        stat = path.stat()
        head = path.read_text().partition("\n// swapped")[0].rstrip("\n")
        path.write_text(f"{head}\n// swapped\nint swapped_{self.number() % 3};\n")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self.check(f"swap {tool}, keeping its mtime")

    # Steps: the output folder, and builds that go wrong

    def output_files(self) -> list[Path]:
        return sorted(path for path in (self.workspace.out / "cudabuild/obj").rglob("*") if path.is_file()) + [
            path for path in (self.workspace.archive_path(), self.workspace.out / "cudabuild/record.json") if path.exists()
        ]

    @rule(pick=picks, how=st.sampled_from(("delete", "empty", "cut", "flip")), archive_too=st.booleans())
    def damage_an_output(self, pick: int, how: str, archive_too: bool) -> None:
        files = self.output_files()
        path = files[pick % len(files)] if files else None
        if path is None:
            return
        content = path.read_bytes()
        middle = len(content) // 2
        if how == "delete" or not content:
            path.unlink()
        else:
            flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
            path.write_bytes({"empty": b"", "cut": content[:middle]}.get(how, flipped))
        if archive_too:
            self.workspace.archive_path().unlink(missing_ok=True)
        self.check(f"{how} {path.relative_to(self.workspace.out)}{', delete the archive' if archive_too else ''}")

    @rule(pick=picks, value=st.integers(100, 999), fault=st.sampled_from(("crash", "empty-object", "no-object", "half-depfile", "empty-depfile")))
    def edit_and_build_with_a_failing_compiler(self, pick: int, value: int, fault: str) -> None:
        name = self.file(pick)
        self.change(name, replace(self.model.files[name], value=value))
        self.build(env={"FAKE_NVCC_FAULT": fault})
        self.check(f"write value {value} into {name}, build with the fault {fault!r}")

    @rule(pick=picks, value=st.integers(100, 999))
    def edit_twice_without_a_build(self, pick: int, value: int) -> None:
        name = self.file(pick)
        before = self.model.files[name]
        self.change(name, replace(before, value=value))
        self.change(name, before)
        self.check(f"edit {name} and undo it")


def _difference(data: bytes, expected: dict[str, bytes | None]) -> str:
    """The lines in which a member differs from what its source should give."""
    got = data.decode("utf-8", "surrogateescape").splitlines()
    source = next((line.removeprefix("source ") for line in got if line.startswith("source ")), "?")
    want = (expected.get(source) or b"").decode("utf-8", "surrogateescape").splitlines()
    stale = [line for line in got if line not in want]
    missing = [line for line in want if line not in got]
    return f"{source} has {stale[1:6]}, should have {missing[1:6]}"


def explore(oracle: type[Oracle], part: int, scripts: int, seed: int) -> tuple[int, str]:
    """One process's share: how many steps it took, and what went wrong."""
    machine = hypothesis.seed(seed * 1000 + part)(type(f"{oracle.__name__}{part}", (oracle,), {}))
    limits = settings(
        max_examples=scripts, stateful_step_count=STEPS_OF_A_SCRIPT, deadline=None, database=None, report_multiple_bugs=False,
        print_blob=False, suppress_health_check=list(HealthCheck), verbosity=Verbosity.quiet,
    )  # fmt: skip
    try:
        run_state_machine_as_test(machine, settings=limits)  # type: ignore[no-untyped-call]
    except AssertionError as error:
        return steps_done, str(error)
    return steps_done, ""


def walk(oracle: type[Oracle], steps: int) -> None:
    """Take so many steps, in several processes, and fail with the script of the shortest failure found."""
    workers = min(4, os.cpu_count() or 1)
    seed = int(os.environ.get("CUDABUILD_ORACLE_SEED", "1"))
    scripts = max(1, steps // STEPS_OF_A_SCRIPT // workers)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(explore, [oracle] * workers, range(workers), [scripts] * workers, [seed] * workers))
    print(f"{sum(steps for steps, _ in results)} steps from seed {seed}")
    failures = [failure for _, failure in results if failure]
    assert not failures, f"seed {seed}: {failures[0]}"


def test_incremental_build_equals_a_clean_one() -> None:
    walk(Oracle, STEPS)
