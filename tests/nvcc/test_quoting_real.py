"""The tables of nvcc/quoting.py and nvcc/reserved.py, held against the nvcc at hand."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import string
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from real import missing

from cudabuild.errors import ConfigError
from cudabuild.nvcc import archs, quoting, reserved

pytestmark = pytest.mark.nvcc

SYMBOLS = " " + string.punctuation + "é"


def find_nvcc() -> str | None:
    if on_path := shutil.which("nvcc"):
        return on_path
    if importlib.util.find_spec("nvidia") and (wheel := importlib.util.find_spec("nvidia.cu13")):
        for folder in wheel.submodule_search_locations or ():
            if os.path.exists(path := os.path.join(folder, "bin", "nvcc")):
                return path
    return None


@pytest.fixture(scope="module")
def nvcc() -> str:
    path = find_nvcc()
    if path is None:
        missing("nvcc")
    return path


def run(nvcc: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("NVCC_")} | {"b": "replaced"}
    return subprocess.run(
        [nvcc, *arguments], cwd=cwd, env=env, capture_output=True, text=True, errors="replace", check=False
    )


def values(nvcc: str, arguments: Sequence[str], folder: Path, source: str = "k.cu", count: int = 1) -> list[str]:
    """What X0, X1, … are for the compiler. gcc writes é in a bare word as \\U000000e9; which is its spelling."""
    (folder / source).write_text("".join(f"BEGIN{i} X{i} END\n" for i in range(count)))
    out = run(nvcc, "-E", *arguments, source, cwd=folder).stdout.replace("\\U000000e9", "é")
    found = dict(re.findall(r"^BEGIN(\d+) (.*) END$", out, re.MULTILINE))
    return [found.get(str(i), "") for i in range(count)]


VALUES = [f"a{symbol}b" for symbol in SYMBOLS] + [
    '"1.0"', '"a,b $(touch ran) `touch ran` \\" \'"', "'a'", "(x, y)", "\\$b", "$b", "${b}", "\\\\\\", "\\,\\\"",
]  # fmt: skip


@pytest.mark.parametrize("source", ["k.cu", "k.cpp"])
def test_every_define_arrives_intact(nvcc: str, tmp_path: Path, source: str) -> None:
    arguments = [quoting.define_argument(f"X{i}={value}", "define") for i, value in enumerate(VALUES)]
    assert [v.replace(" ", "") for v in values(nvcc, arguments, tmp_path, source, len(VALUES))] == [
        v.replace(" ", "") for v in VALUES
    ]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("source", ["k.cu", "k.cpp"])
def test_every_host_flag_arrives_intact(nvcc: str, tmp_path: Path, source: str) -> None:
    arguments = [a for i, value in enumerate(VALUES) for a in quoting.host_arguments(f"-DX{i}={value}", "host-flags")]
    assert [v.replace(" ", "") for v in values(nvcc, arguments, tmp_path, source, len(VALUES))] == [
        v.replace(" ", "") for v in VALUES
    ]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("symbol", '"$,\\`')
def test_what_defines_escape_would_be_changed_without(nvcc: str, tmp_path: Path, symbol: str) -> None:
    assert values(nvcc, [f"-DX0=a{symbol}b"], tmp_path) != [f"a{symbol}b"]


@pytest.mark.parametrize("symbol", quoting.FLAG_REFUSED)
def test_what_raw_flags_may_not_hold_is_acted_on_by_the_shell(nvcc: str, tmp_path: Path, symbol: str) -> None:
    assert values(nvcc, ["-Xcompiler", f"-DX0=a{symbol}b"], tmp_path) != [f"a{symbol}b"]
    with pytest.raises(ConfigError):
        quoting.refuse("flag", f"a{symbol}b", "flags")


def test_unescaped_values_and_paths_run_commands(nvcc: str, tmp_path: Path) -> None:
    values(nvcc, ["-DX0=$(touch define)", "-Xcompiler", ";touch host;"], tmp_path)
    source = tmp_path / "k$(touch source).cu"
    source.write_text("")
    run(nvcc, "-E", source.name, cwd=tmp_path)
    assert all((tmp_path / name).exists() for name in ("define", "host", "source"))


def test_allowed_paths_arrive_intact(nvcc: str, tmp_path: Path) -> None:
    free = "".join(symbol for symbol in SYMBOLS if symbol not in quoting.PATH_REFUSED + "/")
    names = [f"{kind}{free}z" for kind in ("src", "inc", "sys", "out")]
    for name in names:
        quoting.refuse("folder", name, "path")
        (tmp_path / name).mkdir()
    src, inc, sys, out = (tmp_path / name for name in names)
    (inc / "i.cuh").write_text("#define I 1\n")
    (sys / "s.cuh").write_text("#define S 1\n")
    (src / f"k{free}.cu").write_text('#include "i.cuh"\n#include <s.cuh>\n__global__ void k() { int x = I + S; }\n')
    result = run(
        nvcc, "-c", "-I" + inc.name, "-isystem", sys.name, "-MD", "-MF", f"{out.name}/k.d", "--keep",
        "--keep-dir", out.name, "-o", f"{out.name}/k.o", f"{src.name}/k{free}.cu", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert (out / "k.o").exists()
    listed = (out / "k.d").read_text().replace("\\ ", " ")
    assert f" {inc.name}/i.cuh" in listed
    assert f" {sys.name}/s.cuh" in listed


@pytest.mark.parametrize("symbol", quoting.PATH_REFUSED)
def test_refused_paths_do_not_arrive(nvcc: str, tmp_path: Path, symbol: str) -> None:
    folder = tmp_path / f"a{symbol}b"
    folder.mkdir()
    (folder / "h.cuh").write_text("int found;\n")
    (folder / "k.cu").write_text("int found;\n")
    (tmp_path / "k.cu").write_text('#include "h.cuh"\n')
    as_source = run(nvcc, "-E", f"{folder.name}/k.cu", cwd=tmp_path).stdout
    as_include = run(nvcc, "-E", f"-I{folder.name}", "k.cu", cwd=tmp_path).stdout
    in_depfile = run(nvcc, "-M", f"-I{folder.name}", "k.cu", cwd=tmp_path).stdout
    intact = "int found" in as_source and "int found" in as_include and f"{folder.name}/h.cuh" in in_depfile
    assert not intact


def test_a_dollar_in_the_crate_folder_does_no_harm(nvcc: str, tmp_path: Path) -> None:
    crate = tmp_path / "it's, $b#1"
    crate.mkdir()
    quoting.refuse("crate", str(crate), "crate")
    (crate / "k.cu").write_text("int x;\n")
    assert run(nvcc, "-c", "k.cu", "-o", "k.o", cwd=crate).returncode == 0


def test_a_command_in_the_crate_folder_would_run(nvcc: str, tmp_path: Path) -> None:
    crate = tmp_path / "c$(touch ran)"
    crate.mkdir()
    (crate / "k.cu").write_text("int x;\n")
    run(nvcc, "-c", "k.cu", "-o", "k.o", cwd=crate)
    assert (crate / "ran").exists()


def test_every_option_with_a_value_is_known(nvcc: str, tmp_path: Path) -> None:
    text = run(nvcc, "--help", cwd=tmp_path).stdout
    options = re.findall(r"^(--\S+)( \S.*?)? +\(?(-[\w-]+)\)? *$", text, re.MULTILINE)
    assert len(options) > 100
    known = reserved._TAKES_VALUE | reserved._CURES.keys()
    assert {name for long, value, short in options if value for name in (long, short)} <= known
    # An option that takes none, listed as one that does, hides the flag after it. The help forgets -qpp-config's value.
    without = {name for long, value, short in options if not value and short != "-qpp-config" for name in (long, short)}
    assert not without & reserved._TAKES_VALUE


@pytest.mark.parametrize("word", ["all", "all-major"])
def test_all_and_all_major_are_nvccs_own(nvcc: str, tmp_path: Path, word: str) -> None:
    def images(*flags: str) -> set[str]:
        plan = run(nvcc, "--dryrun", *flags, "-c", "-x", "cu", "/dev/null", "-o", "x.o", cwd=tmp_path).stderr
        return set(re.findall(r"kind=\w+,sm=\w+", plan))

    available = run(nvcc, "--list-gpu-arch", cwd=tmp_path).stdout.split()
    ours = archs.resolve([word], available, tuple, nvcc)
    flags = [argument for arch in ours.archs for argument in arch.gencode()]
    assert images(*flags) == images(f"-arch={word}")
    assert len(images(*flags)) > 2
