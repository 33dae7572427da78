"""This module checks which sources a configuration means, and that no two objects share a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from cudabuild.config.schema import BuildConfig
from cudabuild.errors import ConfigError
from cudabuild.graph.units import Unit, find_units, glob_folders
from cudabuild.roots import Roots


def units(crate: Path, *sources: str) -> tuple[Unit, ...]:
    return find_units(config(crate, *sources), Roots(str(crate), str(crate / "target/out")))


def config(crate: Path, *sources: str) -> BuildConfig:
    return BuildConfig(
        name="k", crate_root=str(crate), config_file=str(crate / "cudabuild.toml"), sources=sources, arch=("80",)
    )


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    for name in (
        "b.cu",
        "a.cu",
        "sub/a.cu",
        "sub/deep/c.cu",
        "host.cpp",
        "plain.c",
        "other.cc",
        "field.cuh",
        ".hidden.cu",
    ):
        path = tmp_path / "crate [x]*" / "kernels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path / "crate [x]*"


def sources(found: tuple[Unit, ...]) -> list[str]:
    return [unit.source for unit in found]


def test_pattern_matches_in_its_folder_in_the_order_of_paths(crate: Path) -> None:
    """The crate's own folder may hold characters that globs use."""
    assert sources(units(crate, "kernels/*.cu")) == ["kernels/a.cu", "kernels/b.cu"]


def test_two_stars_cross_folders(crate: Path) -> None:
    expected = ["kernels/a.cu", "kernels/b.cu", "kernels/sub/a.cu", "kernels/sub/deep/c.cu"]
    assert sources(units(crate, "kernels/**/*.cu")) == expected


def test_file_that_two_patterns_match_is_one_unit(crate: Path) -> None:
    assert sources(units(crate, "kernels/a.cu", "kernels/*.cu", "./kernels/a.cu")) == ["kernels/a.cu", "kernels/b.cu"]


def test_order_of_the_patterns_does_not_matter(crate: Path) -> None:
    assert units(crate, "kernels/b.cu", "kernels/a.cu") == units(crate, "kernels/a.cu", "kernels/b.cu")


def test_language_follows_the_extension(crate: Path) -> None:
    found = units(crate, "kernels/a.cu", "kernels/host.cpp", "kernels/plain.c", "kernels/other.cc")
    assert {unit.source: unit.language for unit in found} == {
        "kernels/a.cu": "cuda", "kernels/host.cpp": "c++", "kernels/plain.c": "c", "kernels/other.cc": "c++",
    }  # fmt: skip


@pytest.mark.parametrize("pattern", ["kernels/*.cx", "nothing/*.cu", "kernels/missing.cu", "kernels", "*"])
def test_pattern_that_matches_no_file_is_an_error_that_names_it(crate: Path, pattern: str) -> None:
    with pytest.raises(ConfigError) as caught:
        units(crate, "kernels/a.cu", pattern)
    assert repr(pattern) in caught.value.message and "cudabuild.toml" in caught.value.message
    assert caught.value.hint


def test_folder_whose_name_ends_like_a_source_is_no_source(crate: Path) -> None:
    (crate / "kernels/folder.cu").mkdir()
    assert "kernels/folder.cu" not in sources(units(crate, "kernels/*.cu"))


def test_header_among_the_sources_is_an_error_that_says_what_sources_are(crate: Path) -> None:
    with pytest.raises(ConfigError, match=r"field\.cuh") as caught:
        units(crate, "kernels/*")
    assert ".cu" in caught.value.hint


def test_names_are_unique_where_file_names_are_not(crate: Path) -> None:
    (crate / "kernels/a.cpp").write_text("")
    (crate / "kernels/sub.a.cu").write_text("")
    found = units(crate, "kernels/**/*.cu", "kernels/*.cpp")
    assert len({unit.name for unit in found}) == len(found)
    assert all("/" not in unit.name for unit in found)


def test_name_does_not_depend_on_where_the_checkout_is(crate: Path, tmp_path: Path) -> None:
    other = tmp_path / "moved"
    before = units(crate, "kernels/*.cu")
    crate.rename(other)
    assert units(other, "kernels/*.cu") == before


def test_source_with_a_name_full_of_glob_characters_can_be_named(crate: Path) -> None:
    (crate / "kernels/a[1].cu").write_text("")
    assert "kernels/a[1].cu" in sources(units(crate, "kernels/a[1].cu"))


@pytest.mark.parametrize(
    ("pattern", "folders"),
    [
        ("kernels/*.cu", ["kernels"]),
        ("kernels/**/*.cu", ["kernels"]),
        ("kernels/s*/a.cu", ["kernels"]),
        ("k*/a.cu", ["."]),
        ("kernels/a.cu", []),
        ("kernels/sub/[ab].cu", ["kernels/sub"]),
        ("../shared/*.cu", ["../shared"]),
    ],
)
def test_new_file_can_match_only_below_the_part_before_the_first_wildcard(
    crate: Path, pattern: str, folders: list[str]
) -> None:
    expected = [str((crate / folder).resolve()) for folder in folders]
    assert list(glob_folders(config(crate, pattern))) == expected
