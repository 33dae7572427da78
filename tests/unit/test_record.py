"""This module checks the memory of one OUT_DIR: what goes in comes out, and what is damaged counts for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from cudabuild.cache import record
from cudabuild.cache.keys import Reading, Request
from cudabuild.cache.record import Made, Record, load, save
from cudabuild.files import Known, Stamp
from cudabuild.nvcc.probe import Probe

PROBE = Probe(
    question="q", version="13.0.88", available=("80", "90"), host_compiler="/usr/bin/g++", tools=(("nvcc", "/n", "d"),),
    include_dirs=("/i",), builtin_dirs=("/i",), library_dirs=("/l",), root="/r", commands="c", direct=True,
)  # fmt: skip


def made(source: str, *files: tuple[str, str], flags: tuple[str, ...] = ("-O3",)) -> Made:
    request = Request(source=source, flags=flags, environment=(("CPATH", ""),), tools=(("nvcc", "d"),), commands="c")
    reading = Reading(files=files, absent=("@crate/z.h", "@crate/y.h"), present=("/p.h",), untracked=("why",))
    return Made(
        request=request, reading=reading, object=f"object of {source}", output="warning: ünï\n", milliseconds=12
    )


HEADER = ("@crate/f.cuh", "digest f")
RECORD = Record(
    made={
        "@crate/a.cu": made("@crate/a.cu", ("@crate/a.cu", "digest a"), HEADER),
        "@crate/b.cu": made("@crate/b.cu", HEADER, ("@crate/b.cu", "digest b")),
        "@crate/c.c": made("@crate/c.c", ("@crate/f.cuh", "another digest"), flags=("-O0",)),
    },
    probes=(PROBE,), digests={"/a": Known(Stamp(1, 2, 3, 4), "d")}, archive="digest",
    members=(("a-1", "x"), ("b-2", "y")),
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "cudabuild/record.json")
    save(path, RECORD)
    return path


def test_record_is_read_back_as_it_was_written(path: str) -> None:
    assert load(path) == RECORD


def test_what_the_units_share_is_written_once(path: str) -> None:
    text = Path(path).read_text()
    assert text.count("digest f") == 1
    assert text.count("-O3") == 1


def test_equal_records_are_equal_files(path: str, tmp_path: Path) -> None:
    again = msgspec.structs.replace(RECORD, made=dict(reversed(list(RECORD.made.items()))))
    save(str(tmp_path / "again"), again)
    assert (tmp_path / "again").read_bytes() == Path(path).read_bytes()


def test_no_record_is_an_empty_record(tmp_path: Path) -> None:
    assert load(str(tmp_path / "no")) == load(str(tmp_path)) == Record()


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\0" * 100, b"\xff\xfe", b'{"format": 1}', b"[" * 100_000]
)
def test_what_is_no_record_is_an_empty_record(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)
    assert load(path) == Record()


def test_record_cut_off_anywhere_is_an_empty_record(path: str) -> None:
    data = Path(path).read_bytes()
    for end in range(0, len(data.rstrip()), 7):
        Path(path).write_bytes(data[:end])
        assert load(path) == Record(), data[:end]


def test_record_of_another_format_is_an_empty_record(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RECORD_FORMAT", record.RECORD_FORMAT + 1)
    assert load(path) == Record()


def test_damage_never_changes_what_a_record_says(path: str) -> None:
    """One flipped digit of a number would make a unit depend on other files than it read."""
    data = Path(path).read_bytes()
    for position in range(0, len(data), 2):
        damaged = bytearray(data)
        damaged[position] ^= (1, 4, 64)[position % 3]
        Path(path).write_bytes(damaged)
        assert load(path) in (Record(), RECORD), bytes(damaged[max(0, position - 40) : position + 40])


def test_failed_write_leaves_the_old_record(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        save(path, Record())
    monkeypatch.undo()
    assert load(path) == RECORD
    assert os.listdir(os.path.dirname(path)) == ["record.json"]


def test_folder_is_made_when_missing(tmp_path: Path) -> None:
    save(str(tmp_path / "x/y/record.json"), RECORD)
    assert load(str(tmp_path / "x/y/record.json")) == RECORD
