"""This module tests which host compiler is chosen, and how nvcc's refusal of one is explained."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cudabuild.errors import ConfigError, CudabuildError, ToolchainError
from cudabuild.host import Environment
from cudabuild.nvcc import dryrun, find, hostcxx

TRIPLE = "x86_64-unknown-linux-gnu"
GCC_REFUSED = """In file included from /t/bin/..//include/cuda_runtime.h:82,
                 from <command-line>:
/t/bin/..//include/crt/host_config.h:137:2: error: #error -- unsupported GNU version! gcc versions later than 13 are not \
supported! The nvcc flag '-allow-unsupported-compiler' can be used to override this version check; however, using an \
unsupported host compiler may cause compilation failure or incorrect run time execution. Use at your own risk.
  137 | #error -- unsupported GNU version! gcc versions later than 13 are not supported! The nvcc flag '-allow-unsupported-compiler'
"""
CLANG_REFUSED = """/t/include/crt/host_config.h:151:2: error: #error -- unsupported clang version! clang version must be less than 18 \
and greater than 3.2 . The nvcc flag '-allow-unsupported-compiler' can be used to override this version check
"""
NOT_THERE = "/usr/bin/g++-99: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties.\n"


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    """A folder for PATH with compilers that do nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("gcc", "g++", "clang++", "ccache", "sccache", "g++-9", "g++-12", "g++-13", "g++-14", "clang++-17", "clang++-18"):
        program(folder / name)
    return folder


def program(path: Path, text: str = "exit 0") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def choose(bin: Path, setting: str | None = None, flags: tuple[str, ...] = (), /, **variables: str) -> hostcxx.Choice:
    env = Environment({"PATH": str(bin), **variables})
    return hostcxx.choose(setting, env, crate_root=str(bin.parent), flags=flags)


def test_order_of_the_places(bin: Path) -> None:
    """One after the other is taken away, and the next one decides."""
    places = {
        "NVCC_CCBIN": "g++-9", f"CXX_{TRIPLE}": "g++-12", f"CXX_{TRIPLE.replace('-', '_')}": "g++-13", "HOST_CXX": "g++-14",
        "CXX": "clang++",
    }  # fmt: skip
    assert choose(bin, "g++", TARGET=TRIPLE, HOST=TRIPLE, **places).compiler == f"{bin}/g++"
    for name, value in list(places.items()):
        chosen = choose(bin, TARGET=TRIPLE, HOST=TRIPLE, **places)
        assert (chosen.origin, chosen.compiler) == (name, f"{bin}/{value}")
        del places[name]
    assert choose(bin, TARGET=TRIPLE, HOST=TRIPLE) == hostcxx.Choice(None, "PATH", f"{bin}/gcc")


def test_nvcc_reads_nvcc_ccbin_itself(bin: Path) -> None:
    assert choose(bin, NVCC_CCBIN="g++-9") == hostcxx.Choice(None, "NVCC_CCBIN", f"{bin}/g++-9")
    assert choose(bin, CXX="g++-9") == hostcxx.Choice(f"{bin}/g++-9", "CXX", f"{bin}/g++-9")


def test_cross_compiling_reads_target_cxx_and_not_host_cxx(bin: Path) -> None:
    variables = {"TARGET_CXX": "g++-12", "HOST_CXX": "g++-13", "CXX": "g++-14"}
    assert choose(bin, TARGET="aarch64-unknown-linux-gnu", HOST=TRIPLE, **variables).origin == "TARGET_CXX"
    assert choose(bin, TARGET=TRIPLE, HOST=TRIPLE, **variables).origin == "HOST_CXX"
    assert choose(bin, **variables).origin == "HOST_CXX"  # by hand


def test_dots_of_a_target_become_underscores(bin: Path) -> None:
    assert choose(bin, TARGET="thumbv8m.main-none", HOST=TRIPLE, CXX_thumbv8m_main_none="g++-9").compiler == f"{bin}/g++-9"


