"""This module checks the door to files: when a stamp may stand for a content, and that a write is whole or nothing."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from cudabuild import files
from cudabuild.files import Digests, Known, Stamp, stamp, within, write_atomically

HOUR = 3600


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a build that starts an hour after all files were written: a ctime cannot be set back."""
    real = files.time.time_ns
    monkeypatch.setattr(files.time, "time_ns", lambda: real() + HOUR * 10**9)


def test_digest_is_sha256_of_the_content(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"kernel" * 500_000)
    assert Digests({}).of(str(file)) == hashlib.sha256(b"kernel" * 500_000).hexdigest()


@pytest.mark.parametrize("name", ["missing", "folder", "folder/below", "dangling", "loop", "nul\0name"])
def test_what_is_no_regular_file_has_neither_stamp_nor_digest(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    assert stamp(f"{tmp_path}/{name}") is None
    assert Digests({}).of(f"{tmp_path}/{name}") is None


def test_pipe_has_no_digest_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert Digests({}).of(str(tmp_path / "pipe")) is None


def test_symlink_has_the_digest_of_what_it_leads_to(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("old")
    digests = Digests({})
    assert digests.of(str(tmp_path / "link")) == digests.of(str(tmp_path / "old"))
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("new")
    assert digests.of(str(tmp_path / "link")) == digests.of(str(tmp_path / "new"))


def test_file_in_another_folder_by_a_switched_symlink_is_noticed(tmp_path: Path, later: None) -> None:
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "h").write_text(name)
    (tmp_path / "current").symlink_to("v1")
    digests = Digests({})
    first = digests.of(f"{tmp_path}/current/h")
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("v2")
    assert digests.of(f"{tmp_path}/current/h") not in (first, None)


def test_digest_is_remembered_while_the_stamp_holds(
    tmp_path: Path, later: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    digests = Digests({})
    first = digests.of(str(file))
    second = Digests(digests.used())
    monkeypatch.setattr(files, "digest_file", lambda _path: pytest.fail("read again"))
    assert digests.of(str(file)) == first
    assert second.of(str(file)) == first
    assert second.used() == digests.used()


def test_changed_content_is_noticed_when_size_and_mtime_are_put_back(tmp_path: Path, later: None) -> None:
    """C04 (d)."""
    file = tmp_path / "a"
    file.write_text("one")
    digests = Digests({})
    first = digests.of(str(file))
    times = file.stat()
    file.write_text("two")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digests.of(str(file)) not in (first, None)


def test_changed_content_is_noticed_when_the_file_is_replaced_by_an_older_one_of_its_size(
    tmp_path: Path, later: None
) -> None:
    older, file = tmp_path / "older", tmp_path / "a"
    older.write_text("two")
    file.write_text("one")
    digests = Digests({})
    first = digests.of(str(file))
    os.utime(older, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    older.replace(file)
    assert digests.of(str(file)) not in (first, None)


def test_digest_of_a_file_younger_than_the_clocks_grain_is_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    digests = Digests({})
    assert digests.of(str(file)) is not None
    assert digests.used() == {}


def test_digest_of_a_file_from_the_future_is_not_remembered(tmp_path: Path, later: None) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    os.utime(file, (4_000_000_000, 4_000_000_000))
    digests = Digests({})
    assert digests.of(str(file)) is not None
    assert digests.used() == {}


def test_digest_of_a_file_that_is_written_while_it_is_read_is_not_remembered(
    tmp_path: Path, later: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_text("x")
    real = files.digest_file

    def read_and_write(path: str) -> str:
        digest = real(path)
        with file.open("a") as end:
            end.write("x")
        return digest

    monkeypatch.setattr(files, "digest_file", read_and_write)
    digests = Digests({})
    assert digests.of(str(file)) is not None, "and it does not wait for ever"
    assert digests.used() == {}


def test_only_digests_that_were_asked_for_are_handed_on(tmp_path: Path, later: None) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    first = Digests({})
    for name in ("a", "b"):
        first.of(str(tmp_path / name))
    second = Digests(first.used())
    second.of(str(tmp_path / "a"))
    assert list(second.used()) == [str(tmp_path / "a")]


def test_a_wrong_stamp_in_what_is_known_is_not_believed(tmp_path: Path, later: None) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    now = stamp(str(file))
    assert now is not None
    for other in (
        Stamp(now.size + 1, now.mtime_ns, now.ctime_ns, now.inode),
        Stamp(now.size, now.mtime_ns + 1, now.ctime_ns, now.inode),
        Stamp(now.size, now.mtime_ns, now.ctime_ns + 1, now.inode),
        Stamp(now.size, now.mtime_ns, now.ctime_ns, now.inode + 1),
    ):  # fmt: skip
        assert Digests({str(file): Known(other, "lie")}).of(str(file)) != "lie"


SECOND = 1_000_000_000
FINE = 100 * SECOND + 123_456_789


@pytest.mark.parametrize(
    ("mtime", "ctime", "after_ms", "settled"),
    [
        (FINE, FINE, 1, False),
        (FINE, FINE, 4, False),
        (FINE, FINE, 100, True),
        (100 * SECOND, FINE, 100, True),  # touch -d: only the mtime is a whole second
        (100 * SECOND, 100 * SECOND, 100, False),  # whole seconds on both: a coarse file system, FAT has two
        (100 * SECOND, 100 * SECOND, 1999, False),
        (100 * SECOND, 100 * SECOND, 2500, True),
        (FINE - 10 * SECOND, FINE, 1, False),  # back-dated: the ctime tells
        (FINE + 10 * SECOND, FINE, 100, False),  # from the future
    ],
)
def test_stamp_is_settled_only_after_the_clocks_grain(mtime: int, ctime: int, after_ms: int, settled: bool) -> None:
    assert Stamp(1, mtime, ctime, 1).settled_at(ctime + after_ms * 1_000_000) is settled


def test_unreadable_file_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("one")

    def refused(_path: str) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "digest_file", refused)
    assert Digests({}).of(str(tmp_path / "a")) is None


def test_written_file_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "record.json"
    target.write_text("old")
    before = target.stat().st_ino
    write_atomically(str(target), b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_ino != before, "a reader of the old file keeps the old file"
    assert os.listdir(tmp_path) == ["record.json"]


def test_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "record.json"
    target.write_text("old")
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(_source: str, _target: str) -> None:
        raise full

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "replace", fail)
        with pytest.raises(OSError) as caught:
            write_atomically(str(target), b"new")
    assert caught.value is full
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["record.json"]


def test_write_into_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(str(tmp_path / "no" / "record.json"), b"new")


@pytest.mark.parametrize(
    ("path", "folder", "inside"),
    [
        ("/a/b", "/a/b", True), ("/a/b/c", "/a/b", True), ("/a/bc", "/a/b", False), ("/a", "/a/b", False),
        ("/a/b/c", "/a/b/", True), ("/x", "/", True), ("/a/b-c/d", "/a/b", False),
    ],
)  # fmt: skip
def test_within_goes_by_whole_names(path: str, folder: str, inside: bool) -> None:
    assert within(path, folder) is inside


def test_text_and_file_of_the_same_bytes_have_one_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("ünï")
    assert files.digest_text("ünï") == files.digest_file(str(tmp_path / "a"))


def test_text_with_bytes_that_are_no_utf8_has_a_digest() -> None:
    assert files.digest_text("a\udcff") == hashlib.sha256(b"a\xff").hexdigest()
