"""This module checks the folder of one crate's build: its lock, its scratch folders, and what must not stay in it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cudabuild.errors import BuildFailed, ConfigError
from cudabuild.outdir import NotOurs, OutDir, disk_error

REPOSITORY = Path(__file__).parents[2]
HOLD = """
import sys, time
from cudabuild.outdir import OutDir
with OutDir(sys.argv[1]).exclusive():
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
    print("done", flush=True)
"""


def holder(out: OutDir, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, out.root, str(seconds)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def out(tmp_path: Path) -> OutDir:
    return OutDir(str(tmp_path / "out"))


def test_library_lies_in_the_folder_itself_and_all_else_below_cudabuild(out: OutDir) -> None:
    assert out.archive("k") == f"{out.root}/libk.a"
    for path in (out.record, out.report, out.objects, out.links, out.object("a-1")):
        assert path.startswith(f"{out.root}/cudabuild/")


def test_second_build_waits_for_the_first_and_says_so(out: OutDir, capsys: pytest.CaptureFixture[str]) -> None:
    """C20"""
    first = holder(out, 0.5)
    with out.exclusive():
        assert first.communicate()[0] == "done\n", "the first had ended"
    assert out.root in capsys.readouterr().err


def test_killed_holder_is_not_waited_for(out: OutDir, capsys: pytest.CaptureFixture[str]) -> None:
    """C20"""
    first = holder(out, 60)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    started = time.monotonic()
    with out.exclusive():
        assert time.monotonic() - started < 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("content", ["", "12345\nanother-host\n"])
def test_lock_file_that_lies_about_is_not_a_lock(out: OutDir, content: str) -> None:
    """C20"""
    with out.exclusive():
        pass
    Path(out.own, "lock").write_text(content)
    started = time.monotonic()
    with out.exclusive():
        assert time.monotonic() - started < 2


def test_lock_is_free_after_a_failed_build(out: OutDir) -> None:
    with pytest.raises(RuntimeError), out.exclusive():
        raise RuntimeError
    with out.exclusive():
        pass


def test_scratch_folder_is_new_and_those_before_are_gone(out: OutDir) -> None:
    first = out.new_scratch()
    Path(first, "log").write_text("")
    second = out.new_scratch()
    assert second != first
    assert os.listdir(second) == []
    assert not os.path.exists(first)


def test_scratch_folder_of_a_build_that_failed_badly_can_be_removed(out: OutDir) -> None:
    scratch = out.new_scratch()
    Path(scratch, "x").write_text("")
    out.remove_scratch(scratch)
    assert os.listdir(out.own) == []


def test_intermediate_files_go_and_scripts_and_logs_stay(out: OutDir) -> None:
    scratch = out.new_scratch()
    folder = Path(scratch, "0/a-1")
    for name in ("tmp/a.ii", "tmp/deep/x", "step.sh", "log", "a-1.d"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    out.remove_intermediates(scratch)
    assert sorted(os.listdir(folder)) == ["a-1.d", "log", "step.sh", "tmp"]
    assert os.listdir(folder / "tmp") == [], "the script still runs by hand"


def test_object_of_a_source_that_is_gone_goes_too(out: OutDir) -> None:
    os.makedirs(out.objects)
    for name in ("a-00000001", "b-00000002", "old-00000003"):
        Path(out.object(name)).write_text("")
    Path(f"{out.object('a-00000001')}.123.tmp").write_text("")
    out.remove_old_objects(["a-00000001", "b-00000002", "never-made-00000004"])
    assert sorted(os.listdir(out.objects)) == ["a-00000001.o", "b-00000002.o"]


def test_what_is_not_of_our_own_form_is_left_alone(out: OutDir) -> None:
    os.makedirs(f"{out.own}/run-notes")
    os.makedirs(out.object("folder-00000001"))
    Path(out.objects, "notes.o").write_text("")
    out.remove_old_objects([])
    out.new_scratch()
    assert sorted(os.listdir(out.objects)) == ["folder-00000001.o", "notes.o"]
    assert os.path.isdir(f"{out.own}/run-notes")


def test_first_build_has_nothing_to_remove(out: OutDir) -> None:
    out.remove_old_objects(["a-1"])
    assert not os.path.exists(out.objects)


def test_report_replaces_the_one_before(out: OutDir) -> None:
    for text in (b'{\n  "schema": 1, "longer": 1}', b'{\n  "schema": 1}'):
        out.keep_report(text)
        assert Path(out.report).read_bytes() == text


def test_report_that_cannot_be_kept_fails_nothing(out: OutDir) -> None:
    Path(out.root).write_text("a file where the folder should be")
    out.keep_report(b"report")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_folder_that_must_not_be_written_is_the_configurations_fault(number: int) -> None:
    error = disk_error(OSError(number, os.strerror(number), "/out/cudabuild/obj"), "/out")
    assert isinstance(error, ConfigError)
    assert "/out/cudabuild/obj" in error.message and "/out" in error.hint


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_a_failed_build_that_says_what_to_do(number: int) -> None:
    error = disk_error(OSError(number, os.strerror(number), "/out/libk.a"), "/out")
    assert isinstance(error, BuildFailed)
    assert "/out/libk.a" in error.message and "space" in error.hint


def test_error_without_a_file_names_the_output_folder() -> None:
    assert "/out" in disk_error(OSError(errno.EIO, "Input/output error"), "/out").message


def test_halves_that_a_killed_build_left_go_and_nothing_else(tmp_path: Path) -> None:
    out = OutDir(str(tmp_path))
    (tmp_path / "cudabuild").mkdir()
    halves = ["cudabuild/record.json.123.tmp", ".libkernels.a.123.tmp"]
    others = ["notes.tmp", "libkernels.a", "record.json.123.tmp.c", "cudabuild/record.json", ".libkernels.a"]
    for name in (*halves, *others):
        (tmp_path / name).touch()
    with out.exclusive():
        left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left - {"cudabuild/lock", "cudabuild/lock-test", "cudabuild/.cudabuild"} == set(others)


def test_folder_of_a_build_is_known_again_even_when_it_was_killed_at_once(out: OutDir) -> None:
    os.makedirs(out.own)
    out.check()
    with out.exclusive():
        assert os.path.lexists(f"{out.own}/.cudabuild")
        out.check()
        Path(out.archive("k")).touch()
        out.check_library("k")


def test_report_alone_does_not_make_a_library_ours(out: OutDir) -> None:
    """A configuration error is reported before anything is looked at."""
    os.makedirs(out.root)
    Path(out.archive("k")).touch()
    out.keep_report(b'{\n  "schema": 1,\n}\n')
    out.check()
    with pytest.raises(NotOurs, match="libk.a"):
        out.check_library("k")


@pytest.mark.parametrize("name", ["cudabuild", "cudabuild/obj", "cudabuild/lib"])
def test_symlink_in_a_folders_place_is_not_followed(out: OutDir, name: str) -> None:
    with out.exclusive():
        pass
    if name == "cudabuild":
        os.rename(out.own, f"{out.root}/elsewhere")
    os.symlink(f"{out.root}/elsewhere", f"{out.root}/{name}")
    with pytest.raises(NotOurs, match="symlink"):
        out.check()