def test_variables_that_were_asked_are_announced_and_cargos_own_are_not(bin: Path) -> None:
    env = Environment({"PATH": str(bin), "TARGET": TRIPLE, "HOST": TRIPLE})
    hostcxx.choose(None, env)
    assert env.names_read == {
        "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "NVCC_CCBIN", f"CXX_{TRIPLE}", f"CXX_{TRIPLE.replace('-', '_')}", "HOST_CXX",
        "CXX",
    }  # fmt: skip


@pytest.mark.parametrize("value", ["ccache g++-12", "sccache  g++-12", "{bin}/ccache {bin}/g++-12", " g++-12 "])
def test_prefix_of_a_compiler_cache_is_dropped(bin: Path, value: str) -> None:
    assert choose(bin, CXX=value.format(bin=bin)).path == f"{bin}/g++-12"


def test_a_path_with_a_space_is_one_program(bin: Path) -> None:
    compiler = program(bin.parent / "my tools" / "g++")
    assert choose(bin, CXX=compiler).path == compiler


@pytest.mark.parametrize("value", ["g++ -m32", "ccache g++ -O1", "zig c++", "ccache"])
def test_other_arguments_in_cxx_are_an_error_with_the_cure(bin: Path, value: str) -> None:
    if value == "ccache":
        (bin / "ccache").unlink()
    with pytest.raises(ConfigError) as caught:
        choose(bin, CXX=value)
    assert f"CXX is {value!r}" in caught.value.message
    assert "host-compiler" in caught.value.hint and "host-flags" in caught.value.hint


def test_empty_variables_are_unset_except_nvcc_ccbin(bin: Path) -> None:
    assert choose(bin, CXX="", HOST_CXX=" ").origin == "PATH"
    with pytest.raises(ToolchainError, match="NVCC_CCBIN is set but empty"):
        choose(bin, NVCC_CCBIN="")


