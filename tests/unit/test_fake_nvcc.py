"""This module holds the fake nvcc to the facts that were measured on the real one; the other tests trust it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import archive
import pytest
from fake_nvcc import expected_object
from toolkit import ARCHS_12, FakeToolkit, run_nvcc

TWO_ARCHS = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90")


class Bench:
    """A folder and a toolkit; `compile` runs the fake and gives exit code, stderr and object."""

    def __init__(self, tmp_path: Path, toolkit: FakeToolkit) -> None:
        self.cwd, self.toolkit = tmp_path / "crate", toolkit
        (self.cwd / "kept").mkdir(parents=True)
        self.env = {"PATH": "/usr/bin:/bin"}

    def write(self, name: str, text: str) -> None:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def argv(self, *flags: str, source: str = "k.cu") -> list[str]:
        arch = () if any("arch" in flag for flag in flags) else ("-arch=sm_80",)
        return ["-c", *arch, *flags, "-MD", "-MF", "k.d", "--keep", "--keep-dir", "kept", "-o", "k.o", source]

    def run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run_nvcc(self.toolkit, *argv, cwd=self.cwd, env={**self.env, **env})

    def compile(self, *flags: str, code: int = 0, source: str = "k.cu", **env: str) -> str:
        done = self.run(*self.argv(*flags, source=source), **env)
        assert done.returncode == code, done.stderr
        return done.stderr

    @property
    def text(self) -> str:
        return (self.cwd / "k.o").read_bytes().decode("utf-8", "surrogateescape")

    @property
    def lines(self) -> list[str]:
        return (self.cwd / "k.d").read_text().splitlines()

    @property
    def headers(self) -> list[str]:
        """The crate's own prerequisites as the depfile spells them."""
        names = [line.removesuffix(" \\").strip() for line in self.lines]
        return [name for name in names[1:] if "/bin/.." not in name]


@pytest.fixture
def bench(tmp_path: Path, toolkit: FakeToolkit) -> Bench:
    return Bench(tmp_path, toolkit)


def test_object_is_a_pure_function_of_its_inputs(bench: Bench) -> None:
    bench.write("k.cu", "int one;\n")
    bench.compile()
    first = bench.text
    bench.compile()
    assert bench.text == first
    bench.write("k.cu", "int one; // a remark\n")
    bench.compile()
    assert bench.text == first
    bench.write("k.cu", "int two;\n")
    bench.compile()
    assert bench.text != first


def test_without_keep_the_object_differs_from_run_to_run(bench: Bench) -> None:
    bench.write("k.cu", "int one;\n")
    objects = []
    for _ in range(2):
        bench.run("-c", "-arch=sm_80", "-o", "k.o", "k.cu")
        objects.append(bench.text)
    assert objects[0] != objects[1]


def test_each_architecture_and_the_host_get_a_pass_of_their_own(bench: Bench) -> None:
    bench.write("k.cu", "#if __CUDA_ARCH__ >= 900\nint NINE;\n#elif defined(__CUDA_ARCH__)\nint EIGHT;\n#else\nint HOST;\n#endif\n")
    bench.compile(*TWO_ARCHS)
    assert bench.text.count("NINE") == bench.text.count("EIGHT") == bench.text.count("HOST") == 1
    bench.compile("-arch=sm_80")
    assert "NINE" not in bench.text


def test_depfile_is_the_union_of_the_passes_one_a_line(bench: Bench) -> None:
    bench.write("k.cu", '#if __CUDA_ARCH__ >= 900\n#include "nine.cuh"\n#elif !defined(__CUDA_ARCH__)\n#include "host.h"\n#endif\n')
    bench.write("nine.cuh", "")
    bench.write("host.h", "")
    bench.compile(*TWO_ARCHS)
    here = f"{bench.toolkit.root}/bin/..//include"
    assert bench.lines == [
        "k.o : k.cu \\",
        f"    {here}/cuda_runtime.h \\",
        f"    {here}/crt/host_config.h \\",
        "    nine.cuh \\",
        "    host.h",
    ]


def test_depfile_escapes_only_spaces_and_turns_backslashes_around(bench: Bench) -> None:
    names = ["h h.cuh", "a#b.cuh", "d$x.cuh", "ü.cuh", "back\\slash.cuh"]
    bench.write("k.cu", "".join(f'#include "{name}"\n' for name in names))
    for name in names:
        bench.write(name, "")
    bench.compile()
    assert bench.headers == ["h\\ h.cuh", "a#b.cuh", "d$x.cuh", "ü.cuh", "back/slash.cuh"]


