"""This module checks what cargo has to watch: everything that could matter, and nothing that is too much."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import cudabuild
from cudabuild.cache.keys import Reading, Request
from cudabuild.cache.record import Made
from cudabuild.cargo import watched
from cudabuild.cargo.directives import rerun_if_changed
from cudabuild.config.schema import BuildConfig
from cudabuild.graph.search import Search
from cudabuild.graph.units import Unit
from cudabuild.nvcc.probe import Probe
from cudabuild.nvcc.toolchain import Toolchain
from cudabuild.roots import Roots


class Crate:
    def __init__(self, root: Path) -> None:
        self.root, self.cuda = root / "crate", root / "cuda"
        for folder in (
            self.root / "kernels/include",
            self.root / "target/out",
            self.cuda / "bin",
            self.cuda / "include/crt",
        ):
            folder.mkdir(parents=True)
        for file in ("kernels/a.cu", "kernels/include/f.cuh", "cudabuild.toml", "target/out/gen.cuh"):
            (self.root / file).write_text("")
        for file in ("include/cuda.h", "include/crt/x.h", "bin/nvcc"):
            (self.cuda / file).write_text("")
        self.roots = Roots(str(self.root), str(self.root / "target/out"), f"{self.cuda}/bin/..")
        self.units = (Unit("kernels/a.cu", "cuda", "a-1"),)

    def config(self, *sources: str) -> BuildConfig:
        return BuildConfig(
            name="k",
            crate_root=str(self.root),
            config_file=str(self.root / "cudabuild.toml"),
            sources=sources,
            arch=("80",),
        )

    def toolchain(self, *include: str) -> Toolchain:
        builtin = (f"{self.cuda}/bin/../include", "/usr/include")
        folders = (*(f"{self.root}/{folder}" for folder in include), *builtin)
        probe = Probe(
            question="", version="13.0", available=(), host_compiler="", tools=(), include_dirs=(), builtin_dirs=(),
            library_dirs=(), root="", commands="", direct=True,
        )  # fmt: skip
        return Toolchain(
            nvcc=f"{self.cuda}/bin/nvcc", origin="PATH", version="13.0", host_compiler="/usr/bin/g++",
            host_origin="PATH", archs=(), flags=(), ccbin=None, search=Search(folders, builtin), library_dirs=(),
            root=f"{self.cuda}/bin/..",
            identity=(), paths=(f"{self.cuda}/bin/nvcc", "/usr/bin/g++"), commands="", probe=probe, warnings=(),
        )  # fmt: skip

    def made(self, *files: str, absent: tuple[str, ...] = ()) -> Made:
        request = Request(source="@crate/kernels/a.cu", flags=(), environment=(), tools=(), commands="")
        reading = Reading(files=tuple((self.roots.logical(file), "d") for file in files), absent=absent)
        return Made(request=request, reading=reading, object="", output="", milliseconds=0)

    def files(self, *files: str) -> set[str]:
        toolchain = self.toolchain("kernels/include")
        return watched.files(self.config("kernels/*.cu"), self.units, toolchain, [self.made(*files)], self.roots)

    def folders(
        self,
        *absent: str,
        sources: tuple[str, ...] = ("kernels/a.cu",),
        include: tuple[str, ...] = ("kernels/include",),
    ) -> set[str]:
        """As cargo gets them."""
        found = watched.folders(self.config(*sources), self.toolchain(*include), [self.made(absent=absent)], self.roots)
        lines = rerun_if_changed([], found, [self.roots.out])
        root = str(self.root)
        return {line.value.removeprefix(root).lstrip("/") or "." for line in lines if line.value.startswith(root)}

    def warnings(self, config: BuildConfig, *absent: str) -> list[str]:
        made = [self.made(absent=absent)]
        return watched.blind_spots(config, self.toolchain(*config.include), made, self.roots, [self.roots.out])


@pytest.fixture
def crate(tmp_path: Path) -> Crate:
    return Crate(tmp_path)


def test_sources_headers_configuration_tools_and_cudabuild_itself_are_watched(crate: Crate) -> None:
    assert crate.files("kernels/a.cu", "kernels/include/f.cuh", "/elsewhere/shared.cuh") == {
        f"{crate.root}/kernels/a.cu", f"{crate.root}/kernels/include/f.cuh", "/elsewhere/shared.cuh",
        f"{crate.root}/cudabuild.toml", f"{crate.cuda}/bin/nvcc", "/usr/bin/g++", cudabuild.__file__,
    }  # fmt: skip


def test_headers_of_the_toolkit_and_the_host_compiler_are_not_1500_lines(crate: Crate) -> None:
    found = crate.files("kernels/a.cu", f"{crate.cuda}/bin/../include/cuda.h", "/usr/include/stdio.h")
    assert not any("include/cuda.h" in path or "stdio" in path for path in found)


def test_headers_of_the_toolkit_are_watched_as_one_folder(crate: Crate) -> None:
    """A changed one must be noticed all the same."""
    found = watched.folders(crate.config("kernels/a.cu"), crate.toolchain(), [crate.made()], crate.roots)
    assert f"{crate.cuda}/include" in found
    assert "/usr/include" not in found


def test_source_is_watched_before_any_toolchain_is_known(crate: Crate) -> None:
    """A build that finds no nvcc fails; cargo reruns it when something changed all the same."""
    found = watched.files(crate.config("kernels/a.cu"), crate.units, None, [], crate.roots)
    assert {f"{crate.root}/kernels/a.cu", f"{crate.root}/cudabuild.toml"} <= found
    assert watched.folders(crate.config("kernels/*.cu"), None, [], crate.roots) == {f"{crate.root}/kernels"}


def test_folder_of_a_pattern_is_watched(crate: Crate) -> None:
    """C02"""
    assert crate.folders(sources=("kernels/*.cu",)) == {"kernels"}


def test_folder_of_a_named_source_is_not_watched_for_its_sake(crate: Crate) -> None:
    assert crate.folders(sources=("kernels/a.cu",)) == set()


def test_folder_where_a_header_would_be_found_first_is_watched(crate: Crate) -> None:
    assert crate.folders("@crate/kernels/include/cuda.h") == {"kernels/include"}


def test_folder_of_a_pattern_is_watched_although_the_crates_own_folder_cannot_be(crate: Crate) -> None:
    """C02: `include = ["."]` makes the crate's folder matter, which holds target/."""
    assert crate.folders("@crate/f.cuh", sources=("kernels/*.cu",), include=(".", "kernels/include")) == {"kernels"}


