"""This module checks the lines for cargo: each names what exists, none names what a build writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cudabuild.cargo.directives import Directive, link, render, rerun_if_changed, rerun_if_env_changed, warning


def paths(files: list[Path | str], folders: list[Path | str], own: list[Path | str]) -> list[str]:
    lines = rerun_if_changed(map(str, files), map(str, folders), [str(folder) for folder in own])
    assert {line.key for line in lines} <= {"rerun-if-changed"}
    return [line.value for line in lines]


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    for name in ("kernels/a.cu", "kernels/inc/b.cuh", "target/out/gen.cuh", "target/out/cudabuild/obj/a.o"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def test_line_names_a_file_that_exists(crate: Path) -> None:
    """C02: cargo takes a missing path for one that changed, at every build."""
    files = [crate / "kernels/a.cu", crate / "kernels/gone.cu", crate / "kernels/*.cu", crate / "kernels"]
    assert paths(files, [], []) == [str(crate / "kernels/a.cu")]


def test_line_names_a_folder_that_exists(crate: Path) -> None:
    folders = [crate / "kernels", crate / "gone", crate / "kernels/a.cu", crate / "**"]
    assert paths([], folders, []) == [str(crate / "kernels")]


def test_each_path_has_one_line_without_detours(crate: Path) -> None:
    files = [
        f"{crate}/kernels/./a.cu",
        f"{crate}/kernels/inc/../a.cu",
        f"{crate}//kernels/a.cu",
        crate / "kernels/a.cu",
    ]
    assert paths(files, [f"{crate}/kernels/inc/.."], []) == [str(crate / "kernels/a.cu"), str(crate / "kernels")]


def test_detour_through_a_symlink_is_kept_when_it_leads_elsewhere(crate: Path) -> None:
    (crate / "link").symlink_to("kernels/inc")
    assert paths([f"{crate}/link/../a.cu"], [], []) == [f"{crate}/link/../a.cu"]


def test_what_a_build_writes_has_no_line(crate: Path) -> None:
    """C03"""
    files = [
        crate / "target/out/gen.cuh",
        crate / "target/out/cudabuild/obj/a.o",
        f"{crate}/kernels/../target/out/gen.cuh",
    ]
    assert paths(files, [crate / "target/out", crate / "target/out/cudabuild"], [crate / "target/out"]) == []


def test_what_a_build_writes_has_no_line_by_another_name_either(crate: Path) -> None:
    """C03: OUT_DIR's folder may be reached through a symlink."""
    (crate / "out").symlink_to("target/out")
    for own, other in (("out", "target/out"), ("target/out", "out")):
        assert paths([crate / other / "gen.cuh"], [crate / other, crate / other / "cudabuild"], [crate / own]) == []


def test_link_in_the_output_folder_stands_for_what_it_leads_to(crate: Path) -> None:
    """Build scripts of other crates link their headers into an OUT_DIR."""
    (crate / "target/out/b.cuh").symlink_to(crate / "kernels/inc/b.cuh")
    (crate / "target/out/include").symlink_to(crate / "kernels/inc")
    files = [crate / "target/out/b.cuh", crate / "target/out/include/b.cuh"]
    assert paths(files, [], [crate / "target/out"]) == [str(crate / "kernels/inc/b.cuh")]


def test_folder_around_what_a_build_writes_has_no_line(crate: Path) -> None:
    assert paths([], [crate, crate / "target"], [crate / "target/out"]) == []


def test_folder_whose_name_only_begins_like_an_own_one_has_a_line(crate: Path) -> None:
    (crate / "target/out-of-tree").mkdir()
    assert paths([], [crate / "target/out-of-tree"], [crate / "target/out"]) == [str(crate / "target/out-of-tree")]


def test_folder_with_a_git_database_has_no_line(crate: Path) -> None:
    """Every git command would rerun the script."""
    (crate / "kernels/.git").mkdir()
    assert paths([], [crate / "kernels"], []) == []


def test_folder_of_a_git_worktree_or_submodule_has_a_line(crate: Path) -> None:
    """Its .git is a file that names the database elsewhere."""
    (crate / "kernels/.git").write_text("gitdir: ../.git/modules/kernels\n")
    assert paths([], [crate / "kernels"], []) == [str(crate / "kernels")]


def test_folder_below_another_has_no_line_of_its_own(crate: Path) -> None:
    """Cargo looks at a folder with all that is in it."""
    assert paths([], [crate / "kernels/inc", crate / "kernels"], []) == [str(crate / "kernels")]