def test_paths_are_listed_as_spelled(bench: Bench) -> None:
    bench.write("sub/k.cu", '#include "../sub/../sub/h.cuh"\n#include "i.cuh"\n')
    bench.write("sub/h.cuh", "")
    bench.write("inc/i.cuh", "")
    bench.compile("-I./inc", source="sub/k.cu")
    assert bench.headers == ["sub/../sub/../sub/h.cuh", "./inc/i.cuh"]


def test_quoted_name_is_looked_up_beside_the_includer_first(bench: Bench) -> None:
    bench.write("k.cu", '#include "one/a.cuh"\n#include <b.cuh>\n')
    bench.write("one/a.cuh", '#include "b.cuh"\n')
    bench.write("one/b.cuh", "int BESIDE;\n")
    bench.write("inc/b.cuh", "int FOUND;\n")
    bench.compile("-Iinc")
    assert bench.headers == ["one/a.cuh", "one/b.cuh", "inc/b.cuh"]


def test_search_order_is_include_cpath_system_cplus(bench: Bench) -> None:
    folders = ["inc", "cpath", "sys", "cplus"]
    env = {"CPATH": "cpath", "CPLUS_INCLUDE_PATH": "cplus"}
    bench.write("k.cu", "#include <h.cuh>\n")
    for folder in folders:
        bench.write(f"{folder}/h.cuh", f"int {folder};\n")
    for folder in folders:
        bench.compile("-isystem", "sys", "-Iinc", **env)
        assert bench.headers == [f"{folder}/h.cuh"]
        (bench.cwd / folder / "h.cuh").unlink()


def test_pragma_once_twins_with_one_mtime_are_one_file(bench: Bench) -> None:
    bench.write("k.cu", '#include "a/t.cuh"\n#include "b/t.cuh"\n')
    for name in ("a/t.cuh", "b/t.cuh"):
        bench.write(name, "#pragma once\nint TWIN;\n")
        os.utime(bench.cwd / name, (1_700_000_000.1, 1_700_000_000.1))
    bench.compile()
    assert bench.headers == ["a/t.cuh"]
    text = bench.text
    os.utime(bench.cwd / "b/t.cuh", (1_700_000_001, 1_700_000_001))
    bench.compile()
    assert bench.headers == ["a/t.cuh", "b/t.cuh"]
    assert bench.text == text, "a touch changes no object"


def test_macros_conditions_and_defines(bench: Bench) -> None:
    bench.write("v.h", "#define SIX (V * 2)\n#undef GONE\n")
    bench.write(
        "k.cu",
        '#include "v.h"\nint six = SIX;\n#if defined(FOO) && !defined(BAR) && V != 4\nint foo;\n#endif\n'
        '#if __has_include("maybe.h") || __has_include(<never.h>)\nint maybe;\n#endif\n#ifdef GONE\nint gone;\n#endif\nint line = __LINE__;\n',
    )
    bench.compile("-DV=3", "-DFOO", "-DGONE", "-UGONE")
    assert "int six = (3 * 2);" in bench.text and "int foo;" in bench.text and "int line = 12;" in bench.text
    assert "int maybe;" not in bench.text and "int gone;" not in bench.text
    bench.write("maybe.h", "")
    bench.compile("-DV=3", "-DFOO", "-DBAR")
    assert "int maybe;" in bench.text and "int foo;" not in bench.text
    assert bench.headers == ["v.h"], "__has_include lists nothing"


def test_comma_splits_a_define(bench: Bench) -> None:
    bench.write("k.cu", "int m = M;\n#ifdef b\nint SPLIT;\n#endif\n")
    bench.compile("-DM=a,b")
    assert "int m = a;" in bench.text and "SPLIT" in bench.text


@pytest.mark.parametrize("text", ['#include "nope.h"\n', "#error no\n"])
def test_preprocessing_error_leaves_no_depfile_and_the_old_object(bench: Bench, text: str) -> None:
    bench.write("k.cu", text)
    bench.write("k.o", "old")
    assert "k.cu:1:" in bench.compile(code=1)
    assert not (bench.cwd / "k.d").exists()
    assert bench.text == "old"


def test_missing_header_in_one_pass_only_is_an_error(bench: Bench) -> None:
    bench.write("k.cu", '#if __CUDA_ARCH__ >= 900\n#include "nope.h"\n#endif\n')
    bench.compile()
    bench.compile(*TWO_ARCHS, code=1)


