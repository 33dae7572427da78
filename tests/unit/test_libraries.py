"""This module checks where the CUDA runtime library is found, in toolkits of several layouts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cudabuild.errors import ToolchainError
from cudabuild.nvcc.libraries import cudart_folder, stubs_folder

STATIC, SHARED = "libcudart_static.a", "libcudart.so"


def toolkit(root: Path, *files: str) -> str:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("")
    (root / "bin").mkdir(parents=True, exist_ok=True)
    return f"{root}/bin/.."


@pytest.mark.parametrize("kind", ["static", "shared"])
@pytest.mark.parametrize("folder", ["lib64", "lib", "targets/x86_64-linux/lib"])
def test_library_is_found_where_it_is_whatever_nvcc_names(tmp_path: Path, folder: str, kind: str) -> None:
    """The profile of the 13.0 wheels says lib64 where they have lib."""
    root = toolkit(tmp_path / "cuda", f"{folder}/{STATIC}", f"{folder}/{SHARED}")
    found = cudart_folder(kind, [str(tmp_path / "cuda/lib64")], root, str(tmp_path / "links"))
    assert found == str(tmp_path / "cuda" / folder)
    assert not (tmp_path / "links").exists()


def test_folder_that_nvcc_names_comes_first(tmp_path: Path) -> None:
    root = toolkit(tmp_path / "cuda", f"lib64/{STATIC}", f"named/{STATIC}")
    assert cudart_folder("static", [str(tmp_path / "cuda/named")], root, "") == str(tmp_path / "cuda/named")


def test_folder_of_stand_ins_is_not_taken(tmp_path: Path) -> None:
    root = toolkit(tmp_path / "cuda", f"lib64/stubs/{SHARED}", f"lib64/{SHARED}")
    folders = [str(tmp_path / "cuda/lib64/stubs"), str(tmp_path / "cuda/lib64")]
    assert cudart_folder("shared", folders, root, "") == str(tmp_path / "cuda/lib64")


def test_library_with_only_a_versioned_name_gets_the_name_that_linkers_look_for(tmp_path: Path) -> None:
    root = toolkit(tmp_path / "cuda", "lib/libcudart.so.13", f"lib/{STATIC}")
    links = str(tmp_path / "out/cudabuild/lib")
    for _ in range(2):
        assert cudart_folder("shared", [], root, links) == links
        assert os.path.realpath(f"{links}/{SHARED}") == str(tmp_path / "cuda/lib/libcudart.so.13")


def test_link_of_another_toolkit_is_replaced(tmp_path: Path) -> None:
    links = str(tmp_path / "links")
    for name in ("one", "two"):
        cudart_folder("shared", [], toolkit(tmp_path / name, "lib/libcudart.so.13"), links)
        assert os.path.realpath(f"{links}/{SHARED}") == str(tmp_path / name / "lib/libcudart.so.13")


def test_link_of_a_toolkit_that_is_gone_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / SHARED).symlink_to("/gone/libcudart.so.12")
    cudart_folder("shared", [], toolkit(tmp_path / "cuda", "lib/libcudart.so.13"), str(tmp_path / "links"))
    assert (tmp_path / "links" / SHARED).exists()


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_missing_library_is_an_error_that_names_it_the_folders_and_a_cure(tmp_path: Path, kind: str) -> None:
    root = toolkit(tmp_path / "cuda", "lib/libcublas.so.13", "lib/libcudart.so.txt")
    with pytest.raises(ToolchainError) as caught:
        cudart_folder(kind, ["/nvcc/names/this"], root, str(tmp_path / "links"))
    assert (STATIC if kind == "static" else SHARED) in caught.value.message
    assert "/nvcc/names/this" in caught.value.message and str(tmp_path / "cuda/lib") in caught.value.message
    assert "cudart" in caught.value.hint


def test_unknown_toolkit_root_does_not_mean_the_present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(tmp_path, f"lib64/{STATIC}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolchainError):
        cudart_folder("static", [], "", "")


@pytest.mark.parametrize("links", [["cuda"], ["dylib=cuda"], ["z", "dylib=nvidia-ml"]])
@pytest.mark.parametrize("named", ["lib64", "lib64/stubs"])
def test_stand_ins_are_for_the_drivers_libraries_only(tmp_path: Path, links: list[str], named: str) -> None:
    (tmp_path / "lib64/stubs").mkdir(parents=True)
    assert stubs_folder(links, [str(tmp_path / named)]) == str(tmp_path / "lib64/stubs")
    assert stubs_folder(["cudart", "static=cuda_x"], [str(tmp_path / named)]) is None


def test_toolkit_without_stand_ins_names_none(tmp_path: Path) -> None:
    assert stubs_folder(["cuda"], [str(tmp_path)]) is None