def test_missing_search_folder_that_nobody_configured_does_not_make_its_parent_watched(crate: Crate) -> None:
    assert crate.folders("@crate/kernels/no", "@crate/kernels/no", include=("kernels/no",)) == set()


@pytest.mark.parametrize("field", ["include", "system_include"])
def test_missing_include_folder_is_watched_from_above(crate: Crate, field: str) -> None:
    config = msgspec.structs.replace(crate.config("kernels/a.cu"), **{field: ("kernels/new/deep",)})
    assert watched.folders(config, None, [], crate.roots) == {f"{crate.root}/kernels"}
    assert crate.warnings(config) == []


@pytest.mark.parametrize("folder", ["new", "/nowhere/include"])
def test_missing_include_folder_that_cargo_cannot_see_appear_is_told(crate: Crate, folder: str) -> None:
    config = msgspec.structs.replace(crate.config("kernels/a.cu"), include=(folder,))
    assert watched.folders(config, None, [], crate.roots) == set()
    [warning] = crate.warnings(config)
    assert folder in warning


def test_missing_include_folder_in_the_output_folder_is_no_ones_business(crate: Crate) -> None:
    config = msgspec.structs.replace(crate.config("kernels/a.cu"), include=("target/out/gen",))
    assert watched.folders(config, None, [], crate.roots) == set()
    assert crate.warnings(config) == []


def test_folder_where_cargo_cannot_see_a_shadowing_header_is_told_once(crate: Crate) -> None:
    """Sources beside target/."""
    config = crate.config("a.cu")
    [warning] = crate.warnings(config, "@crate/f.cuh", "@crate/g.cuh", "@out/g.cuh")
    assert str(crate.root) in warning and crate.roots.out not in warning
    assert crate.warnings(config, "@crate/kernels/f.cuh") == []


def test_header_that_has_include_found_is_watched(crate: Crate) -> None:
    made = crate.made()
    made = msgspec.structs.replace(made, reading=msgspec.structs.replace(made.reading, present=("@crate/opt.h", "@cuda/include/o.h")))
    found = watched.files(crate.config("kernels/a.cu"), crate.units, crate.toolchain(), [made], crate.roots)
    assert f"{crate.root}/opt.h" in found
    assert not any(path.endswith("/o.h") for path in found)


def test_folders_of_the_tools_are_not_watched_for_a_missing_header(crate: Crate) -> None:
    found = watched.folders(
        crate.config("kernels/a.cu"), crate.toolchain(),
        [crate.made(absent=("@cuda/include/opt.h", "/usr/include/opt", "/usr/local/include/opt.h"))], crate.roots,
    )  # fmt: skip
    assert not any(path.startswith("/usr") for path in found)


def test_nothing_that_a_build_writes_is_watched(crate: Crate) -> None:
    """C03: a header generated into OUT_DIR, and what could shadow it there."""
    files = crate.files("kernels/a.cu", "target/out/gen.cuh")
    assert [line.value for line in rerun_if_changed(files, [], [crate.roots.out]) if "target" in line.value] == []
    assert crate.folders("@out/f.cuh", "@out/cudabuild/x", include=("target/out", "kernels/include")) == set()


def test_glob_in_a_folder_that_cargo_cannot_watch_is_told(tmp_path: Path) -> None:
    crate = Crate(tmp_path)
    own = [str(crate.root / "target/out")]
    [warning] = watched.blind_spots(crate.config("*.cu"), None, [], crate.roots, own)
    assert str(crate.root) in warning
    assert watched.blind_spots(crate.config("kernels/*.cu"), None, [], crate.roots, own) == []