def test_syntax_error_names_file_and_line_and_keeps_the_old_object(bench: Bench) -> None:
    bench.write("k.cu", '#include "h.cuh"\n')
    bench.write("h.cuh", "// SYNTAX_ERROR in a comment is none\nSYNTAX_ERROR\n")
    bench.write("k.o", "old")
    assert bench.compile(code=2).startswith('h.cuh(2): error: identifier "SYNTAX_ERROR" is undefined')
    assert bench.headers == ["h.cuh"]
    assert bench.text == "old"


def test_warning_is_printed_once_and_the_compile_succeeds(bench: Bench) -> None:
    bench.write("k.cu", "WARN unused variable\n")
    assert bench.compile(*TWO_ARCHS).count("k.cu(1): warning #177-D: unused variable") == 1


@pytest.mark.parametrize("change", ["flag", "define", "append", "tool", "variable", "host"])
def test_whatever_the_real_one_reads_changes_the_object(bench: Bench, change: str) -> None:
    bench.write("k.cu", "int one;\n")
    bench.compile()
    first = bench.text
    flags = {"flag": ["-lineinfo"], "define": ["-DX"], "host": ["-Xcompiler", "-fPIC"]}.get(change, [])
    env = {"append": {"NVCC_APPEND_FLAGS": "-DX"}, "variable": {"PTXAS_FLAGS": "-v"}}.get(change, {})
    if change == "tool":
        bench.toolkit.put("bin/ptxas", "#!/bin/sh\n# patched\n", mode=0o755)
    bench.compile(*flags, **env)
    assert bench.text != first


def test_object_passes_through_ar_and_is_found_again(bench: Bench) -> None:
    bench.write("k.cu", "int one;\n")
    bench.compile()
    subprocess.run(["ar", "crsD", "lib.a", "k.o"], cwd=bench.cwd, check=True)
    assert archive.members((bench.cwd / "lib.a").read_bytes()) == [("k.o", (bench.cwd / "k.o").read_bytes())]


def test_expected_object_is_what_a_run_writes(bench: Bench) -> None:
    bench.write("k.cu", '#include <h.cuh>\nint V;\n')
    bench.write("inc/h.cuh", "int ü;\n")
    argv = bench.argv("-Iinc", "-DV=3", *TWO_ARCHS)
    bench.compile("-Iinc", "-DV=3", *TWO_ARCHS)
    code, data, reads = expected_object(
        str(bench.toolkit.nvcc), bench.toolkit.version, bench.toolkit.archs, argv, str(bench.cwd), bench.env
    )
    assert (code, data) == (0, (bench.cwd / "k.o").read_bytes())
    assert reads[-1] == "inc/h.cuh"


