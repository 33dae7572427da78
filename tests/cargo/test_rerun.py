"""Cargo runs the build script, nvcc compiles, and the program is relinked: each exactly when it must be."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cargo import PROBE, CargoWorkspace
from real import unit_source

pytestmark = [pytest.mark.cargo, pytest.mark.nvcc]

K = "kernels/k.cu"


def own_lines(crates: CargoWorkspace, package: str = "probe-crate") -> list[str]:
    """The watched paths below the crates' folder, seen from there."""
    prefix = f"{crates.folder}/"
    return [path.removeprefix(prefix) for path in crates.watched(package) if path.startswith(prefix)]


def assert_lines_are_paths(crates: CargoWorkspace, package: str, crate: str = ".") -> None:
    """Cargo takes a missing path as changed at every build, and a glob as a missing path."""
    paths = crates.watched(package)
    assert [path for path in paths if not (crates.folder / crate / path).exists()] == []
    assert [path for path in paths if "*" in path] == []
    inside = [Path(path) for path in paths if Path(path).is_relative_to(crates.target)]
    # What a build writes would be newer than the build for ever; the stamp of `invalidate` is older than any build.
    assert [path.name for path in inside] == ["stamp"] and inside[0].stat().st_mtime == 0


def assert_rests(crates: CargoWorkspace) -> None:
    """A build with nothing to do starts nothing."""
    built = crates.build()
    assert (built.script_runs, built.compiled) == (0, []), built.output


def test_headers_behind_headers_are_watched_rebuilt_and_forgotten_when_they_go(crate: CargoWorkspace) -> None:
    """C01"""
    crate.write("kernels/k.cuh", '#pragma once\n#include "b.cuh"\n')
    crate.write("kernels/b.cuh", '#pragma once\n#include "c.cuh"\n')
    crate.write("kernels/c.cuh", "#pragma once\n#define VAL 1\n")
    assert crate.build().compiled == [K]
    assert crate.run_program() == "1"
    assert {"kernels/k.cuh", "kernels/b.cuh", "kernels/c.cuh", K, "cudabuild.toml"} <= set(own_lines(crate))

    crate.edit("kernels/c.cuh", "VAL 1", "VAL 2")
    edited = crate.build()
    assert (edited.script_runs, edited.compiled) == (1, [K])
    assert crate.run_program() == "2"
    summary = [line for line in edited.output.splitlines() if line.startswith("warning: probe-crate@0.1.0: ")]
    assert len(summary) == 1 and "kernels/c.cuh changed" in summary[0], edited.output

    crate.remove("kernels/b.cuh")
    crate.remove("kernels/c.cuh")
    crate.write("kernels/k.cuh", "#pragma once\n#define VAL 3\n")
    assert crate.build().compiled == [K]
    assert crate.run_program() == "3"
    assert not {"kernels/b.cuh", "kernels/c.cuh"} & set(own_lines(crate))
    assert_rests(crate)


def test_rests_until_something_that_nvcc_reads_changes(crate: CargoWorkspace) -> None:
    """C02: no build script without a cause, and no compile for what no compiler reads."""
    assert crate.build().script_runs == 1
    assert_lines_are_paths(crate, "probe-crate")
    assert_rests(crate)
    crate.write("README.md", "Words.\n")
    assert_rests(crate)
    crate.edit("src/main.rs", "fn main() {", "fn main() {\n    print!(\"rust \");")
    built = crate.build()
    assert (built.script_runs, built.compiled) == (0, [])
    assert crate.run_program() == "rust 1"
    os.utime(crate.folder / "kernels/k.cuh")
    touched = crate.build()
    assert (touched.script_runs, touched.compiled) == (1, [])
    # A file beside the kernels that is no source: cargo watches the folder, nvcc has nothing to do.
    crate.write("kernels/notes.txt", "Words.\n")
    assert crate.build().compiled == []
    assert_rests(crate)


@pytest.mark.parametrize("place", ["alone", "member"])
def test_new_and_removed_sources_are_noticed(crates: CargoWorkspace, place: str) -> None:
    """C02: also in a member of a workspace, where cargo's working directory is not the package."""
    crate = "." if place == "alone" else "members/kern"
    if place == "member":
        crates.write("Cargo.toml", '[workspace]\nmembers = ["members/*"]\nresolver = "2"\n')
    crates.probe_crate(crate)
    assert crates.build().compiled == [K]
    assert_lines_are_paths(crates, "probe-crate", crate)
    assert_rests(crates)
    crates.write(f"{crate}/kernels/new.cu", unit_source("5", name="fresh"))
    added = crates.build()
    assert (added.script_runs, added.compiled) == (1, ["kernels/new.cu"])
    assert_rests(crates)
    crates.remove(f"{crate}/kernels/new.cu")
    removed = crates.build()
    assert (removed.script_runs, removed.compiled) == (1, [])
    assert crates.run_program() == "1"
    assert_rests(crates)


