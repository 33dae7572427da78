"""This module checks that whatever a compile reads, and whatever it would read if it were there, is a dependency."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from workspace import Changes, Workspace

READERS = ["kernels/msm.cu", "kernels/ntt.cu"]
ALL = ["kernels/hash.cu", *READERS]


@pytest.fixture
def built(prover: Workspace) -> Workspace:
    assert prover.build().compiled == ALL
    assert prover.compiles() == ALL
    return prover


def test_second_build_compiles_nothing(built: Workspace) -> None:
    report = built.build()
    assert (report.compiled, report.kept) == ([], ALL)
    assert built.compiles() == []


def test_header_edit_compiles_exactly_its_readers(built: Workspace) -> None:
    """C01"""
    built.edit("kernels/include/field.cuh", "FIELD 1", "FIELD 2")
    report = built.build()
    assert (report.compiled, report.kept) == (READERS, ["kernels/hash.cu"])
    assert "kernels/include/field.cuh" in report.reason("kernels/msm.cu")
    assert report.changes("kernels/msm.cu") == ["kernels/include/field.cuh"]
    assert built.compiles() == READERS
    assert "int msm[] = {2, 1};" in built.archive_text()


def test_edit_of_a_header_behind_a_header_compiles_its_readers(built: Workspace) -> None:
    """C01"""
    built.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    built.build()
    assert built.compiles() == READERS
    assert "int ntt[] = {1, 2};" in built.archive_text()


def test_deleted_header_that_nobody_includes_any_more_is_not_missed(built: Workspace) -> None:
    """C01"""
    built.remove("kernels/include/limbs.cuh")
    built.edit("kernels/include/field.cuh", '#include "limbs.cuh"', "#define LIMBS 3")
    report = built.build_under_cargo()
    assert "int msm[] = {1, 3};" in built.archive_text()
    assert not [path for path in report.watched if "limbs.cuh" in path]


def test_deleted_header_that_is_still_included_fails_the_build(built: Workspace) -> None:
    """C01"""
    built.remove("kernels/include/limbs.cuh")
    report = built.build(expect=1)
    assert report.failed
    assert "limbs.cuh: No such file or directory" in report.stderr
    built.write("kernels/include/limbs.cuh", "#pragma once\n#define LIMBS 4\n")
    built.build()
    assert "int msm[] = {1, 4};" in built.archive_text()


def test_new_content_under_an_old_mtime_is_seen(built: Workspace) -> None:
    """C04 (a)"""
    built.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 22")
    built.set_mtime("kernels/include/limbs.cuh", 978307200)
    built.build()
    assert built.compiles() == READERS


def test_touched_files_compile_nothing(built: Workspace) -> None:
    """C04 (b)"""
    for name in ("include/field.cuh", "include/limbs.cuh", "msm.cu", "hash.cu"):
        built.touch(f"kernels/{name}")
    built.touch("cudabuild.toml")
    assert built.build().compiled == []
    assert built.compiles() == []


def test_new_content_with_size_and_mtime_restored_is_seen(built: Workspace) -> None:
    """C04 (d)"""
    built.build()  # so that the old state is remembered as settled
    built.edit_keeping_mtime("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    built.build()
    assert built.compiles() == READERS
    assert "int msm[] = {1, 2};" in built.archive_text()


def test_replacing_a_file_by_rename_with_an_older_one_is_seen(built: Workspace) -> None:
    """C04"""
    stat = built.path("kernels/include/limbs.cuh").stat()
    new = built.write("elsewhere.cuh", "#pragma once\n#define LIMBS 5\n")
    os.utime(new, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    built.rename("elsewhere.cuh", "kernels/include/limbs.cuh")
    built.build()
    assert built.compiles() == READERS


def test_edit_and_its_undoing_without_a_build_between_compile_nothing(built: Workspace) -> None:
    """C04"""
    built.edit("kernels/msm.cu", "int", "long")
    built.edit("kernels/msm.cu", "long", "int")
    built.build()
    assert built.compiles() == []


def test_place_of_the_call_does_not_matter(built: Workspace) -> None:
    """C09"""
    for cwd in (built.root, Path("/")):
        built.build(cwd=cwd)
        assert built.compiles() == []
    decoy = built.root / "kernels/include/limbs.cuh"
    decoy.parent.mkdir(parents=True)
    decoy.write_text("#define LIMBS 9\n")
    built.build(cwd=built.root)
    assert built.compiles() == []


def test_crate_is_found_upwards_from_the_working_folder(prover: Workspace) -> None:
    """C09"""
    argv = [sys.executable, "-m", "cudabuild", "build", "--out", str(prover.out)]
    subprocess.run(argv, cwd=prover.path("kernels/include"), env=prover.environment(), check=True, capture_output=True)
    assert prover.compiles() == ALL
    prover.build()
    assert prover.compiles() == []


def test_unnormalised_include_path_is_tracked(prover: Workspace) -> None:
    """C09"""
    prover.write("kernels/sub/h.cuh", "#define SUB 1\n")
    prover.write("kernels/msm.cu", '#include "../kernels/sub/../sub/h.cuh"\nint msm = SUB;\n')
    prover.build()
    prover.compiles()
    prover.edit("kernels/sub/h.cuh", "1", "2")
    prover.build()
    assert prover.compiles() == ["kernels/msm.cu"]


def test_edit_of_host_only_code_is_seen(prover: Workspace) -> None:
    """C11 (a)"""
    prover.write("kernels/msm.cu", "#ifndef __CUDA_ARCH__\nint msm = 1;\n#endif\n")
    prover.build()
    prover.compiles()
    prover.edit("kernels/msm.cu", "1", "2")
    prover.build()
    assert prover.compiles() == ["kernels/msm.cu"]


@pytest.mark.parametrize("header", ["only90", "only80", "host"])
def test_header_of_one_pass_only_is_tracked(prover: Workspace, header: str) -> None:
    """C11 (d)"""
    prover.config(arch=["80", "90"])
    for name in ("only90", "only80", "host"):
        prover.write(f"kernels/include/{name}.cuh", f"int {name}_1;\n")
    prover.write(
        "kernels/msm.cu",
        '#if __CUDA_ARCH__ >= 900\n#include "only90.cuh"\n#elif defined(__CUDA_ARCH__)\n#include "only80.cuh"\n'
        '#else\n#include "host.cuh"\n#endif\n',
    )
    prover.build()
    prover.compiles()
    prover.edit(f"kernels/include/{header}.cuh", "_1", "_2")
    prover.build()
    assert prover.compiles() == ["kernels/msm.cu"]
    assert f"{header}_2" in prover.archive_text()


@pytest.mark.parametrize("fault", ["empty-depfile", "no-depfile"])
def test_missing_dependency_list_is_never_taken_for_no_dependencies(built: Workspace, fault: str) -> None:
    """C11 (b)"""
    built.edit("kernels/msm.cu", "int msm", "int changed; int msm")
    built.build(env={"FAKE_NVCC_FAULT": fault}, expect=(0, 1))
    built.edit("kernels/include/limbs.cuh", "LIMBS 1", "LIMBS 2")
    built.build()
    assert "int changed; int msm[] = {1, 2};" in built.archive_text()


def test_half_a_dependency_list_with_an_error_stores_nothing(built: Workspace) -> None:
    """C11 (c)"""
    built.edit("kernels/msm.cu", "int msm", "int changed; int msm")
    built.build(env={"FAKE_NVCC_FAULT": "half-depfile"}, expect=1)
    built.compiles()
    built.build()
    assert built.compiles() == ["kernels/msm.cu"]


def test_two_sources_never_share_an_object(workspace: Workspace) -> None:
    """C11 (b)"""
    workspace.write("kernels/a.cu", "int same;\n")
    workspace.write("kernels/b.cu", "int same;\n")
    workspace.build()
    assert sorted(line for line in workspace.archive_text().splitlines() if line.startswith("source ")) == [
        "source kernels/a.cu",
        "source kernels/b.cu",
    ]


def test_header_that_newly_shadows_another_is_seen(built: Workspace) -> None:
    built.config(include=["kernels/first", "kernels/include"])
    built.path("kernels/first").mkdir()
    built.build()
    built.compiles()
    built.write("kernels/first/limbs.cuh", "#define LIMBS 7\n")
    built.build()
    # field.cuh lies beside the old one, and a quoted name is looked up there first: nothing changes for msm and ntt.
    assert "int msm[] = {1, 1};" in built.archive_text()
    built.write("kernels/first/field.cuh", "#define FIELD 8\n#define LIMBS 8\n")
    report = built.build()
    assert report.compiled == READERS
    assert "int msm[] = {8, 8};" in built.archive_text()
    assert "kernels/first/field.cuh" in report.reason("kernels/msm.cu")
    built.remove("kernels/first/field.cuh")
    built.build()
    assert "int msm[] = {1, 1};" in built.archive_text()


def test_header_in_an_include_folder_that_did_not_exist_is_seen(built: Workspace) -> None:
    built.config(include=["kernels/later", "kernels/include"])
    built.build()
    built.write("kernels/later/field.cuh", "#define FIELD 8\n#define LIMBS 8\n")
    built.build()
    assert "int msm[] = {8, 8};" in built.archive_text()


def test_header_that_appears_beside_the_source_is_seen(built: Workspace) -> None:
    built.write("kernels/field.cuh", "#define FIELD 8\n#define LIMBS 8\n")
    built.build()
    assert built.compiles() == READERS
    assert "int msm[] = {8, 8};" in built.archive_text()


def test_header_that_appears_beside_an_including_header_is_seen(prover: Workspace) -> None:
    prover.write("kernels/other/extra.cuh", "#define EXTRA 1\n")
    prover.write("kernels/include/deep/h.cuh", '#include "extra.cuh"\n')
    prover.write("kernels/msm.cu", '#include "deep/h.cuh"\nint msm = EXTRA;\n')
    prover.config(include=["kernels/include", "kernels/other"])
    prover.build()
    prover.write("kernels/include/deep/extra.cuh", "#define EXTRA 2\n")
    prover.build()
    assert "int msm = 2;" in prover.archive_text()


@pytest.mark.parametrize("condition", ['__has_include("maybe.cuh")', "__has_include(<maybe.cuh>)", "MAYBE"])
def test_header_that_was_only_asked_for_is_seen_when_it_appears(prover: Workspace, condition: str) -> None:
    define = '#define MAYBE __has_include("maybe.cuh")\n' if condition == "MAYBE" else ""
    prover.write("kernels/msm.cu", f"{define}#if {condition}\nint present;\n#else\nint absent;\n#endif\n")
    prover.build()
    assert "int absent;" in prover.archive_text()
    prover.write("kernels/include/maybe.cuh", "")
    prover.build()
    assert "int present;" in prover.archive_text()
    prover.remove("kernels/include/maybe.cuh")
    prover.build()
    assert "int absent;" in prover.archive_text()


def test_include_through_a_macro_is_tracked(prover: Workspace) -> None:
    prover.write("kernels/include/one.cuh", "int one_1;\n")
    prover.write("kernels/first/two.cuh", "int two_1;\n")
    prover.config(include=["kernels/first", "kernels/include"])
    prover.write("kernels/msm.cu", '#define HEADER "one.cuh"\n#include HEADER\n')
    prover.build()
    prover.edit("kernels/include/one.cuh", "one_1", "one_2")
    prover.build()
    assert "one_2" in prover.archive_text()
    prover.write("kernels/first/one.cuh", "int one_3;\n")
    prover.build()
    assert "one_3" in prover.archive_text()


def test_retargeted_link_is_seen(prover: Workspace) -> None:
    for version in ("1", "2"):
        path = prover.write(f"versions/v{version}.cuh", f"#define VERSION {version}\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    prover.symlink("kernels/include/version.cuh", "../../versions/v1.cuh")
    prover.write("kernels/msm.cu", '#include "version.cuh"\nint msm = VERSION;\n')
    prover.build()
    prover.compiles()
    prover.symlink("kernels/include/version.cuh", "../../versions/v2.cuh")
    prover.build()
    assert prover.compiles() == ["kernels/msm.cu"]
    assert "int msm = 2;" in prover.archive_text()


def test_retargeted_link_to_a_folder_is_seen(prover: Workspace) -> None:
    for version in ("1", "2"):
        path = prover.write(f"versions/v{version}/version.cuh", f"#define VERSION {version}\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    prover.symlink("kernels/lib", "../versions/v1")
    prover.write("kernels/msm.cu", '#include "lib/version.cuh"\nint msm = VERSION;\n')
    prover.build()
    prover.symlink("kernels/lib", "../versions/v2")
    prover.build()
    assert "int msm = 2;" in prover.archive_text()


def test_edit_of_the_twin_that_the_compiler_did_not_report_is_seen(prover: Workspace) -> None:
    """gcc takes two #pragma once headers with equal bytes and mtime for one, and lists only the first."""
    for folder in ("one", "two"):
        path = prover.write(f"kernels/{folder}/params.cuh", "#pragma once\nint PARAMS_1;\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    prover.write("kernels/msm.cu", '#include "one/params.cuh"\n#include "two/params.cuh"\n')
    prover.build()
    prover.edit("kernels/two/params.cuh", "PARAMS_1", "PARAMS_2")
    prover.build()
    assert "int PARAMS_2;" in prover.archive_text()


def test_line_directive_does_not_invent_a_dependency(prover: Workspace) -> None:
    prover.write("kernels/msm.cu", '#line 100 "fake.y"\nint msm;\n')
    report = prover.build_under_cargo()
    assert not [path for path in report.watched if "fake.y" in path]
    prover.compiles()
    prover.build()
    assert prover.compiles() == []


@pytest.mark.parametrize("place", ["system-include", "CPATH", "CPLUS_INCLUDE_PATH"])
def test_header_of_a_system_folder_is_tracked(prover: Workspace, place: str) -> None:
    prover.write("third/party.cuh", "#define PARTY 1\n")
    prover.write("kernels/msm.cu", "#include <party.cuh>\nint msm = PARTY;\n")
    env: Changes = {} if place == "system-include" else {place: str(prover.path("third"))}
    if not env:
        prover.config(**{place: ["third"]})
    prover.build(env=env)
    prover.compiles()
    prover.edit("third/party.cuh", "1", "2")
    prover.build(env=env)
    assert prover.compiles() == ["kernels/msm.cu"]
    prover.write("kernels/include/party.cuh", "#define PARTY 3\n")
    prover.build(env=env)
    assert "int msm = 3;" in prover.archive_text()


def test_preincluded_header_is_tracked(prover: Workspace) -> None:
    prover.write("kernels/include/pre.cuh", "int PRE_1;\n")
    prover.config(flags=["-include", "pre.cuh"])
    prover.build()
    prover.compiles()
    prover.edit("kernels/include/pre.cuh", "PRE_1", "PRE_2")
    prover.build()
    assert prover.compiles() == ALL


def test_host_source_is_built_and_tracked(prover: Workspace) -> None:
    prover.write("kernels/glue.cpp", '#include "field.cuh"\nint glue = FIELD;\n')
    prover.config(sources=["kernels/*.cu", "kernels/*.cpp"])
    prover.build()
    assert "kernels/glue.cpp" in prover.compiles()
    prover.edit("kernels/include/field.cuh", "FIELD 1", "FIELD 2")
    prover.build()
    assert "int glue = 2;" in prover.archive_text()


def test_file_edited_while_it_was_compiled_never_leaves_a_stale_object(built: Workspace) -> None:
    header = built.path("kernels/include/field.cuh")
    built.edit("kernels/include/field.cuh", "FIELD 1", "FIELD 2")
    built.build(env={"FAKE_NVCC_FAULT": f"edit-once:{header}"})
    built.build()
    assert built.archive_text().count("int MEANWHILE;") == 4  # a device and a host pass of two readers


def test_file_that_keeps_changing_ends_the_build_with_its_own_exit_code(built: Workspace) -> None:
    header = built.path("kernels/include/field.cuh")
    built.edit("kernels/include/field.cuh", "FIELD 1", "FIELD 2")
    report = built.build(env={"FAKE_NVCC_FAULT": f"edit:{header}"}, expect=4)
    assert "field.cuh" in report.error
    built.build()
    assert built.archive_text().count("int MEANWHILE;") >= 4


def test_moment_that_the_compiler_is_told_to_pretend_is_part_of_the_key(prover: Workspace) -> None:
    """C14: SOURCE_DATE_EPOCH decides what __DATE__ and __TIME__ give."""
    prover.write("kernels/hash.cu", "char const *built = __DATE__ __TIME__;\n")
    for moment in ("1700000000", "1800000000"):
        prover.build(env={"SOURCE_DATE_EPOCH": moment})
        assert moment in prover.archive_text()


@pytest.mark.parametrize("named", ["kernels/two", "{crate}/kernels/two", "kernels/link"])
def test_folder_that_is_a_system_folder_too_is_searched_in_the_later_place(prover: Workspace, named: str) -> None:
    """gcc leaves its -I out, so what is in another -I folder comes first."""
    prover.write("kernels/two/pick.cuh", "int from_two;\n")
    prover.symlink("kernels/link", "two")
    prover.path("kernels/other").mkdir()
    prover.write("kernels/hash.cu", "#include <pick.cuh>\n")
    prover.config(include=["kernels/two", "kernels/other", "kernels/include"], system_include=[named.format(crate=prover.crate)])
    prover.build()
    assert "from_two" in prover.archive_text()
    prover.write("kernels/other/pick.cuh", "int from_other;\n")
    assert prover.build().compiled == ["kernels/hash.cu"]
    assert "from_other" in prover.archive_text()