def test_nvcc_called_through_a_link_has_no_profile_and_no_headers(bench: Bench) -> None:
    bench.write("k.cu", "")
    link = bench.cwd / "nvcc"
    link.symlink_to(bench.toolkit.nvcc)
    done = subprocess.run([link, *bench.argv()], cwd=bench.cwd, env=bench.env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cuda_runtime.h: No such file" in done.stderr


@pytest.mark.parametrize("flags", [("-gencode", "arch=compute_70,code=sm_70"), ("--dryrun", "-arch=compute_70")])
def test_unknown_architecture_is_refused(bench: Bench, flags: tuple[str, ...]) -> None:
    bench.write("k.cu", "")
    assert bench.compile(*flags, code=1) == "nvcc fatal   : Unsupported gpu architecture 'compute_70'\n"


def test_unknown_option_is_refused(bench: Bench) -> None:
    assert bench.compile("-foo", code=1) == "nvcc fatal   : Unknown option '-foo'\n"


def test_missing_host_compiler_is_refused(bench: Bench) -> None:
    bench.write("k.cu", "")
    assert "Failed to preprocess host compiler properties." in bench.compile("-ccbin", "/usr/bin/g++-99", code=1)
    assert "Failed to preprocess host compiler properties." in bench.compile(NVCC_CCBIN="/usr/bin/g++-99", code=1)


def test_version_and_lists_follow_the_toolkit(bench: Bench) -> None:
    bench.toolkit.archs = ARCHS_12
    bench.toolkit.install_nvcc("12.4.131")
    assert "release 12.4, V12.4.131" in bench.run("--version").stdout
    assert bench.run("--list-gpu-arch").stdout.split()[:2] == ["compute_50", "compute_52"]
    assert "sm_90" in bench.run("--list-gpu-code").stdout.split()


def test_dry_run_prints_variables_and_steps_and_compiles_nothing(bench: Bench) -> None:
    flags = ("--dryrun", *TWO_ARCHS, "-Iinc", "-isystem", "sys", "-DX=1", "-c", "-x", "cu", "/dev/null", "-o", "x.o")
    done = bench.run(*flags, NVCC_APPEND_FLAGS="-DY")
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and all(line.startswith("#$ ") for line in lines)
    assert f"#$ TOP={bench.toolkit.root}/bin/.." in lines
    assert '#$ NVCC_APPEND_FLAGS="-DY"' in lines
    host = next(line for line in lines if "cpp4.ii" in line)
    assert host.startswith("#$ gcc ") and '-I"inc"' in host and '-isystem "sys"' in host and '-D "X=1" -D "Y"' in host
    assert "-D__CUDA_ARCH_LIST__=800,900" in host
    assert [line.split()[1] for line in lines if line.startswith("#$ ptxas")] == ["ptxas", "ptxas"]
    assert not (bench.cwd / "x.o").exists()


def test_native_without_a_gpu_warns_and_succeeds(bench: Bench) -> None:
    bench.write("k.cu", "")
    assert "Cannot find valid GPU for '-arch=native'" in bench.compile("-arch=native")


def test_missing_temporary_folder_is_an_error(bench: Bench) -> None:
    bench.write("k.cu", "")
    assert "Could not open output file" in bench.compile(code=1, TMPDIR="/nonexistent/x")


@pytest.mark.parametrize(
    ("fault", "code", "size"), [("truncate", 0, "half"), ("empty-object", 0, "none"), ("crash", -signal.SIGKILL, "half")]
)
def test_faults_that_spoil_the_object(bench: Bench, fault: str, code: int, size: str) -> None:
    bench.write("k.cu", "")
    bench.compile()
    whole = len(bench.text)
    bench.compile(code=code, FAKE_NVCC_FAULT=fault)
    assert len(bench.text) == {"half": whole // 2, "none": 0}[size]


def test_faults_that_spoil_the_depfile(bench: Bench) -> None:
    bench.write("k.cu", "")
    bench.compile(FAKE_NVCC_FAULT="empty-depfile")
    assert bench.lines == ["k.o :"]
    (bench.cwd / "k.d").unlink()
    bench.compile(FAKE_NVCC_FAULT="no-depfile")
    assert not (bench.cwd / "k.d").exists()
    bench.compile(FAKE_NVCC_FAULT="half-depfile", code=1)
    assert not bench.lines[-1].endswith("host_config.h")


def test_fault_may_be_meant_for_one_source(bench: Bench) -> None:
    bench.write("k.cu", "")
    bench.compile(FAKE_NVCC_FAULT="crash", FAKE_NVCC_FAULT_SOURCE="other.cu")


def test_edit_fault_changes_a_file_after_it_was_read(bench: Bench) -> None:
    bench.write("k.cu", '#include "h.cuh"\n')
    bench.write("h.cuh", "int h;\n")
    for _ in range(2):
        bench.compile(FAKE_NVCC_FAULT=f"edit-once:{bench.cwd}/h.cuh")
    assert (bench.cwd / "h.cuh").read_text() == "int h;\nint MEANWHILE;\n"
    bench.compile(FAKE_NVCC_FAULT=f"edit:{bench.cwd}/h.cuh")
    assert (bench.cwd / "h.cuh").read_text().count("MEANWHILE") == 2


def test_killed_driver_leaves_its_child_as_the_real_one_does(bench: Bench, tmp_path: Path) -> None:
    import json

    bench.write("k.cu", "")
    log = tmp_path / "log"
    env = {**bench.env, "FAKE_NVCC_FAULT": "hang", "FAKE_NVCC_LOG": str(log), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([bench.toolkit.nvcc, *bench.argv()], cwd=bench.cwd, env=env, start_new_session=True) as nvcc:
        while not log.exists() or not log.read_text().endswith("\n"):
            time.sleep(0.01)
        child = json.loads(log.read_text())["child"]
        nvcc.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            nvcc.wait(0.2)
        os.killpg(nvcc.pid, signal.SIGINT)
        assert nvcc.wait(5) == 2
    assert not list(tmp_path.glob("tmpxft_*"))
    assert not Path(f"/proc/{child}").exists()