def test_new_folder_that_a_glob_matches_is_noticed(crate: CargoWorkspace) -> None:
    """C02: nothing that was read lies in the folder that the new one comes into."""
    (crate.folder / "kernels/a").mkdir()
    for name in ("k.cu", "k.cuh"):
        (crate.folder / "kernels" / name).rename(crate.folder / "kernels/a" / name)
    crate.kernels(".", sources=["kernels/*/*.cu"])
    assert crate.build().compiled == ["kernels/a/k.cu"]
    assert_rests(crate)
    crate.write("kernels/b/new.cu", unit_source("5", name="fresh"))
    added = crate.build()
    assert (added.script_runs, added.compiled) == (1, ["kernels/b/new.cu"])
    assert_rests(crate)


GENERATE = """
    println!("cargo:rerun-if-changed=value.txt");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let value = std::fs::read_to_string("value.txt").unwrap();
    std::fs::write(out.join("gen.cuh"), format!("#define VAL {value}\\n")).unwrap();
    build.arg("--include").arg(&out);
"""


def test_header_generated_into_out_dir_is_read_but_not_watched(crate: CargoWorkspace) -> None:
    """C03: cargo would find what the script itself writes newer than the script's start, for ever."""
    crate.write("value.txt", "1")
    crate.edit("kernels/k.cu", '"k.cuh"', '"gen.cuh"')
    call = '    build.arg("build");'
    crate.edit("build.rs", call, f"{call}\n{GENERATE}")
    assert crate.build().compiled == [K]
    assert crate.run_program() == "1"
    assert_lines_are_paths(crate, "probe-crate")
    assert_rests(crate)
    crate.write("value.txt", "2")
    changed = crate.build()
    assert changed.compiled == [K] and "gen.cuh changed" in changed.output
    assert crate.run_program() == "2"
    assert_rests(crate)


def test_changed_kernel_reaches_the_program_through_crates_between(crates: CargoWorkspace) -> None:
    """C08: the marker is device code, so it is looked for in the program's bytes."""
    crates.write("Cargo.toml", '[workspace]\nmembers = ["app", "mid", "kern"]\nresolver = "2"\n')
    for name, needs, file, text in (
        ("app", ["mid"], "main.rs", 'fn main() {\n    println!("{}", mid::value());\n}\n'),
        ("mid", ["kern"], "lib.rs", "pub fn value() -> i32 {\n    kern::value()\n}\n"),
        ("kern", [], "lib.rs", PROBE[: PROBE.index("fn main")] + "pub fn value() -> i32 {\n    unsafe { probe() }\n}\n"),
    ):
        crates.manifest(name, name, needs)
        crates.write(f"{name}/src/{file}", text)
    crates.kernels("kern", flags=["-no-compress"])
    marker = '#include <cstdio>\n__global__ void say() { printf("MARK_V1\\n"); }\nextern "C" int probe() { return 1; }\n'
    crates.write("kern/kernels/k.cu", marker)
    crates.build()
    assert b"MARK_V1" in crates.program("app").read_bytes()
    crates.edit("kern/kernels/k.cu", "MARK_V1", "MARK_V2")
    crates.edit("kern/kernels/k.cu", "return 1", "return 2")
    assert crates.build().compiled == [K]
    program = crates.program("app").read_bytes()
    assert b"MARK_V2" in program and b"MARK_V1" not in program
    assert crates.run_program("app") == "2"


def test_flags_in_the_environment_rebuild_and_are_given_once(crate: CargoWorkspace) -> None:
    """C14"""
    crate.write("kernels/k.cuh", "#ifdef FOO\n#define VAL 2\n#else\n#define VAL 1\n#endif\n")
    crate.build()
    assert crate.run_program() == "1"
    assert {"NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"} <= set(crate.values("rerun-if-env-changed"))
    assert "kernels/k.cuh" in own_lines(crate)
    appended = crate.build(NVCC_APPEND_FLAGS="-DFOO")
    assert (appended.script_runs, appended.compiled) == (1, [K])
    assert "NVCC_APPEND_FLAGS" in appended.output
    assert crate.run_program() == "2"
    # nvcc adds the variable's flags itself.
    (script,) = crate.out_dir().glob("cudabuild/run-*/*/*/step.sh")
    assert " -c " in script.read_text() and "-DFOO" not in script.read_text()
    assert crate.build().script_runs == 1
    assert crate.run_program() == "1"
    assert_rests(crate)


STRANGE = ["h h.cuh", "a#b.cuh", "d$x.cuh", "ü.cuh"]


