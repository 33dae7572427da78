"""This module checks which objects of a compile are taken over: none that may mix two texts, or be of an older one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cudabuild.cache.decisions import Decision
from cudabuild.cache.keys import Request
from cudabuild.cache.reading import Disk, changes
from cudabuild.compile import Compiled, compile_units, raise_failures, turned_folder
from cudabuild.errors import BuildFailed, InputsChanged
from cudabuild.files import Digests, digest_file
from cudabuild.graph.search import Search
from cudabuild.graph.units import Unit
from cudabuild.nvcc.probe import Probe
from cudabuild.nvcc.toolchain import Toolchain
from cudabuild.roots import Roots

# The object is the text of the source and of f.h.
NVCC = r"""#!/bin/sh
while [ $# -gt 1 ]; do
  case $1 in -o) object=$2; shift ;; -MF) deps=$2; shift ;; esac
  shift
done
cat "$1" f.h > "$object" && printf '%s : %s \\\n    f.h\n' "$object" "$1" > "$deps"
grep -q FAIL "$1" && exit 2 || exit 0
"""


class Build:
    """Units a.cu, b.cu and c.cu, which read f.h, and a compile that may be disturbed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("a.cu", "b.cu", "c.cu", "f.h"):
            (root / name).write_text(f"old {name}\n")
        (root / "nvcc").write_text(NVCC)
        (root / "nvcc").chmod(0o755)
        self.attempts = 0
        self.known_nvcc = digest_file(str(root / "nvcc"))
        self.disturb: Callable[[int], None] = lambda attempt: None
        time.sleep(0.06)  # older than the clock's grain

    def compile(self) -> dict[str, Compiled]:
        probe = Probe(
            question="", version="13.0", available=(), host_compiler="", include_dirs=(), builtin_dirs=(),
            library_dirs=(), root="", commands="", direct=True, tools=(("nvcc", str(self.root / "nvcc"), self.known_nvcc),),
        )  # fmt: skip
        toolchain = Toolchain(
            nvcc=str(self.root / "nvcc"), origin="", version="13.0", host_compiler="", host_origin="", archs=(),
            flags=(), ccbin=None,
            search=Search((), ()), library_dirs=(), root="", identity=(), paths=(str(self.root / "nvcc"),),
            commands="", probe=probe, warnings=(),
        )  # fmt: skip
        roots = Roots(str(self.root), str(self.root / "out"))
        decisions = []
        for name in ("a", "b", "c"):
            request = Request(source=f"@crate/{name}.cu", flags=(), environment=(), tools=(), commands="")
            unit = Unit(f"{name}.cu", "cuda", name)
            decisions.append(Decision(unit=unit, flags=(), request=request, action="compile", reason="first"))
        compiled = compile_units(
            decisions, toolchain, folder=str(self.root / "run"), objects=str(self.root / "obj"), roots=roots,
            disk=Disk(Digests({})), library="t", pool=None, run_ninja=self._run,
        )  # fmt: skip
        return {result.decision.unit.name: result for result in compiled}

    def _run(self, file: str) -> str:
        for script in sorted(Path(file).parent.glob("*/step.sh")):
            subprocess.run(["sh", script], check=False)
        self.disturb(self.attempts)
        time.sleep(0.1)  # a loaded machine: what was disturbed is older than the clock's grain when it is looked at
        self.attempts += 1
        return "words"

    def object(self, name: str) -> str:
        return (self.root / "obj" / f"{name}.o").read_text()


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_object_of_each_unit_is_taken_over_with_what_it_read(build: Build) -> None:
    results = build.compile()
    assert build.attempts == 1
    for name, result in results.items():
        assert build.object(name) == f"old {name}.cu\nold f.h\n"
        assert result.made is not None
        assert [path for path, _ in result.made.reading.files] == [f"@crate/{name}.cu", "@crate/f.h"]
        assert changes(result.made.reading, Disk(Digests({})), Roots(str(build.root), "/out").real) == ()


def test_header_that_moved_under_several_units_has_all_of_them_compiled_again(build: Build) -> None:
    """Each object is made of the old text: to judge one of them must not make the others look right."""
    build.disturb = lambda attempt: attempt == 0 and (build.root / "f.h").write_text("new f.h\n") and None
    results = build.compile()
    assert build.attempts == 2
    assert {name: build.object(name) for name in results} == {name: f"old {name}.cu\nnew f.h\n" for name in results}


