"""This module checks how paths are named by what they belong to, and given to nvcc."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudabuild.roots import Roots

ROOTS = Roots("/ws/prover", "/ws/prover/target/debug/build/prover-1/out", "/opt/cuda/bin/..")


@pytest.mark.parametrize(
    ("path", "logical"),
    [
        ("/ws/prover/kernels/a.cu", "@crate/kernels/a.cu"),
        ("kernels/a.cu", "@crate/kernels/a.cu"),
        ("/ws/prover", "@crate"),
        ("/ws/prover-core/a.cu", "/ws/prover-core/a.cu"),
        ("/ws/prover/target/debug/build/prover-1/out/gen.cuh", "@out/gen.cuh"),
        ("/ws/prover/target/debug/build/prover-1/outer/gen.cuh", "@crate/target/debug/build/prover-1/outer/gen.cuh"),
        ("/opt/cuda/bin/../include/cuda.h", "@cuda/include/cuda.h"),
        ("/usr/include/stdio.h", "/usr/include/stdio.h"),
        ("../shared/a.cuh", "@crate/../shared/a.cuh"),
    ],
)
def test_path_is_named_by_the_innermost_root_it_lies_in(path: str, logical: str) -> None:
    assert ROOTS.logical(path) == logical
    assert ROOTS.real(logical) == ROOTS.absolute(path)


def test_same_path_in_another_checkout_has_the_same_name() -> None:
    other = Roots("/home/me/prover", "/tmp/out", "/usr/local/cuda")
    for logical in ("@crate/kernels/a.cu", "@out/gen.cuh", "@cuda/include/cuda.h"):
        assert ROOTS.logical(ROOTS.real(logical)) == other.logical(other.real(logical)) == logical


def test_unknown_toolkit_names_nothing() -> None:
    assert Roots("/ws/prover", "/out").logical("/usr/include/a.h") == "/usr/include/a.h"


@pytest.mark.parametrize(
    ("path", "argument"),
    [
        ("/ws/prover/kernels/a.cu", "kernels/a.cu"),
        ("./kernels//a.cu", "kernels/a.cu"),
        (".", "."),
        ("/ws/prover/", "."),
        ("/ws/other/a.cu", "/ws/other/a.cu"),
        ("/ws/prover/kernels/../a.cu", "a.cu"),
        ("h h/ü#.cu", "h h/ü#.cu"),
    ],
)
def test_argument_for_nvcc_starts_at_the_crate_when_it_lies_below_it(path: str, argument: str) -> None:
    assert ROOTS.argument(path) == argument


@pytest.mark.parametrize(
    ("argument", "logical"),
    [
        ("-Ikernels/include", "-Ikernels/include"),
        ("-I/opt/cuda/bin/../include", "-I@cuda/include"),
        ("-I/ws/prover/target/debug/build/prover-1/out", "-I@out"),
        ("/ws/prover/target/debug/build/prover-1/out/gen", "@out/gen"),
        ("-I/ws/prover/../shared", "-I@crate/../shared"),
        ("-I/ws/prover-core/include", "-I/ws/prover-core/include"),
        ("-I/usr/include", "-I/usr/include"),
        ("-O3", "-O3"),
    ],
)
def test_path_in_an_argument_is_named_by_its_root(argument: str, logical: str) -> None:
    assert ROOTS.logical_argument(argument) == logical


def test_path_in_an_argument_is_only_named_where_it_begins() -> None:
    """A root's name in the middle of another path is another path."""
    roots = Roots("/a", "/o")
    assert roots.logical_argument("-I/data/a/b") == "-I/data/a/b"
    assert roots.logical_argument("-Idata/a") == "-Idata/a"


@pytest.mark.parametrize("argument", ["-DDATA=/ws/prover/data", '-DDATA=\\"/ws/prover/data\\"', "-DHOME=/ws/prover"])
def test_text_that_ends_in_the_object_is_not_renamed(argument: str) -> None:
    """A moved checkout with its target folder compiles anew: the object holds the old folder's name."""
    assert ROOTS.logical_argument(argument) == argument


@pytest.mark.parametrize("crate", ["/", "/c"])
def test_crate_in_the_root_folder_is_a_crate(crate: str) -> None:
    roots = Roots(crate, "/out", "/cuda/")
    assert roots.argument("kernels/a.cu") == "kernels/a.cu"
    for path in ("kernels/a.cu", "/cuda/include/cuda.h", "/out/gen.cuh", "/usr/a.h"):
        assert roots.real(roots.logical(path)) == roots.absolute(path)


def test_argument_keeps_dots_behind_a_symlink(tmp_path: Path) -> None:
    """There `..` leads elsewhere than its text says."""
    (tmp_path / "crate").mkdir()
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    (tmp_path / "elsewhere/a.cu").write_text("")
    (tmp_path / "crate/link").symlink_to(tmp_path / "elsewhere/deep")
    roots = Roots(str(tmp_path / "crate"), "/out")
    assert roots.argument("link/../a.cu") == "link/../a.cu"