def test_strange_names_of_folders_and_headers(tmp_path: Path, crates: CargoWorkspace) -> None:
    """C10: the paths reach nvcc, the dependency list and cargo as they are."""
    strange = CargoWorkspace(tmp_path / "w s/ünï", crates.nvcc, "cr#1$x")
    strange.probe_crate(include=["kernels", "k inc"])
    places = [f"{'k inc' if name == 'h h.cuh' else 'kernels'}/{name}" for name in STRANGE]
    for number, place in enumerate(places):
        strange.write(place, f"#define V{number} {10 ** number}\n")
    strange.write(K, unit_source("V0 + V1 + V2 + V3", tuple(STRANGE)))
    strange.build()
    assert strange.run_program() == "1111"
    assert set(places) <= set(own_lines(strange))
    assert_lines_are_paths(strange, "probe-crate")
    assert_rests(strange)
    for number, place in enumerate(places):
        strange.edit(place, f" {10 ** number}", f" {2 * 10 ** number}")
    assert strange.build().compiled == [K]
    assert sorted(strange.changes(K)) == sorted(places)
    assert strange.run_program() == "2222"
    assert_rests(strange)


def without_write_permission() -> list[str]:
    """A prefix under which modes bind root too; nothing for anybody else."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


def test_sources_that_may_not_be_written_are_built_and_left_alone(crate: CargoWorkspace) -> None:
    """C07: as in a registry, a vendor folder or a Nix store."""
    prefix = without_write_permission()
    crate.cargo("generate-lockfile")
    for path in (crate.folder, *crate.folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in (crate.folder, *crate.folder.rglob("*")))
    refused = subprocess.run([*prefix, "touch", crate.folder / "new"], capture_output=True, check=False)
    assert refused.returncode != 0, "the folder can be written, so this test would prove nothing"
    for runs in (1, 0):
        built = crate.build(prefix=prefix)
        assert built.script_runs == runs
        assert crate.run_program() == "1"
    assert sorted((str(path), path.stat().st_mtime_ns) for path in (crate.folder, *crate.folder.rglob("*"))) == before
    for path in (crate.folder, *crate.folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def test_removed_source_is_not_in_the_library_any_more(crate: CargoWorkspace) -> None:
    """C06"""
    crate.write("kernels/b.cu", unit_source("7", name="extra"))
    both = PROBE.replace("fn probe() -> i32;", "fn probe() -> i32;\n    fn extra() -> i32;").replace("probe() }", "probe() + extra() }")
    crate.write("src/main.rs", both)
    crate.build()
    assert crate.run_program() == "8"
    crate.remove("kernels/b.cu")
    broken = crate.build(expect=101)
    assert "undefined" in broken.output and "extra" in broken.output
    crate.write("src/main.rs", PROBE)
    crate.build()
    assert crate.run_program() == "1"
    # The same function in a file of another name: once in the library.
    crate.write("src/main.rs", both)
    crate.write("kernels/c.cu", unit_source("8", name="extra"))
    assert crate.build().compiled == ["kernels/c.cu"]
    assert crate.run_program() == "9"


def test_failed_compile_stops_cargo_shows_why_and_the_fix_is_seen(crate: CargoWorkspace) -> None:
    """C18"""
    crate.build()
    crate.edit("kernels/k.cuh", "VAL 1", "VAL undeclared_name")
    failed = crate.build(expect=101)
    assert failed.compiled == [K]
    assert 'identifier "undeclared_name" is undefined' in failed.output
    assert "kernels/k.cu" in failed.output and "Traceback" not in failed.output
    crate.edit("kernels/k.cuh", "undeclared_name", "2")
    assert crate.build().compiled == [K]
    assert crate.run_program() == "2"
    # Broken and put back: the object of before is still the right one.
    crate.edit("kernels/k.cuh", "VAL 2", "VAL undeclared_name")
    crate.build(expect=101)
    assert crate.build(expect=101).compiled == [K]
    crate.edit("kernels/k.cuh", "undeclared_name", "2")
    crate.build()
    assert crate.run_program() == "2"
    assert_rests(crate)


def test_wrong_configuration_stops_cargo_with_the_cure(crate: CargoWorkspace) -> None:
    crate.kernels(".", sourcs=["kernels/*.cu"])
    failed = crate.build(expect=101)
    assert "did you mean `sources`?" in failed.output and "exit status: 2" in failed.output
    assert failed.compiled == []
    crate.kernels(".", arch=["70"])
    failed = crate.build(expect=101)
    assert "cannot build for 70" in failed.output
    assert failed.compiled == []
    crate.kernels(".")
    assert crate.build().compiled == [K]


def test_edit_during_a_compile_is_in_the_program(crate: CargoWorkspace) -> None:
    """The object may mix two texts, so it is made once more, by the same build."""
    crate.build()
    crate.edit("kernels/k.cuh", "VAL 1", "VAL 2")
    built = crate.build(NVCC_PAUSE="0.3", meanwhile=lambda: crate.edit("kernels/k.cuh", "VAL 2", "VAL 3"))
    assert built.compiled == [K, K]
    assert crate.run_program() == "3"
    # For cargo the header is newer than the script's start.
    after = crate.build()
    assert (after.script_runs, after.compiled) == (1, [])
    assert_rests(crate)