def test_only_what_read_the_file_that_moved_is_compiled_again(build: Build) -> None:
    build.disturb = lambda attempt: attempt == 0 and (build.root / "b.cu").write_text("new b.cu\n") and None
    build.compile()
    assert build.object("b") == "new b.cu\nold f.h\n"
    assert sorted(os.listdir(build.root / "run/1")) == ["b", "build.ninja"]


def test_file_that_keeps_moving_ends_the_build_with_its_name(build: Build) -> None:
    build.disturb = lambda attempt: (build.root / "f.h").write_text(f"text {attempt}\n") and None
    results = build.compile()
    assert build.attempts == 2
    assert all(result.made is None for result in results.values())
    assert not (build.root / "obj").exists()
    with pytest.raises(InputsChanged, match=r"f\.h"):
        raise_failures(list(results.values()), 3)


def test_file_that_is_gone_after_the_compile_has_it_compiled_again(build: Build) -> None:
    build.disturb = lambda attempt: attempt == 0 and (build.root / "f.h").rename(build.root / "away") and None
    results = build.compile()
    assert all(result.made is None for result in results.values()), "f.h is gone: the second compile fails"


def test_edit_with_its_times_put_back_is_noticed(build: Build) -> None:
    def edit(attempt: int) -> None:
        if attempt == 0:
            times = (build.root / "f.h").stat()
            (build.root / "f.h").write_text("0ld f.h\n")
            os.utime(build.root / "f.h", ns=(times.st_atime_ns, times.st_mtime_ns))

    build.disturb = edit
    build.compile()
    assert build.object("a") == "old a.cu\n0ld f.h\n"


def test_tool_that_was_replaced_meanwhile_has_all_compiled_again(build: Build) -> None:
    build.disturb = lambda attempt: attempt == 0 and (build.root / "nvcc").write_text(NVCC + "# new\n") and None
    build.compile()
    assert build.attempts == 2


def test_failed_unit_does_not_take_the_others_with_it(build: Build) -> None:
    (build.root / "b.cu").write_text("FAIL\n")
    results = build.compile()
    assert [name for name, result in results.items() if result.made is not None] == ["a", "c"]
    with pytest.raises(BuildFailed, match=r"1 of 3 units failed: b\.cu \(exit code 2\)"):
        raise_failures(list(results.values()), 3)


def test_failure_is_told_before_a_file_that_moved(build: Build) -> None:
    (build.root / "b.cu").write_text("FAIL\n")
    build.disturb = lambda attempt: (build.root / "a.cu").write_text(f"text {attempt}\n") and None
    with pytest.raises(BuildFailed, match=r"b\.cu"):
        raise_failures(list(build.compile().values()), 3)


def test_tool_that_was_swapped_before_the_compile_gives_no_object_under_its_old_name(build: Build) -> None:
    """The request was made before the build waited for another one."""
    (build.root / "nvcc").write_text(f"{NVCC}# another\n")
    time.sleep(0.06)
    results = build.compile()
    assert all(result.made is None for result in results.values())
    with pytest.raises(InputsChanged, match="nvcc"):
        raise_failures(list(results.values()), 3)


@pytest.mark.parametrize("how", ["folder renamed", "link turned", "link to a header turned"])
def test_way_to_a_header_that_was_turned_is_seen(tmp_path: Path, how: str) -> None:
    """The header's own times are older than the compile."""
    for name in ("old", "new"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub/f.h").write_text(name)
    (tmp_path / "inc").symlink_to("old")
    (tmp_path / "l.h").symlink_to("old/sub/f.h")
    time.sleep(0.06)
    started = time.time_ns()
    files = [str(tmp_path / "inc/sub/f.h"), str(tmp_path / "l.h")]
    assert turned_folder(files, started) is None
    time.sleep(0.02)
    (tmp_path / "old/other").write_text("a new file beside it is nothing")
    assert turned_folder(files, started) is None
    if how == "folder renamed":
        (tmp_path / "old").rename(tmp_path / "gone")
        (tmp_path / "new").rename(tmp_path / "old")
        files = [str(tmp_path / "old/sub/f.h")]
    else:
        link, target = ("inc", "new") if how == "link turned" else ("l.h", "new/sub/f.h")
        (tmp_path / link).unlink()
        (tmp_path / link).symlink_to(target)
    assert turned_folder(files, started) is not None
