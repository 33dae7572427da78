"""The store by itself: what lies where, who may read it, and that no damage to it is ever taken for an object."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import stored

from cudabuild.cache.keys import Reading, Request, key
from cudabuild.cache.record import Made
from cudabuild.cache.store import CacheError, Store, open_store
from cudabuild.files import Known, Stamp
from cudabuild.nvcc.probe import Probe

OBJECT = b"\x7fELF" + bytes(range(256)) * 3
REQUEST = Request(source="@crate/k.cu", flags=("-O3",), environment=(), tools=(("nvcc", "d1"),), commands="c")
READING = Reading(files=(("@crate/k.cu", "a" * 64), ("@crate/k.cuh", "b" * 64)), absent=("@crate/first/k.cuh",))
KEY = key(REQUEST, READING)
PROBE = Probe(
    question="q" * 128, version="13.0.88", available=("80",), host_compiler="/usr/bin/g++", tools=(("nvcc", "/nvcc", "d1"),),
    include_dirs=("/cuda/include",), builtin_dirs=(), library_dirs=(), root="/cuda", commands="c", direct=True,
)  # fmt: skip


def made(data: bytes = OBJECT, reading: Reading = READING, request: Request = REQUEST) -> Made:
    digest = hashlib.sha256(data).hexdigest()
    return Made(request=request, reading=reading, object=digest, output="k.cu(3): warning\n", milliseconds=1500)


def opened(root: Path, *, writable: bool = True) -> Store:
    store = open_store(str(root), writable=writable)
    assert store is not None
    return store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return opened(tmp_path / "home/cache")


@pytest.fixture
def root(store: Store) -> Path:
    return Path(store.root)


def publish(store: Store, tmp_path: Path, data: bytes = OBJECT, **parts: Reading) -> None:
    (tmp_path / "k.o").write_bytes(data)
    store.publish(made(data, **parts), str(tmp_path / "k.o"))


# The folder


def test_missing_folder_is_made_with_marker_tag_and_layout(store: Store, root: Path, tmp_path: Path) -> None:
    publish(store, tmp_path)
    assert (root / "cudabuild-cache").is_file()
    assert (root / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    assert stored.entries(root) == [root / "v1/entries" / KEY[:2] / KEY]
    assert [path.name for path in stored.files(root, "readings")] == [KEY]
    assert stored.files(root, "tmp") == []


def test_missing_folder_is_not_made_for_a_reader(tmp_path: Path) -> None:
    assert open_store(str(tmp_path / "cache"), writable=False) is None
    assert not (tmp_path / "cache").exists()


def test_empty_folder_becomes_a_cache(tmp_path: Path) -> None:
    opened(tmp_path)
    assert (tmp_path / "cudabuild-cache").is_file()


@pytest.mark.parametrize("writable", [True, False])
def test_folder_with_other_things_is_refused_and_left_alone(tmp_path: Path, writable: bool) -> None:
    """C05: the folder could be anybody's."""
    (tmp_path / "thesis.tex").write_text("dear")
    with pytest.raises(CacheError, match="holds other things and no file named cudabuild-cache"):
        open_store(str(tmp_path), writable=writable)
    assert stored.tree(tmp_path) == {"thesis.tex": b"dear"}


def test_cache_of_a_build_that_was_killed_while_making_it_is_a_cache(tmp_path: Path) -> None:
    """The marker is the first file there, so no half of a cache looks like a foreign folder."""
    (tmp_path / "cudabuild-cache").touch()
    assert opened(tmp_path).writable
    assert (tmp_path / "CACHEDIR.TAG").is_file()


@pytest.mark.parametrize("last", ["cudabuild-cache", "CACHEDIR.TAG"])
def test_cache_that_was_never_finished_is_not_taken_for_anybody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    def fail(path: str, flags: int) -> int:
        if path.endswith(last):
            raise OSError(28, "No space left on device", path)
        return os.open(path, flags, 0o600)

    monkeypatch.setattr("cudabuild.cache.store._private", fail)
    with pytest.raises(CacheError, match=f"{last} cannot be used: No space"):
        open_store(str(tmp_path / "cache"), writable=True)
    monkeypatch.undo()
    opened(tmp_path / "cache")


def test_cache_that_vanishes_is_made_again_as_a_whole(store: Store, root: Path, tmp_path: Path) -> None:
    publish(store, tmp_path)
    os.rename(root, tmp_path / "gone")
    publish(store, tmp_path)
    assert opened(root).fetch(KEY, str(tmp_path / "out/k.o")) is not None


def test_what_lies_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CacheError, match="cache.*cannot be used: Not a directory"):
        open_store(str(tmp_path / "cache"), writable=True)
    assert (tmp_path / "cache").read_text() == "a file"


