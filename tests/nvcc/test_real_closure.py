"""Everything that a real nvcc reads, or would read if it were there, decides whether a unit is compiled again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from real import Project, unit_source, unit_text

pytestmark = pytest.mark.nvcc

K = "kernels/k.cu"


def assert_compiled_for(project: Project, *names: str) -> None:
    """The unit is compiled, for these reasons and no other; then there is nothing left to do."""
    report = project.settle()
    assert report.compiled == [K]
    # A header keeps the spelling under which nvcc found it.
    assert sorted(map(os.path.normpath, report.changes(K))) == sorted(names)


def assert_text(project: Project, text: str) -> None:
    assert text in project.archive_text()


# What nvcc reads


def test_headers_of_every_pass_are_read(project: Project) -> None:
    """C11: one pass for each architecture and one for the host, each with an include of its own."""
    headers = {"only90.cuh": "__CUDA_ARCH__ >= 900", "only80.cuh": "defined(__CUDA_ARCH__)", "host.cuh": "1"}
    for name in headers:
        project.write(f"kernels/{name}", "#define VAL 1\n")
    choice = "#el".join(f'if {condition}\n#include "{name}"\n' for name, condition in headers.items())
    project.write(K, f"#{choice}#endif\n{unit_source('VAL')}")
    project.config(arch=["80", "90"])
    project.settle()
    for name in headers:
        project.edit(f"kernels/{name}", "VAL 1", "VAL 2")
    assert_compiled_for(project, *(f"kernels/{name}" for name in headers))
    # Without the architecture nobody reads its header.
    project.config(arch=["80"])
    project.settle()
    project.edit("kernels/only90.cuh", "VAL 2", "VAL 3")
    assert project.build().compiled == []


def test_host_only_text_counts(project: Project) -> None:
    """C11: `nvcc -E` never shows it."""
    project.write("kernels/k.cuh", '#ifndef __CUDA_ARCH__\n#define TEXT "one"\n#else\n#define TEXT ""\n#endif\n')
    project.write(K, unit_text("k.cuh"))
    project.settle()
    assert_text(project, "one")
    project.edit("kernels/k.cuh", '"one"', '"two"')
    assert_compiled_for(project, "kernels/k.cuh")
    assert_text(project, "two")


def test_headers_of_system_folders_and_of_the_environment_are_read(project: Project) -> None:
    """`nvcc -MM` leaves these out."""
    folders = {"sys": "system/sys.cuh", "cpath": "cpath/cpath.cuh", "cplus": "cplus/cplus.cuh"}
    for name, place in folders.items():
        project.write(place, f"#define {name.upper()} 1\n")
    project.write(K, unit_source("SYS + CPATH + CPLUS", tuple(f"<{name}.cuh>" for name in folders)))
    project.config(system_include=["system"])
    project.env |= {"CPATH": str(project.path("cpath")), "CPLUS_INCLUDE_PATH": str(project.path("cplus"))}
    project.settle()
    for name, place in folders.items():
        project.edit(place, f"{name.upper()} 1", f"{name.upper()} 2")
    assert_compiled_for(project, *folders.values())


def test_header_given_by_a_flag_is_read(project: Project) -> None:
    project.write("kernels/forced.cuh", "#define VAL 1\n")
    project.write(K, unit_source("VAL"))
    project.config(flags=["--pre-include=kernels/forced.cuh"])
    project.settle()
    project.edit("kernels/forced.cuh", "VAL 1", "VAL 2")
    assert_compiled_for(project, "kernels/forced.cuh")


def test_strange_names_are_read_as_they_are(project: Project) -> None:
    """C09, C10: nvcc writes them into its dependency file half escaped and not normalised."""
    names = ["h h.cuh", "a#b.cuh", "d$x.cuh", "ü.cuh", "p%c;*(1)=@.cuh", "c:d.cuh"]
    for number, name in enumerate(names):
        project.write(f"kernels/{name}", f"#define V{number} 1\n")
    project.write("kernels/sub/far.cuh", "#define FAR 1\n")
    values = " + ".join([f"V{number}" for number in range(len(names))] + ["FAR"])
    project.write(K, unit_source(values, (*names, "../kernels/sub/../sub/far.cuh")))
    project.settle()
    for number, name in enumerate(names):
        project.edit(f"kernels/{name}", f"V{number} 1", f"V{number} 2")
    project.edit("kernels/sub/far.cuh", "FAR 1", "FAR 2")
    assert_compiled_for(project, *(f"kernels/{name}" for name in names), "kernels/sub/far.cuh")


def test_byte_order_marks_and_carriage_returns_do_no_harm(project: Project) -> None:
    project.write("kernels/k.cuh", '\ufeff#pragma once\r\n#define TEXT "one"\r\n')
    project.write(K, "\ufeff" + unit_text("k.cuh").replace("\n", "\r\n"))
    project.settle()
    project.edit("kernels/k.cuh", '"one"', '"two"')
    assert_compiled_for(project, "kernels/k.cuh")
    assert_text(project, "two")


def test_name_in_a_line_directive_is_no_file(project: Project) -> None:
    project.write("kernels/k.cuh", '#line 100 "grammar.y"\n#define VAL 1\n')
    project.write(K, unit_source("VAL", ("k.cuh",)) + '#line 7 "grammar.y"\nint more() { return 0; }\n')
    project.settle()
    project.edit("kernels/k.cuh", "VAL 1", "VAL 2")
    assert_compiled_for(project, "kernels/k.cuh")


def test_copy_that_pragma_once_skipped_is_read(project: Project) -> None:
    """Two files of one content, size and second are one for gcc, so nvcc does not report the second. A git checkout makes such."""
    for place in ("a", "b"):
        project.write(f"kernels/{place}/same.cuh", '#pragma once\n#undef TEXT\n#define TEXT "one"\n')
        project.set_mtime(f"kernels/{place}/same.cuh", 1_700_000_000)
    project.write(K, unit_text("a/same.cuh", "b/same.cuh"))
    project.settle()
    project.edit("kernels/b/same.cuh", '"one"', '"two"')
    assert_compiled_for(project, "kernels/b/same.cuh")
    assert_text(project, "two")


def test_link_that_leads_elsewhere_is_a_change(project: Project) -> None:
    project.write("kernels/one.cuh", '#define TEXT "one"\n')
    project.write("kernels/two.cuh", '#define TEXT "two"\n')
    project.symlink("kernels/link.cuh", "one.cuh")
    project.write(K, unit_text("link.cuh"))
    project.settle()
    project.symlink("kernels/link.cuh", "two.cuh")
    assert_compiled_for(project, "kernels/link.cuh")
    assert_text(project, "two")
    project.edit("kernels/two.cuh", '"two"', '"three"')
    assert_compiled_for(project, "kernels/link.cuh")
    assert_text(project, "three")


def test_removed_header_fails_the_build_until_it_is_back(project: Project) -> None:
    project.write("kernels/k.cuh", "#define VAL 1\n")
    project.write(K, unit_source("VAL", ("k.cuh",)))
    project.settle()
    project.remove("kernels/k.cuh")
    failed = project.build(expect=1)
    assert failed.failed == [K] and failed.reason(K) == "kernels/k.cuh is gone"
    assert "k.cuh: No such file or directory" in failed.units[K]["output"]
    project.write("kernels/k.cuh", "#define VAL 1\n")
    # The object of before was made of the same bytes.
    assert project.settle().compiled == []


def test_unit_that_embeds_a_file_is_always_compiled(project: Project) -> None:
    """The assembler reads it, and tells nobody."""
    project.write("kernels/table.bin", "first table")
    project.write(K, unit_source("1") + '#ifndef __CUDA_ARCH__\nasm(".incbin \\"kernels/table.bin\\"");\n#endif\n')
    for text in ("first table", "first table", "other table"):
        project.write("kernels/table.bin", text)
        report = project.build()
        assert report.compiled == [K]
        assert_text(project, text)
    assert report.reason(K) == "kernels/k.cu reads files by .incbin or #embed"


# What nvcc would read if it were there


def test_header_that_comes_to_stand_before_another_is_read_instead(project: Project) -> None:
    project.write("second/s.cuh", '#define TEXT "second"\n')
    project.path("first").mkdir()
    project.write(K, unit_text("s.cuh"))
    project.config(include=["first", "second"])
    project.settle()
    for place in ("first/s.cuh", "kernels/s.cuh"):
        project.write(place, f'#define TEXT "{place}"\n')
        assert_compiled_for(project, place)
        assert_text(project, place)
    project.remove("kernels/s.cuh")
    assert_compiled_for(project, "kernels/s.cuh")
    assert_text(project, "first/s.cuh")
    project.remove("first/s.cuh")
    assert_compiled_for(project, "first/s.cuh")
    assert_text(project, "second")


def test_search_folder_that_comes_to_exist_is_searched(project: Project) -> None:
    project.write("second/s.cuh", '#define TEXT "second"\n')
    project.write(K, unit_text("s.cuh"))
    project.config(include=["generated/include", "second"])
    project.settle()
    project.write("generated/include/s.cuh", '#define TEXT "generated"\n')
    assert project.settle().compiled == [K]
    assert_text(project, "generated")


def test_header_that_is_asked_for_turns_true_and_false(project: Project) -> None:
    question = '#if __has_include("maybe.cuh")\n#define TEXT "there"\n#else\n#define TEXT "missing"\n#endif\n'
    project.write("kernels/k.cuh", question)
    project.write(K, unit_text("k.cuh"))
    project.settle()
    assert_text(project, "missing")
    project.write("kernels/maybe.cuh", "// never entered\n")
    assert_compiled_for(project, "kernels/maybe.cuh")
    assert_text(project, "there")
    # Only its presence counts.
    project.write("kernels/maybe.cuh", "// never entered, edited\n")
    assert project.build().compiled == []
    project.remove("kernels/maybe.cuh")
    assert_compiled_for(project, "kernels/maybe.cuh")
    assert_text(project, "missing")


# When, where from, with what


def test_times_decide_nothing(project: Project) -> None:
    """C04"""
    project.write("kernels/k.cuh", '#define TEXT "one"\n')
    project.write(K, unit_text("k.cuh"))
    project.settle()
    for name in ("kernels/k.cuh", K, "cudabuild.toml"):
        project.touch(name)
    assert project.build().compiled == []
    project.edit("kernels/k.cuh", '"one"', '"two"')
    project.set_mtime("kernels/k.cuh", 1_000_000_000)
    assert_compiled_for(project, "kernels/k.cuh")
    assert_text(project, "two")
    project.edit_keeping_mtime("kernels/k.cuh", '"two"', '"new"')
    assert_compiled_for(project, "kernels/k.cuh")
    assert_text(project, "new")


def test_the_caller_s_folder_decides_nothing(project: Project) -> None:
    """C09"""
    project.write("include/r.cuh", '#define TEXT "own"\n')
    project.write(K, unit_text("r.cuh"))
    project.config(include=["include"])
    decoy = project.root / "include/r.cuh"
    decoy.parent.mkdir()
    decoy.write_text('#define TEXT "decoy"\n')
    assert [project.build(cwd=cwd).compiled for cwd in (project.crate, project.root, Path("/"))] == [[K], [], []]
    assert_text(project, "own")
    decoy.write_text("#error\n")
    project.edit("include/r.cuh", "own", "new")
    assert project.build(cwd=project.root).changes(K) == ["include/r.cuh"]
    assert_text(project, "new")


def test_flags_of_the_environment_are_nvcc_s_and_decide(project: Project) -> None:
    """C14"""
    project.write(K, '#ifdef FOO\n#define TEXT "with"\n#else\n#define TEXT "without"\n#endif\n' + unit_text())
    project.settle()
    project.env["NVCC_APPEND_FLAGS"] = "-DFOO"
    assert_compiled_for(project, "NVCC_APPEND_FLAGS")
    assert_text(project, "with\0")
    del project.env["NVCC_APPEND_FLAGS"]
    project.env["NVCC_PREPEND_FLAGS"] = "-DBAR"
    assert_compiled_for(project, "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")
    assert_text(project, "without\0")


def copy_of_toolkit(nvcc: str, root: Path) -> Path:
    """A toolkit at `root` that is the real one through links, but for nvcc itself: it takes its own path for the toolkit's."""
    real = Path(nvcc).resolve().parents[1]
    if not (real / "bin/ptxas").exists() or not (real / "nvvm/bin/cicc").exists():
        pytest.skip(f"{real} is not laid out as a toolkit")
    for folder in ("bin", "nvvm/bin"):
        (root / folder).mkdir(parents=True)
        for path in (real / folder).iterdir():
            (root / folder / path.name).symlink_to(path)
    for path in [*real.iterdir(), *(real / "nvvm").iterdir()]:
        place = root / path.relative_to(real)
        if not place.exists():
            place.symlink_to(path)
    (root / "bin/nvcc").unlink()
    shutil.copy2(real / "bin/nvcc", root / "bin/nvcc")
    return root


