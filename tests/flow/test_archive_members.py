"""This module checks that the archive holds exactly the objects of today's sources."""

from __future__ import annotations

import shutil

import pytest
from workspace import Workspace


def sources_in(workspace: Workspace) -> list[str]:
    return sorted(line.removeprefix("source ") for line in workspace.archive_text().splitlines() if line.startswith("source "))


def test_removed_source_leaves_the_archive(prover: Workspace) -> None:
    """C06"""
    prover.build()
    prover.compiles()
    prover.remove("kernels/ntt.cu")
    prover.build()
    assert sources_in(prover) == ["kernels/hash.cu", "kernels/msm.cu"]
    assert prover.compiles() == []


def test_renamed_source_is_in_the_archive_once(prover: Workspace) -> None:
    """C06"""
    prover.build()
    prover.rename("kernels/ntt.cu", "kernels/transform.cu")
    prover.build()
    assert sources_in(prover) == ["kernels/hash.cu", "kernels/msm.cu", "kernels/transform.cu"]


def test_added_source_is_compiled_alone(prover: Workspace) -> None:
    """C06"""
    prover.build()
    prover.compiles()
    prover.write("kernels/new.cu", "int new_one;\n")
    prover.build()
    assert prover.compiles() == ["kernels/new.cu"]
    assert len(sources_in(prover)) == 4


def test_removed_and_restored_source_is_back(prover: Workspace) -> None:
    """C06"""
    prover.build()
    first = prover.archive_members()
    prover.rename("kernels/ntt.cu", "ntt.away")
    prover.build()
    prover.rename("ntt.away", "kernels/ntt.cu")
    prover.build()
    assert prover.archive_members() == first


def test_sources_of_one_name_in_two_folders_are_both_there(prover: Workspace) -> None:
    for folder in ("one", "two"):
        prover.write(f"kernels/{folder}/k.cu", f"int {folder};\n")
    prover.config(sources=["kernels/**/*.cu"])
    prover.build()
    text = prover.archive_text()
    assert "int one;" in text and "int two;" in text
    prover.edit("kernels/two/k.cu", "two", "three")
    prover.build()
    assert "int one;" in prover.archive_text() and "int three;" in prover.archive_text()


def test_two_clean_builds_give_the_same_bytes(prover: Workspace) -> None:
    prover.build()
    first = prover.archive_path().read_bytes()
    prover.build(out=prover.root / "other")
    assert prover.archive_path(prover.root / "other").read_bytes() == first


def test_build_with_nothing_to_do_leaves_the_archive_alone(prover: Workspace) -> None:
    """A newer archive would make cargo link again."""
    prover.build()
    before = prover.archive_path().stat()
    prover.touch("kernels/msm.cu")
    prover.build()
    after = prover.archive_path().stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_renamed_library_is_written_under_the_new_name_only(prover: Workspace) -> None:
    prover.build()
    prover.compiles()
    prover.config(name="other_kernels")
    prover.build()
    assert prover.compiles() == []
    assert prover.archive_path().exists()
    assert [path.name for path in prover.out.glob("*.a")] == ["libother_kernels.a"]


@pytest.mark.parametrize("damage", ["delete", "empty", "cut", "flip", "append", "member"])
def test_damaged_archive_is_made_again(prover: Workspace, damage: str) -> None:
    """C18"""
    prover.build()
    path = prover.archive_path()
    good = path.read_bytes()
    damaged = {
        "empty": b"",
        "cut": good[: len(good) // 2],
        "flip": good[:400] + bytes([good[400] ^ 1]) + good[401:],
        "append": good + b"x",
        "member": good.replace(b"int hash = 7;", b"int hash = 8;"),
    }
    if damage == "delete":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])
    prover.build()
    assert path.read_bytes() == good


@pytest.mark.parametrize("damage", ["delete", "empty", "cut", "flip"])
def test_damaged_object_never_reaches_the_archive(prover: Workspace, damage: str) -> None:
    """C18"""
    prover.build()
    good = prover.archive_path().read_bytes()
    objects = [path for path in (prover.out / "cudabuild/obj").rglob("*") if path.suffix == ".o"]
    assert len(objects) == 3
    for path in objects:
        content = path.read_bytes()
        if damage == "delete":
            path.unlink()
        else:
            path.write_bytes({"empty": b"", "cut": content[: len(content) // 2]}.get(damage, content.replace(b"int", b"bad")))
    prover.archive_path().unlink()
    prover.build()
    assert prover.archive_path().read_bytes() == good


@pytest.mark.parametrize("damage", ["delete", "empty", "cut", "nonsense", "foreign"])
def test_damaged_record_costs_a_compile_and_nothing_else(prover: Workspace, damage: str) -> None:
    """C18"""
    prover.build()
    good = prover.archive_path().read_bytes()
    record = prover.out / "cudabuild/record.json"
    text = record.read_text()
    if damage == "delete":
        record.unlink()
    else:
        record.write_text({"empty": "", "cut": text[: len(text) // 2], "nonsense": "\0\0", "foreign": '{"format": 999}'}[damage])
    prover.edit("kernels/hash.cu", "7", "8")
    prover.build()
    assert "int hash = 8;" in prover.archive_text()
    prover.edit("kernels/hash.cu", "8", "7")
    prover.build()
    assert prover.archive_path().read_bytes() == good


def test_emptied_out_dir_is_filled_again(prover: Workspace) -> None:
    prover.build()
    good = prover.archive_path().read_bytes()
    shutil.rmtree(prover.out)
    prover.build()
    assert prover.archive_path().read_bytes() == good


def test_object_of_a_removed_source_does_not_stay_for_ever(prover: Workspace) -> None:
    """C06: cargo never empties OUT_DIR."""
    prover.build()
    for number in range(3):
        prover.edit("kernels/hash.cu", f"{7 + number}", f"{8 + number}")
        prover.build()
    prover.remove("kernels/ntt.cu")
    prover.build()
    objects = [path for path in (prover.out / "cudabuild/obj").rglob("*") if path.suffix == ".o"]
    assert len(objects) == 2, [path.name for path in objects]