@pytest.mark.parametrize("origin", ["NVCC_CCBIN", "CXX", "HOST_CXX"])
@pytest.mark.parametrize("value", ["g++-99", "/nowhere/g++"])
def test_missing_compiler_is_an_error_that_names_its_origin(bin: Path, origin: str, value: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        choose(bin, **{origin: value})
    assert value in caught.value.message and f"from {origin}" in caught.value.message
    assert f"{bin}/g++-14" in caught.value.hint


def test_missing_compiler_of_the_setting_is_an_error(bin: Path) -> None:
    with pytest.raises(ToolchainError, match="from the `host-compiler` setting"):
        choose(bin, "g++-99")


def test_relative_path_starts_at_the_crate_and_a_folder_means_its_gcc(bin: Path) -> None:
    assert choose(bin, "bin/g++-9").path == f"{bin}/g++-9"
    assert choose(bin, f"{bin}").path == f"{bin}/gcc"


@pytest.mark.parametrize("flags", [("-ccbin", "g++-9"), ("-ccbin=g++-9",), ("--compiler-bindir", "g++-9", "-O3")])
def test_ccbin_among_the_flags_decides_and_is_not_given_twice(bin: Path, flags: tuple[str, ...]) -> None:
    expected = hostcxx.Choice(None, "-ccbin in `flags`", f"{bin}/g++-9")
    assert choose(bin, "g++-12", flags, CXX="clang++") == expected
    assert choose(bin, None, ("-ccbin=clang++", *flags)) == expected  # nvcc takes the last


def test_ccbin_in_nvccs_variables(bin: Path) -> None:
    appended = choose(bin, "g++", ("-ccbin=g++-12",), NVCC_APPEND_FLAGS="-O1 -ccbin g++-9")
    assert (appended.path, appended.compiler) == (None, f"{bin}/g++-9")
    prepended = choose(bin, NVCC_PREPEND_FLAGS="-ccbin g++-9", CXX="clang++")
    assert (prepended.path, prepended.compiler) == (None, f"{bin}/g++-9")
    assert choose(bin, "g++", NVCC_PREPEND_FLAGS="-ccbin g++-9").path == f"{bin}/g++"  # ours comes later on the command line


def refusal(stderr: str, compiler: str | None, bin: Path, origin: str = "CXX") -> CudabuildError:
    error = hostcxx.explain_refusal(stderr, compiler, origin, Environment({"PATH": f"{bin}:/nowhere"}))
    assert error is not None
    assert error.exit_code == 3
    assert "-allow-unsupported-compiler" not in str(error)
    return error


def test_too_new_gcc_is_explained(bin: Path) -> None:
    compiler = program(bin.parent / "g++", "echo '#define __GNUC__ 16'; echo '#define __GNUC_MINOR__ 1'")
    error = refusal(GCC_REFUSED, compiler, bin)
    assert f"{compiler} (gcc 16.1, from CXX): it takes g++ up to 13" in error.message
    assert "nvcc says: unsupported GNU version! gcc versions later than 13 are not supported!" in error.message
    assert f"{bin}/g++-13, {bin}/g++-12, {bin}/g++-9" in error.hint
    assert "g++-14" not in error.hint
    assert "host-compiler" in error.hint and "NVCC_CCBIN" in error.hint


def test_unfit_clang_is_explained(bin: Path) -> None:
    macros = ("GNUC__ 4", "GNUC_MINOR__ 2", "clang_major__ 21", "clang_minor__ 0")
    compiler = program(bin.parent / "clang++", "\n".join(f"echo '#define __{macro}'" for macro in macros))
    error = refusal(CLANG_REFUSED, compiler, bin, "NVCC_CCBIN")
    assert f"{compiler} (clang 21.0, from NVCC_CCBIN): it takes clang++ up to 17" in error.message
    assert error.hint.endswith(f"PATH has {bin}/clang++-17")


@pytest.mark.parametrize("compiler", ["/usr/bin/g++-99", None])
def test_missing_or_broken_compiler_is_explained(bin: Path, compiler: str | None) -> None:
    error = refusal(NOT_THERE, compiler, bin, "PATH")
    assert f"{compiler or 'gcc'} (from PATH)" in error.message
    assert "No such file or directory; Failed to preprocess host compiler properties" in error.message
    assert f"{bin}/g++-14" in error.hint


def test_no_fitting_compiler_on_path_is_said(bin: Path) -> None:
    for name in ("g++-9", "g++-12", "g++-13"):
        (bin / name).unlink()
    assert "no g++-<version> up to 13" in refusal(GCC_REFUSED, None, bin).hint


def test_other_failures_are_not_explained(bin: Path) -> None:
    env = Environment({"PATH": str(bin)})
    assert hostcxx.explain_refusal('k.cu(3): error: identifier "x" is undefined', "/usr/bin/g++", "PATH", env) is None
    assert hostcxx.explain_refusal("nvcc fatal   : Unsupported gpu architecture 'compute_70'", "g++", "PATH", env) is None


@pytest.mark.nvcc
def test_a_real_nvcc_passes_a_too_new_compiler_in_the_dry_run_and_refuses_it_in_the_check_and_the_compile(tmp_path: Path) -> None:
    try:
        nvcc = find.find(None, Environment(os.environ)).nvcc
    except ToolchainError:
        pytest.skip("no nvcc on this machine")
    compiler = program(tmp_path / "g++", 'exec g++ -U__GNUC__ -D__GNUC__=99 "$@"')
    arguments = ["-ccbin", compiler, "-c", "-x", "cu", "/dev/null", "-o", str(tmp_path / "x.o")]
    dry = subprocess.run([nvcc, "--dryrun", *arguments], capture_output=True, text=True, check=True)
    check = dryrun.host_check(dryrun.parse(dry.stderr))
    assert check is not None
    for command in (["sh", "-c", check], [nvcc, *arguments]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        error = hostcxx.explain_refusal(done.stderr, compiler, "CXX", Environment(os.environ))
        assert error is not None
        assert f"{compiler} (gcc 99." in error.message
    missing = subprocess.run([nvcc, "--dryrun", "-ccbin", "/nowhere/g++", *arguments[2:]], capture_output=True, text=True, check=False)
    error = hostcxx.explain_refusal(missing.stderr, "/nowhere/g++", "CXX", Environment(os.environ))
    assert error is not None
    assert "/nowhere/g++: No such file or directory" in error.message
