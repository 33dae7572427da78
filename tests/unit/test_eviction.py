"""What goes first, how much of it, and what goes along."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest
import stored

from cudabuild.cache import eviction
from cudabuild.cache.eviction import Stored, surplus
from cudabuild.cache.keys import Reading, Request, key
from cudabuild.cache.record import Made
from cudabuild.cache.store import Store, open_store

FOUR = [Stored(name, 100, float(used)) for used, name in enumerate("abcd", 1)]


def names(chosen: list[Stored]) -> str:
    return "".join(one.path for one in chosen)


@pytest.mark.parametrize(
    ("size", "gone"), [(0, "abcd"), (99, "abcd"), (100, "abc"), (199, "abc"), (200, "ab"), (399, "a"), (400, ""), (10**12, "")]
)
def test_longest_unused_go_first_and_no_more_than_needed(size: int, gone: str) -> None:
    assert names(surplus(FOUR, max_bytes=size)) == gone


@pytest.mark.parametrize(("moment", "gone"), [(0.5, ""), (1.0, ""), (1.5, "a"), (3.5, "abc"), (9.0, "abcd")])
def test_older_than_takes_what_was_last_used_before(moment: float, gone: str) -> None:
    assert names(surplus(FOUR, older_than=moment)) == gone


def test_with_both_limits_either_is_enough() -> None:
    assert names(surplus(FOUR, max_bytes=300, older_than=2.5)) == "ab"
    assert names(surplus(FOUR, max_bytes=100, older_than=2.5)) == "abc"


def test_without_a_limit_nothing_goes() -> None:
    assert surplus(FOUR) == []


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(str(tmp_path / "cache"), writable=True)
    assert store is not None
    return store


@pytest.fixture
def root(store: Store) -> Path:
    return Path(store.root)


def add(store: Store, source: str, size: int, age: float, headers: int = 1) -> str:
    """An entry last used `age` seconds ago; its key."""
    data = source.encode() * size
    path = Path(store.root).parent / "made.o"
    path.write_bytes(data)
    request = Request(source=source, flags=(), environment=(), tools=(), commands="")
    reading = Reading(files=tuple((f"@crate/{number}.cuh", "0" * 64) for number in range(headers)))
    made = Made(request=request, reading=reading, object=hashlib.sha256(data).hexdigest(), output="", milliseconds=1)
    store.publish(made, str(path))
    name = key(request, reading)
    used = time.time() - age
    os.utime(store.entry_path(name), (used, used))
    return name


def test_entries_are_sorted_by_last_use(store: Store) -> None:
    keys = [add(store, source, 10, age) for source, age in (("b", 20), ("c", 10), ("a", 30))]
    assert [os.path.basename(one.path) for one in eviction.entries(store)] == [keys[2], keys[0], keys[1]]


def test_use_of_an_entry_saves_it(store: Store, tmp_path: Path) -> None:
    old, new = add(store, "a", 10, 30), add(store, "b", 10, 20)
    store.fetch(old, str(tmp_path / "out.o"))
    assert [os.path.basename(one.path) for one in eviction.entries(store)] == [new, old]


def test_size_is_all_that_an_entry_takes_on_the_disk(store: Store, root: Path) -> None:
    """The list of a thousand headers is as large as a small object."""
    add(store, "a", 10, 30, headers=1000)
    taken = sum(path.stat().st_size for kind in ("entries", "readings") for path in stored.files(root, kind))
    assert taken > 70_000
    assert [one.size for one in eviction.entries(store)] == [taken]


def test_count_of_added_bytes_is_what_was_written(store: Store, root: Path) -> None:
    path = root.parent / "k.o"
    path.write_bytes(b"x")
    request = Request(source="k", flags=(), environment=(), tools=(), commands="")
    made = Made(request=request, reading=Reading(files=()), object=hashlib.sha256(b"x").hexdigest(), output="", milliseconds=1)
    assert store.publish(made, str(path)) == eviction.entries(store)[0].size


def test_removal_takes_readings_and_empty_folders_along(store: Store, root: Path) -> None:
    gone, kept = add(store, "a", 10, 30), add(store, "b", 10, 20)
    chosen = [one for one in eviction.entries(store) if one.path.endswith(gone)]
    assert eviction.remove(store, chosen) == eviction.Removed(tuple(chosen), ())
    assert [path.name for path in stored.entries(root)] == [kept]
    assert [path.name for path in stored.files(root, "readings")] == [kept]
    assert len([path for path in (root / "v1/readings").rglob("*") if path.is_dir()]) == 2
    eviction.remove(store, eviction.entries(store))
    assert not (root / "v1/entries").exists() and not (root / "v1/readings").exists()
    add(store, "c", 10, 0)
    assert len(stored.entries(root)) == 1


def test_leftovers_of_killed_builds_go_and_those_of_running_ones_stay(store: Store, root: Path) -> None:
    for folder in ("tmp", "locks"):
        (root / "v1" / folder).mkdir(parents=True)
        (root / "v1" / folder / "old").touch()
        (root / "v1" / folder / "new").touch()
        os.utime(root / "v1" / folder / "old", (time.time() - 7200,) * 2)
    eviction.remove(store, [])
    assert [path.name for folder in ("tmp", "locks") for path in stored.files(root, folder)] == ["new", "new"]


def test_answers_of_tools_do_not_pile_up(store: Store, root: Path) -> None:
    (root / "v1/probes").mkdir(parents=True)
    for number in range(203):
        path = root / f"v1/probes/{number}"
        path.touch()
        os.utime(path, (1000 + number, 1000 + number))
    eviction.remove(store, [])
    left = {path.name for path in stored.files(root, "probes")}
    assert len(left) == 200 and not left & {"0", "1", "2"}


def test_what_another_cleaner_took_is_gone(store: Store) -> None:
    add(store, "a", 10, 30)
    chosen = eviction.entries(store)
    os.unlink(chosen[0].path)
    assert eviction.remove(store, chosen).stuck == ()


def test_what_cannot_be_removed_is_told_and_the_rest_goes(store: Store, root: Path) -> None:
    held, free = add(store, "a", 10, 30), add(store, "b", 10, 20)
    assert held[:2] != free[:2]
    with stored.read_only(root / "v1/entries" / held[:2]):
        removed = eviction.remove(store, eviction.entries(store))
    assert [os.path.basename(one.path) for one in removed.stuck] == [held]
    assert [os.path.basename(one.path) for one in removed.gone] == [free]
    assert [path.name for path in stored.files(root, "readings")] == [held]


def test_files_that_vanish_meanwhile_are_no_trouble(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, "a", 10, 30)
    real = os.lstat

    def vanish(path: str) -> os.stat_result:
        os.unlink(path)
        return real(path)

    monkeypatch.setattr(os, "lstat", vanish)
    assert eviction.entries(store) == []