# Who may do what


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_all_in_the_cache_is_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    """C17"""
    store = opened(tmp_path / "deep/cache")
    publish(store, tmp_path)
    store.keep_probe(PROBE)
    store.keep_digests({"/a": Known(Stamp(1, 2, 3, 4), "d")})
    store.note_added(3)
    found = [Path(store.root), *Path(store.root).rglob("*")]
    assert len(found) > 12
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_restored_object_is_the_owners_and_no_link_to_the_store(umask: int, store: Store, root: Path, tmp_path: Path) -> None:
    """C17: what a later step does to it, the store does not see."""
    publish(store, tmp_path)
    copy = tmp_path / "out/obj/k.o"
    assert store.fetch(KEY, str(copy)) is not None
    mode = stat.S_IMODE(copy.stat().st_mode)
    assert mode == 0o666 & ~umask
    assert copy.stat().st_nlink == 1 and stored.entries(root)[0].stat().st_nlink == 1
    with copy.open("ab") as file:
        file.write(b"stripped")
    assert store.fetch(KEY, str(copy)) is not None
    assert copy.read_bytes() == OBJECT


def test_store_of_a_reader_changes_nothing(store: Store, root: Path, tmp_path: Path) -> None:
    publish(store, tmp_path)
    entry = stored.entries(root)[0]
    os.utime(entry, (1, 1))
    before = stored.tree(root)
    reader = opened(root, writable=False)
    assert reader.fetch(KEY, str(tmp_path / "out.o")) is not None
    reader.publish(made(), str(tmp_path / "k.o"))
    reader.forget(str(entry))
    assert stored.tree(root) == before
    assert entry.stat().st_mtime == 1


# Objects


def test_object_comes_back_with_all_that_was_said_of_it(store: Store, tmp_path: Path) -> None:
    publish(store, tmp_path)
    assert list(store.readings(REQUEST)) == [(KEY, READING)]
    found = store.fetch(KEY, str(tmp_path / "out/k.o"))
    assert found is not None
    assert (found.output, found.milliseconds, found.source) == ("k.cu(3): warning\n", 1500, "@crate/k.cu")
    assert (tmp_path / "out/k.o").read_bytes() == OBJECT


def test_unknown_request_and_key_are_misses(store: Store, tmp_path: Path) -> None:
    assert list(store.readings(REQUEST)) == []
    assert store.fetch("0" * 64, str(tmp_path / "out.o")) is None
    assert not (tmp_path / "out.o").exists()


def test_object_that_changed_since_it_was_compiled_is_not_stored(store: Store, root: Path, tmp_path: Path) -> None:
    (tmp_path / "k.o").write_bytes(OBJECT + b"!")
    with pytest.raises(CacheError, match="changed before it could be stored"):
        store.publish(made(), str(tmp_path / "k.o"))
    assert stored.entries(root) == []


def test_readings_come_newest_first(store: Store, tmp_path: Path) -> None:
    readings = [Reading(files=(("@crate/k.cu", digit * 64),)) for digit in "abc"]
    for reading in readings:
        publish(store, tmp_path, reading=reading)
    for age, path in enumerate(sorted(stored.files(Path(store.root), "readings"), key=lambda path: path.name)):
        os.utime(path, (1000 - age, 1000 - age))
    found = [name for name, _ in store.readings(REQUEST)]
    assert found == sorted(key(REQUEST, reading) for reading in readings)


HEAD = len(b"cudabuild entry 1\n")
CUTS = [0, 1, HEAD - 1, HEAD, HEAD + 4, HEAD + 8, HEAD + 39, HEAD + 40, HEAD + 41, HEAD + 100, -len(OBJECT) - 1, -len(OBJECT), -100, -1]


@pytest.mark.parametrize("cut", CUTS)
def test_entry_that_was_cut_is_no_object_and_goes(store: Store, root: Path, tmp_path: Path, cut: int) -> None:
    """C18"""
    publish(store, tmp_path)
    entry = stored.entries(root)[0]
    entry.write_bytes(entry.read_bytes()[:cut])
    check_damage(store, root, tmp_path)


def test_entry_with_any_byte_flipped_is_no_object_and_goes(store: Store, root: Path, tmp_path: Path) -> None:
    """C18: in the magic, the length, the description or the object."""
    publish(store, tmp_path)
    entry = stored.entries(root)[0]
    whole = entry.read_bytes()
    for place in (*range(0, len(whole) - len(OBJECT), 3), *range(len(whole) - len(OBJECT), len(whole), 100), len(whole) - 1):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        entry.parent.mkdir(exist_ok=True)
        entry.write_bytes(data)
        check_damage(store, root, tmp_path)


