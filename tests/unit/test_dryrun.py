"""This module tests the reading of `nvcc --dryrun` on what three toolkits printed for twenty sets of options."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from cudabuild.errors import ToolchainError
from cudabuild.host import Environment
from cudabuild.nvcc import dryrun, find

DATA = Path(__file__).parent.parent / "data" / "dryrun"
FILES = sorted(DATA.glob("*/*.txt"))
VERSIONS = ["12.4", "13.0", "13.5"]


def parsed(version: str, name: str) -> dryrun.DryRun:
    return dryrun.parse((DATA / version / f"{name}.txt").read_text())


def of_line(command: str) -> dryrun.DryRun:
    return dryrun.parse(f"#$ _HERE_=/t/bin\n#$ {command}\n")


def test_the_data_is_there() -> None:
    assert len(FILES) == 60


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_line_is_a_variable_or_a_command(file: Path) -> None:
    text = file.read_text()
    plan = dryrun.parse(text)
    lines = [line[3:].rstrip() for line in text.splitlines() if line.startswith("#$ ")]
    commands = [re.sub(r" +> /tmp/.*", "", line) for line in lines if not re.match(r"\w+=|-- Filter", line)]
    assert list(plan.commands) == commands
    assert all(plan.variables[name] is not None for name in ("_HERE_", "TOP", "INCLUDES", "LIBRARIES", "PATH"))
    assert len(commands) + sum(bool(re.match(r"\w+=", line)) for line in lines) + text.count("-- Filter") == len(lines)


@pytest.mark.parametrize("version", VERSIONS)
def test_variables_are_raw_and_the_last_of_a_name_counts(version: str) -> None:
    variables = parsed(version, "two-archs").variables
    assert variables["_SPACE_"] == " "
    assert variables["_TARGET_SIZE_"] == ("" if version == "13.0" else "64")
    assert variables["TOP"] == variables["_HERE_"] + "/.."
    assert variables["INCLUDES"].startswith('"-I')
    assert ("CICC_PATH" in variables) == (version != "12.4")


def test_an_assignment_in_a_command_is_no_variable() -> None:
    plan = dryrun.parse("#$ A=1\n#$ gcc -E x\n#$ B=2 gcc -c x\nnvcc warning : ignored\n# exit 0\n")
    assert plan.variables == {"A": "1"}
    assert plan.commands == ("gcc -E x", "B=2 gcc -c x")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["two-archs", "md", "scan", "threads", "kind-ptx", "define-space", "keep"])
def test_host_compiler_is_the_preprocessors_first_word(version: str, name: str) -> None:
    assert dryrun.host_compiler(parsed(version, name)) == "gcc"


def test_host_compiler_with_ccbin_is_a_path() -> None:
    assert dryrun.host_compiler(of_line('"/usr/my bin"/g++ -D__CUDA_ARCH_LIST__=750 -E -x c++ "k.cu" -o "k.ii"')) == "/usr/my bin/g++"


def test_dry_run_without_a_preprocessor_is_an_error() -> None:
    with pytest.raises(ToolchainError, match="no preprocessor command"):
        dryrun.host_compiler(parsed("13.0", "dlink"))


def test_include_dirs_of_the_toolkits() -> None:
    old, split, wheel = (dryrun.include_dirs(parsed(version, "two-archs")) for version in VERSIONS)
    assert old == (dryrun.IncludeDir("/opt/cuda-12.4/bin/..//include", "user"),)
    assert split == (
        dryrun.IncludeDir("/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include", "user"),
        dryrun.IncludeDir("/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/cccl", "system"),
    )
    assert [entry.kind for entry in wheel] == ["user", "system"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_users_include_dirs_come_along_first(version: str) -> None:
    assert dryrun.include_dirs(parsed(version, "one-arch"))[0] == dryrun.IncludeDir("cuda", "user")


def test_include_dirs_are_in_search_order_in_joined_and_separate_forms() -> None:
    """As 13.0 prints them for -Xcompiler -idirafter,after,-iquote,quote -Isp ace -I../x -isystem s1 -isystem=s2."""
    plan = of_line(
        'gcc -std=c++17 -E -x c++ -fPIC -idirafter after -iquote quote -O3 -I"sp ace" -I"../x" "-I/t/include" -I last '
        '-isystem "s1" -isystem"s2" "-isystem" "/t/include/cccl" -D "X" -D "-Ifake" -include "cuda_runtime.h" -m64 "k.cu" -o "-Ik.ii" '
    )
    assert [(entry.kind, entry.path) for entry in dryrun.include_dirs(plan)] == [
        ("quote", "quote"),
        ("user", "sp ace"), ("user", "../x"), ("user", "/t/include"), ("user", "last"),
        ("system", "s1"), ("system", "s2"), ("system", "/t/include/cccl"),
        ("after", "after"),
    ]  # fmt: skip


def test_host_flags_are_what_is_neither_folder_nor_macro_nor_file() -> None:
    plan = of_line(
        'gcc -std=c++17 -E -x c++ -DA=1 -D "MSG=\\"a b\\"" -U B -fPIC -march=native --sysroot /s -O3 -I"inc" -isystem "s" '
        '-include "cuda_runtime.h" -m64 "k.cu" -o "k.ii"'
    )
    assert dryrun.host_flags(plan) == ("-std=c++17", "-fPIC", "-march=native", "--sysroot", "/s", "-O3", "-m64")
    assert dryrun.host_flags(parsed("13.5", "one-arch")) == ("-fPIC", "-O3", "-m64")


def test_library_dirs_of_the_toolkits() -> None:
    assert dryrun.library_dirs(parsed("12.4", "default")) == ("/opt/cuda-12.4/lib64/stubs", "/opt/cuda-12.4/lib64")
    assert dryrun.library_dirs(parsed("13.5", "default")) == ("/opt/venv/nvidia/cu13/lib/stubs", "/opt/venv/nvidia/cu13/lib")
    spaced = dryrun.parse('#$ LIBRARIES=  "-L/a b/lib" -L /c -lfoo\n')
    assert dryrun.library_dirs(spaced) == ("/a b/lib", "/c")


@pytest.mark.parametrize("version", VERSIONS)
def test_tools_are_found_where_the_dry_run_says(version: str, tmp_path: Path) -> None:
    """The same tree under both ways to say where cicc is: PATH in 12.4, CICC_PATH since."""
    text = (DATA / version / "two-archs.txt").read_text()
    top = dryrun.parse(text).variables["TOP"].removesuffix("/bin/..")
    here = tmp_path / "toolkit"
    tree = ["bin/nvcc", "bin/nvcc.profile", "nvvm/bin/cicc", "bin/ptxas", "bin/cudafe++", "bin/fatbinary"]
    tree.append("nvvm/libdevice/libdevice.10.bc")
    for name in tree:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("")
    tools = dryrun.tool_paths(dryrun.parse(text.replace(top, str(here))))
    found = {name: os.path.normpath(path) for name, path in tools}
    assert found == {os.path.basename(name): str(here / name) for name in tree}  # and no nvlink, which is missing


def test_tool_paths_keep_a_link_that_may_lead_elsewhere_tomorrow(tmp_path: Path) -> None:
    (tmp_path / "cuda-13.0/bin").mkdir(parents=True)
    (tmp_path / "cuda-13.0/bin/ptxas").write_text("")
    (tmp_path / "cuda").symlink_to("cuda-13.0")
    assert dryrun.tool_paths(dryrun.parse(f"#$ PATH={tmp_path}/cuda/bin\n")) == (("ptxas", f"{tmp_path}/cuda/bin/ptxas"),)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_command_text_does_not_hold_the_process_id(file: Path) -> None:
    text = file.read_text()
    (process,) = set(re.findall(r"tmpxft_[0-9a-f]{8}_", text)) or {"tmpxft_none_"}
    again = text.replace(process, "tmpxft_0abc1234_")
    assert dryrun.command_text(dryrun.parse(text)) == dryrun.command_text(dryrun.parse(again))


@pytest.mark.parametrize("version", VERSIONS)
def test_command_text_does_not_hold_the_files_of_parallel_steps(version: str) -> None:
    text = (DATA / version / "threads.txt").read_text()
    again = re.sub(r"-13_[0-9a-f]+_std", "-13_0abcdef0_std", text)
    assert again != text
    assert dryrun.command_text(dryrun.parse(again)) == dryrun.command_text(dryrun.parse(text))
    assert dryrun.command_text(parsed("13.5", "threads")).count("gcc -D__CUDA_ARCH") == 4


def test_command_text_does_not_hold_the_temporary_folder() -> None:
    text = (DATA / "13.5" / "rdc.txt").read_text()
    moved = text.replace("/tmp/tmpxft_", "/var/my tmp/tmpxft_")
    assert moved != text
    assert dryrun.command_text(dryrun.parse(moved)) == dryrun.command_text(dryrun.parse(text))


def test_command_text_holds_every_flag() -> None:
    texts = {dryrun.command_text(parsed("13.5", name)) for name in ("two-archs", "rdc", "lineinfo", "two-archs-ptx", "one-arch")}
    assert len(texts) == 5


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_host_check_reads_only_the_header_that_refuses_compilers(file: Path) -> None:
    check = dryrun.host_check(dryrun.parse(file.read_text()))
    if file.stem == "dlink":
        assert check is None
    else:
        assert check is not None
        assert '-include "crt/host_config.h"' in check and "cuda_runtime.h" not in check
        assert check.endswith('"/dev/null" -o "/dev/null"')


@pytest.fixture
def nvcc() -> str:
    try:
        return find.find(None, Environment(os.environ)).nvcc
    except ToolchainError:
        pytest.skip("no nvcc on this machine")


@pytest.mark.nvcc
def test_a_real_nvcc(nvcc: str) -> None:
    def ask(*flags: str) -> dryrun.DryRun:
        done = subprocess.run(
            [nvcc, "--dryrun", *flags, "-c", "-x", "cu", "/dev/null", "-o", "x.o"], capture_output=True, text=True, check=True
        )
        return dryrun.parse(done.stderr)

    flags = ("-Xcompiler", "-fPIC,-iquote,q", "-I", "sp ace", "-isystem=s", "-DMSG=\"a b\"", "-rdc=true", "-lineinfo")
    plan = ask(*flags)
    assert dryrun.command_text(plan) == dryrun.command_text(ask(*flags))
    assert plan.commands != ask(*flags).commands
    kinds = [(entry.kind, entry.path) for entry in dryrun.include_dirs(plan)]
    assert kinds[:2] == [("quote", "q"), ("user", "sp ace")]
    assert ("system", "s") in kinds
    toolkit_folder = kinds[2][1]
    assert os.path.isfile(os.path.join(toolkit_folder, "cuda_runtime.h"))
    assert "-fPIC" in dryrun.host_flags(plan) and "-m64" in dryrun.host_flags(plan)
    assert [name for name, _ in dryrun.tool_paths(plan)] == [
        "nvcc", "nvcc.profile", "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink", "libdevice.10.bc"
    ]  # fmt: skip
    check = dryrun.host_check(plan)
    assert check is not None
    assert subprocess.run(["sh", "-c", check], capture_output=True, check=False).returncode == 0


def test_header_forced_by_the_user_is_told_from_nvccs_own() -> None:
    forced = 'gcc -D__CUDA_ARCH__=800 -E -x c++ {} -include "cuda_runtime.h" -m64 "k.cu" -o "k.ii"'
    assert not dryrun.forces_includes(of_line(forced.format("")))
    assert dryrun.forces_includes(of_line(forced.format('-include "f.h"')))