def wrap(tool: Path, comment: str) -> None:
    """Put a script in a tool's place that does the same."""
    real = tool.resolve()
    if tool.is_symlink():
        tool.unlink()
        tool.with_name(f"{tool.name}.real").symlink_to(real)
    tool.write_text(f'#!/bin/sh\n# {comment}\nexec "$0.real" "$@"\n')
    tool.chmod(0o755)


def test_tools_decide_by_what_they_are(project: Project) -> None:
    """C15: a tool replaced in place, its size and time of change put back, is another tool."""
    toolkit = copy_of_toolkit(project.nvcc, project.root / "toolkit")
    project.env["NVCC"] = str(toolkit / "bin/nvcc")
    project.write(K, unit_source("1"))
    project.settle()
    for tool in ("bin/ptxas", "nvvm/bin/cicc"):
        wrap(toolkit / tool, "first")
        assert_compiled_for(project, Path(tool).name)
    ptxas = toolkit / "bin/ptxas"
    times = ptxas.stat()
    wrap(ptxas, "other")
    os.utime(ptxas, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert ptxas.stat().st_size == times.st_size
    assert_compiled_for(project, "ptxas")


def test_toolkit_s_header_is_read_as_any_other(project: Project) -> None:
    toolkit = copy_of_toolkit(project.nvcc, project.root / "toolkit")
    include = (toolkit / "include").resolve()
    (toolkit / "include").unlink()
    (toolkit / "include").mkdir()
    for path in include.iterdir():
        (toolkit / "include" / path.name).symlink_to(path)
    header = toolkit / "include/vector_types.h"
    text = header.read_text()
    header.unlink()
    header.write_text(text)
    project.env["NVCC"] = str(toolkit / "bin/nvcc")
    project.write(K, unit_source("1"))
    project.settle()
    header.write_text(text + "// edited\n")
    report = project.settle()
    assert report.compiled == [K] and "vector_types.h changed" in report.reason(K)


def test_removed_include_of_the_source_is_forgotten(project: Project) -> None:
    project.write("kernels/k.cuh", "#define VAL 1\n")
    project.write(K, unit_source("VAL", ("k.cuh",)))
    project.settle()
    project.write(K, unit_source("2"))
    assert_compiled_for(project, K)
    project.edit("kernels/k.cuh", "VAL 1", "VAL 2")
    assert project.build().compiled == []


# Architectures


def test_native_without_a_gpu_is_an_error_or_a_warning_and_never_silent(project: Project) -> None:
    """C28"""
    if shutil.which("nvidia-smi", path=project.env["PATH"]):
        pytest.skip("this machine may have a GPU")
    project.write(K, unit_source("1"))
    project.config(arch=["native"])
    alone = project.build(expect=3)
    assert "shows no GPU" in alone.error and alone.compiled == []
    project.config(arch=["80", "native"])
    beside = project.build()
    assert beside.compiled == [K] and beside.data["archs"] == ["sm_80"]
    assert "shows no GPU" in " ".join(beside.data["warnings"])
    project.config(arch=["80"], flags=["-arch=native"])
    assert "`arch`" in project.build(expect=2).error


@pytest.mark.parametrize("arch", ["70", "130"])
def test_architecture_that_the_toolkit_lacks_fails_before_any_compile(project: Project, arch: str) -> None:
    """C29"""
    for name in ("k", "l", "m"):
        project.write(f"kernels/{name}.cu", unit_source("1", name=name))
    project.config(arch=[arch, "80"])
    report = project.build(expect=2)
    assert f"cannot build for {arch}" in report.error
    assert project.nvcc in report.error and "80" in report.error
    assert report.stderr.count("cannot build") == 1
    assert report.compiled == []


def test_forced_header_is_looked_for_in_the_crates_folder_first(project: Project) -> None:
    """-include searches the current folder, then the -I folders; a new file in the former wins."""
    project.write("kernels/include/forced.h", '#define TEXT "inner"\n')
    project.write(K, unit_text())
    project.config(include=["kernels/include"], flags=["-include", "forced.h"])
    project.settle()
    assert_text(project, "inner")
    project.write("forced.h", '#define TEXT "outer"\n')
    assert_compiled_for(project, "forced.h")
    assert_text(project, "outer")