@pytest.mark.parametrize("length", [0, 2**32, 2**63, 2**64 - 1])
def test_entry_with_a_wrong_length_is_no_object_and_costs_no_memory(store: Store, root: Path, tmp_path: Path, length: int) -> None:
    publish(store, tmp_path)
    entry = stored.entries(root)[0]
    data = entry.read_bytes()
    entry.write_bytes(data[:HEAD] + length.to_bytes(8, "little") + data[HEAD + 8 :])
    check_damage(store, root, tmp_path)


def test_entry_under_another_name_is_no_object(store: Store, root: Path, tmp_path: Path) -> None:
    publish(store, tmp_path)
    entry = stored.entries(root)[0]
    other = "0" * 64
    (root / "v1/entries/00").mkdir()
    os.rename(entry, root / "v1/entries/00" / other)
    with pytest.raises(CacheError):
        store.fetch(other, str(tmp_path / "out.o"))


def check_damage(store: Store, root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "out.o"
    with pytest.raises(CacheError, match="is damaged and was removed"):
        store.fetch(KEY, str(copy))
    assert not copy.exists()
    assert stored.entries(root) == []
    assert store.fetch(KEY, str(copy)) is None


def test_damaged_entry_that_cannot_be_removed_is_no_object_either(store: Store, root: Path, tmp_path: Path) -> None:
    publish(store, tmp_path)
    entry = stored.entries(root)[0]
    entry.write_bytes(entry.read_bytes()[:-1])
    with pytest.raises(CacheError, match="is damaged$"):
        opened(root, writable=False).fetch(KEY, str(tmp_path / "out.o"))


def test_damaged_reading_leads_nowhere_and_goes(store: Store, root: Path, tmp_path: Path) -> None:
    """A reading that lost a header would hide its changes."""
    publish(store, tmp_path)
    reading = stored.files(root, "readings")[0]
    whole = reading.read_bytes()
    for data in (b"", whole[:-9], b"{}", whole.replace(b"k.cuh", b"j.cuh"), whole.replace(b"bbbb", b"bbbc"), b"\xff" * 9):
        reading.write_bytes(data)
        assert list(store.readings(REQUEST)) == []
        assert not reading.exists()


# Answers of tools, and digests


def test_answers_and_digests_come_back(store: Store) -> None:
    store.keep_probe(PROBE)
    store.keep_digests({"/a": Known(Stamp(1, 2, 3, 4), "d")})
    store.keep_digests({"/b": Known(Stamp(1, 2, 3, 5), "e")})
    assert store.probes("qqq") == [PROBE] and store.probes("r") == []
    assert store.digests().keys() == {"/a", "/b"}


@pytest.mark.parametrize(("file", "old", "new"), [("probes/" + "q" * 128, b"include", b"incluse"), ("digests", b'"d"', b'"e"')])
def test_damaged_answers_are_none(store: Store, root: Path, file: str, old: bytes, new: bytes) -> None:
    """One other letter in an include folder, and a header there would be missed for ever."""
    store.keep_probe(PROBE)
    store.keep_digests({"/a": Known(Stamp(1, 2, 3, 4), "d")})
    path = root / "v1" / file
    whole = path.read_bytes()
    assert old in whole
    for data in (whole.replace(old, new), b"", whole[: len(whole) // 2], b"\xff\xfe"):
        path.write_bytes(data)
        assert store.probes("q") == [] or store.digests() == {}
        assert (store.probes("q") == []) == file.startswith("probes")


@pytest.mark.parametrize("text", [b"", b"x", b"-5", b"9" * 5000, "²".encode()])
def test_damaged_count_of_added_bytes_is_a_count(store: Store, root: Path, text: bytes) -> None:
    (root / "v1").mkdir()
    (root / "v1/added").write_bytes(text)
    assert store.note_added(7) >= 7


# Trouble


def test_full_disk_is_told_and_leaves_no_half_file(store: Store, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(old: str, new: str) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "k.o").write_bytes(OBJECT)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CacheError, match="cannot be written: No space left"):
        store.publish(made(), str(tmp_path / "k.o"))
    assert stored.files(root, "tmp") == [] and stored.entries(root) == []


@pytest.mark.parametrize(("times", "stored_then"), [(1, True), (2, True), (3, False)])
def test_folder_that_a_cleaner_removes_in_between_is_made_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, stored_then: bool
) -> None:
    real, left = os.replace, [times]

    def vanish(old: str, new: str) -> None:
        if left[0]:
            left[0] -= 1
            os.rmdir(os.path.dirname(new))
        real(old, new)

    monkeypatch.setattr(os, "replace", vanish)
    if stored_then:
        publish(store, tmp_path)
        assert store.fetch(KEY, str(tmp_path / "out.o")) is not None
    else:
        with pytest.raises(CacheError):
            publish(store, tmp_path)
        assert stored.files(Path(store.root), "tmp") == []
