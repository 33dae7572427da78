"""This module checks the static library: its members, its bytes, and what a failure leaves."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cudabuild.archive import is_fresh, make_archive
from cudabuild.cache.record import Record
from cudabuild.errors import BuildFailed, ToolchainError
from cudabuild.files import Digests, digest_file
from cudabuild.host import Environment

ENV = Environment({"PATH": os.environ["PATH"]})


class Library:
    def __init__(self, folder: Path) -> None:
        self.objects = folder / "cudabuild/obj"
        self.objects.mkdir(parents=True)
        self.path = str(folder / "libk.a")

    def object(self, name: str, content: str = "") -> str:
        (self.objects / f"{name}.o").write_text(content or name)
        return str(self.objects / f"{name}.o")

    def members(self) -> list[str]:
        return subprocess.run(["ar", "t", self.path], capture_output=True, text=True, check=True).stdout.splitlines()

    def beside(self) -> list[str]:
        return sorted(os.listdir(os.path.dirname(self.path)))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "out")


def test_members_are_the_objects_in_their_order(library: Library) -> None:
    make_archive(
        library.path, [library.object("b"), library.object("a"), library.object("a-very-long-name-1234 ü")], ENV
    )
    assert library.members() == ["b.o", "a.o", "a-very-long-name-1234 ü.o"]


def test_member_that_is_gone_is_gone(library: Library) -> None:
    """C06"""
    make_archive(library.path, [library.object("a"), library.object("b")], ENV)
    make_archive(library.path, [library.object("a")], ENV)
    assert library.members() == ["a.o"]


def test_same_objects_make_the_same_bytes_whenever_and_wherever(library: Library, tmp_path: Path) -> None:
    make_archive(library.path, [library.object("a"), library.object("b")], ENV)
    other = Library(tmp_path / "elsewhere" / "out")
    objects = [other.object("a"), other.object("b")]
    for path in objects:
        os.chmod(path, 0o600)
        os.utime(path, (1, 1))
    make_archive(other.path, objects, ENV)
    assert Path(other.path).read_bytes() == Path(library.path).read_bytes()


def test_order_of_the_objects_decides_the_bytes(library: Library) -> None:
    objects = [library.object("a"), library.object("b")]
    make_archive(library.path, objects, ENV)
    first = digest_file(library.path)
    make_archive(library.path, objects[::-1], ENV)
    assert digest_file(library.path) != first


def test_failure_leaves_the_old_archive_and_nothing_beside_it(library: Library) -> None:
    make_archive(library.path, [library.object("a")], ENV)
    old, beside = Path(library.path).read_bytes(), library.beside()
    with pytest.raises(BuildFailed) as caught:
        make_archive(library.path, [library.object("a"), str(library.objects / "missing.o")], ENV)
    assert "missing.o" in caught.value.message and library.path in caught.value.message
    assert Path(library.path).read_bytes() == old
    assert library.beside() == beside


def test_failure_of_the_first_archive_leaves_none(library: Library) -> None:
    with pytest.raises(BuildFailed):
        make_archive(library.path, [str(library.objects / "missing.o")], ENV)
    assert library.beside() == ["cudabuild"]


def test_reader_of_the_old_archive_keeps_it(library: Library) -> None:
    make_archive(library.path, [library.object("a")], ENV)
    with open(library.path, "rb") as reader:
        make_archive(library.path, [library.object("b")], ENV)
        assert b"a.o/" in reader.read()


def test_rest_of_a_killed_build_does_not_get_in(library: Library) -> None:
    """Its process id may be ours now."""
    (Path(library.path).parent / f".libk.a.{os.getpid()}.tmp").write_text("half an archive")
    make_archive(library.path, [library.object("a")], ENV)
    assert library.members() == ["a.o"]
    assert library.beside() == ["cudabuild", "libk.a"]


@pytest.mark.parametrize("folder", ["w s", "d$x", "a#b", "ünï", "-x", "it's"])
def test_folder_may_be_called_anything(tmp_path: Path, folder: str) -> None:
    library = Library(tmp_path / folder / "out")
    make_archive(library.path, [library.object("a b$c#d")], ENV)
    assert library.members() == ["a b$c#d.o"]


def test_missing_archiver_is_an_error_with_a_cure(library: Library) -> None:
    with pytest.raises(ToolchainError) as caught:
        make_archive(library.path, [library.object("a")], Environment({"PATH": "/no"}))
    assert "binutils" in caught.value.hint


MEMBERS = (("a", "digest a"), ("b", "digest b"))


@pytest.mark.parametrize("damage", ["none", "gone", "edited", "other members", "other order", "never made"])
def test_archive_is_fresh_only_while_it_is_the_one_that_was_made_of_these_members(
    library: Library, damage: str
) -> None:
    make_archive(library.path, [library.object("a"), library.object("b")], ENV)
    record = Record(archive="" if damage == "never made" else digest_file(library.path), members=MEMBERS)
    wanted = {"other members": (*MEMBERS, ("c", "digest c")), "other order": MEMBERS[::-1]}.get(damage, MEMBERS)
    if damage == "gone":
        os.unlink(library.path)
    elif damage == "edited":
        with open(library.path, "ab") as file:
            file.write(b"\n")
    assert is_fresh(library.path, wanted, record, Digests({})) is (damage == "none")


def test_archive_of_nothing_is_not_fresh_when_there_is_none(library: Library) -> None:
    assert not is_fresh(library.path, (), Record(), Digests({}))