def test_folder_below_one_that_has_no_line_keeps_its_own(crate: Path) -> None:
    """C02: a new kernel must be seen although the crate's folder holds target/ or .git."""
    (crate / ".git").mkdir()
    assert paths([], [crate, crate / "kernels"], [crate / "target/out"]) == [str(crate / "kernels")]


@pytest.mark.parametrize("name", ["h h.cuh", "a#b.cuh", "d$x.cuh", "ü.cuh", "a=b.cuh", "'q'.cuh", "[x].cuh", "%20.cuh"])
def test_name_is_written_as_it_is(crate: Path, name: str) -> None:
    """C10: cargo takes the rest of the line."""
    (crate / name).write_text("")
    lines = rerun_if_changed([str(crate / name)], [], [])
    assert render(lines, None) == f"cargo::rerun-if-changed={crate}/{name}\n"


@pytest.mark.parametrize("name", ["end ", "new\nline", "end\t"])
def test_name_that_cargo_would_read_as_another_has_no_line(crate: Path, name: str) -> None:
    (crate / name).mkdir()
    (crate / name / "x").write_text("")
    assert paths([], [crate / name], []) == []
    assert paths([f"{crate}/{name}/x"], [], []) == ([] if "\n" in name else [f"{crate}/{name}/x"])
    (crate / name / "x").unlink()
    (crate / name).rmdir()
    (crate / name).write_text("")
    assert paths([crate / name], [], []) == []


def test_lines_are_in_one_order(crate: Path) -> None:
    files: list[Path | str] = [crate / "kernels/inc/b.cuh", crate / "kernels/a.cu"]
    assert paths(files, [], []) == paths(files[::-1], [], []) == sorted(map(str, files))


def test_each_variable_has_one_line() -> None:
    assert rerun_if_env_changed(["NVCC", "CPATH"]) == (
        Directive("rerun-if-env-changed", "CPATH"), Directive("rerun-if-env-changed", "NVCC"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rust_version", "prefix"),
    [
        (None, "cargo::"), ("", "cargo::"), ("1.77", "cargo::"), ("1.77.0", "cargo::"), ("1.80.1", "cargo::"),
        ("2.0", "cargo::"),
        ("1.76", "cargo:"), ("1.76.9", "cargo:"), ("1.5", "cargo:"), ("1", "cargo:"), ("0.9", "cargo:"),
    ],
)  # fmt: skip
def test_prefix_is_one_that_the_crates_rust_version_allows(rust_version: str | None, prefix: str) -> None:
    assert render([Directive("warning", "x")], rust_version) == f"{prefix}warning=x\n"


@pytest.mark.parametrize("text", ["two\nlines", "two\r\nlines", " two \n\n lines "])
def test_warning_is_one_line(text: str) -> None:
    assert warning(text) == Directive("warning", "two lines")


def values(lines: tuple[Directive, ...]) -> list[str]:
    return [f"{line.key}={line.value}" for line in lines]


def test_link_lines_come_in_the_order_that_linkers_want() -> None:
    assert values(link("/o/libk.a", "k", "static", ["/cuda/lib64"], ["static=extra", "cublas"])) == [
        "rustc-link-search=native=/o",
        "rustc-link-lib=static=k",
        "rustc-link-search=native=/cuda/lib64",
        "rustc-link-lib=static=extra",
        "rustc-link-lib=cublas",
        "rustc-link-lib=static=cudart_static",
        "rustc-link-lib=dylib=dl",
        "rustc-link-lib=dylib=rt",
        "rustc-link-lib=dylib=pthread",
        "rustc-link-lib=dylib=stdc++",
    ]


@pytest.mark.parametrize(
    ("cudart", "library"), [("static", "static=cudart_static"), ("shared", "dylib=cudart"), ("none", None)]
)
def test_runtime_is_linked_as_asked(cudart: str, library: str | None) -> None:
    lines = values(link("/o/libk.a", "k", cudart, [], []))
    assert [line for line in lines if "cudart" in line] == ([f"rustc-link-lib={library}"] if library else [])


def test_lines_of_a_real_folder_lead_to_what_was_meant(crate: Path) -> None:
    for path in paths([crate / "kernels/a.cu"], [crate / "kernels"], []):
        assert os.path.exists(path) and os.path.isabs(path) and "*" not in path
