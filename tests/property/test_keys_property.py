"""This module checks of all requests, readings and paths what tests/unit checks of some."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cudabuild.cache.keys import Reading, Request, key, request_changes
from cudabuild.cache.record import Made, Record, load, save
from cudabuild.roots import Roots

REPOSITORY = Path(__file__).parents[2]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
strings = st.lists(texts, max_size=3).map(tuple)


def pairs(names: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    """As they are made: each name once, in order."""
    return st.dictionaries(names, texts, max_size=3).map(lambda found: tuple(sorted(found.items())))


requests = st.builds(
    Request,
    format=st.integers(1, 3),
    source=texts,
    flags=strings,
    environment=pairs(texts),
    tools=pairs(texts),
    bound_to=strings,
    commands=texts,
)
readings = st.builds(
    Reading,
    files=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    absent=strings,
    present=strings,
    library=texts,
    untracked=strings,
    unshared=strings,
)


def differing(one: msgspec.Struct, two: msgspec.Struct) -> list[str]:
    return [name for name in one.__struct_fields__ if getattr(one, name) != getattr(two, name)]


@given(requests, requests, readings)
def test_any_single_field_of_a_request_decides_the_key(one: Request, two: Request, reading: Reading) -> None:
    for name in differing(one, two):
        changed = msgspec.structs.replace(one, **{name: getattr(two, name)})
        assert key(changed, reading) != key(one, reading), name


@given(requests, readings, readings)
def test_any_single_field_of_a_reading_decides_the_key(request: Request, one: Reading, two: Reading) -> None:
    for name in differing(one, two):
        changed = msgspec.structs.replace(one, **{name: getattr(two, name)})
        assert key(request, changed) != key(request, one), name


@given(requests, readings, st.data())
def test_text_that_moves_from_one_field_to_another_decides_the_key(
    request: Request, reading: Reading, data: st.DataObject
) -> None:
    """No two fields run together."""
    flags = request.flags + tuple(data.draw(strings))
    assume(flags)
    joined = msgspec.structs.replace(request, flags=("".join(flags),))
    moved = msgspec.structs.replace(request, flags=flags[1:], source=request.source + flags[0])
    request = msgspec.structs.replace(request, flags=flags)
    assert len({key(one, reading) for one in (request, joined, moved)}) == len({request, joined, moved})


@given(requests, requests)
def test_changes_are_told_exactly_when_requests_differ(one: Request, two: Request) -> None:
    assert (request_changes(one, two) == ()) is (one == two)
    assert request_changes(one, one) == ()


@given(requests, requests)
def test_every_change_is_told_in_words_on_one_line(one: Request, two: Request) -> None:
    for change in request_changes(one, two):
        assert str(change)


@settings(max_examples=3, deadline=None)
@given(st.lists(st.tuples(requests, readings), min_size=5, max_size=20))
def test_equal_values_give_equal_keys_in_every_process(values: list[tuple[Request, Reading]]) -> None:
    code = (
        "import sys, msgspec\nfrom cudabuild.cache.keys import Reading, Request, key\n"
        "for one in msgspec.json.decode(sys.stdin.buffer.read(), type=list[tuple[Request, Reading]]): print(key(*one))"
    )
    expected = "".join(f"{key(*value)}\n" for value in values)
    for seed in ("0", "1", "random"):
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], input=msgspec.json.encode(values), env=env, capture_output=True, check=True
        )
        assert done.stdout.decode() == expected


@settings(deadline=None)
@given(st.dictionaries(texts, st.tuples(requests, readings, texts), max_size=3), strings)
def test_record_is_read_back_as_it_was_written(
    values: dict[str, tuple[Request, Reading, str]], names: tuple[str, ...]
) -> None:
    made = {
        source: Made(request=request, reading=reading, object=text, output=text, milliseconds=1)
        for source, (request, reading, text) in values.items()
    }
    record = Record(made=made, archive="".join(names), members=tuple((name, name) for name in names))
    with tempfile.TemporaryDirectory() as folder:
        save(f"{folder}/record.json", record)
        assert load(f"{folder}/record.json") == record


# Paths

names = st.text(st.sampled_from("ab@ .#$ü-"), min_size=1, max_size=4).filter(lambda name: name.strip("."))
spelled = st.lists(st.one_of(names, st.sampled_from(["..", ".", "", "@crate", "@out", "@cuda"])), max_size=5).map(
    "/".join
)
folders = st.lists(names, max_size=3).map(lambda parts: "/" + "/".join(parts))


@st.composite
def roots(draw: st.DrawFn) -> Roots:
    """Folders beside each other or inside, as OUT_DIR mostly is."""
    crate = draw(folders)
    below = st.lists(names, max_size=3).map(lambda parts: "/".join([crate.rstrip("/"), *parts]) or "/")
    cuda = draw(st.one_of(st.just(""), folders, below))
    return Roots(
        crate, draw(st.one_of(folders, below)), cuda + draw(st.sampled_from(["", "/bin/..", "/"])) if cuda else ""
    )


@st.composite
def roots_and_path(draw: st.DrawFn) -> tuple[Roots, str]:
    own = draw(roots())
    base = draw(st.sampled_from(["", "/", own.crate, own.out, own.cuda]))
    return own, f"{base}/{draw(spelled)}" if base else draw(spelled)


@given(roots_and_path())
def test_real_undoes_logical(case: tuple[Roots, str]) -> None:
    own, path = case
    assert own.real(own.logical(path)) == own.absolute(path)


@given(roots_and_path())
def test_logical_undoes_real(case: tuple[Roots, str]) -> None:
    own, path = case
    logical = own.logical(path)
    assert own.logical(own.real(logical)) == logical


@given(roots(), spelled, spelled)
def test_two_paths_never_share_a_logical_name(own: Roots, one: str, two: str) -> None:
    assume(own.absolute(one) != own.absolute(two))
    assert own.logical(one) != own.logical(two)


@given(roots_and_path(), st.sampled_from(["", "-I", "-D", "-DX=", "-isystem", "-Xcompiler"]))
def test_two_arguments_never_share_a_logical_name(case: tuple[Roots, str], option: str) -> None:
    own, path = case
    others = [
        path,
        own.logical(path),
        f"-I{path}",
        f"-I{own.logical(path)}",
        f"-I{own.absolute(path)}",
        own.absolute(path),
        f"-D{path}",
    ]
    arguments = {option + path, *others}
    plain = {
        argument for argument in arguments if not argument.removeprefix("-I").startswith("@")
    }  # no path begins so by itself
    assert len({own.logical_argument(argument) for argument in plain}) == len(plain)
