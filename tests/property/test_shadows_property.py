"""This module holds a tiny model of the compiler's search for headers against what a reading says of it.

In random folders, with random search orders and includes: whenever one new file would make the compiler read another
file, or answer a __has_include otherwise, the reading of the compile before must be false.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudabuild.cache.keys import Request
from cudabuild.cache.reading import Disk, changes, take
from cudabuild.files import Digests
from cudabuild.graph.search import Search
from cudabuild.roots import Roots

REQUEST = Request(source="@crate/k/a.cu", flags=(), environment=(), tools=(), commands="")
FOLDERS = ("k", "k/s", "e", "e/s", "i", "i/s", "i/t")
NAMES = ("x.h", "y.h", "s/x.h", "t/y.h", "../i/x.h", "../k/s/x.h", "./y.h")
SEARCHED = ("k", "e", "i", "i/s", "k/../i", "link", "gone", "./e")


class Line(msgspec.Struct, frozen=True):
    """One include or one question for a header."""

    name: str
    quoted: bool
    probe: bool

    def __str__(self) -> str:
        name = f'"{self.name}"' if self.quoted else f"<{self.name}>"
        return f"#if __has_include({name})\n#endif\n" if self.probe else f"#include {name}\n"


lines = st.builds(Line, name=st.sampled_from(NAMES), quoted=st.booleans(), probe=st.sampled_from([False, False, True]))
headers = st.dictionaries(
    st.sampled_from([f"{folder}/{name}" for folder in FOLDERS for name in ("x.h", "y.h")]),
    st.lists(lines, max_size=3),
    min_size=5,
)


class Tree(msgspec.Struct, frozen=True):
    headers: dict[str, list[Line]]
    source: list[Line]
    search: list[str]
    """A subset of SEARCHED, in the order of -I."""


trees = st.builds(
    Tree, headers=headers, source=st.lists(lines, min_size=3, max_size=6),
    search=st.lists(st.sampled_from(SEARCHED), unique=True, min_size=2, max_size=5),
)  # fmt: skip


class Model:
    """What a compiler does, with `#pragma once` in every header."""

    def __init__(self, search: list[str], texts: dict[str, list[Line]]) -> None:
        self.search = search
        self.texts = {os.path.realpath(path): text for path, text in texts.items()}
        self.read: list[str] = []
        """In order, as a compiler spells them."""
        self.found: list[str | None] = []
        """What each include and question led to, entered or not."""
        self._once: set[str] = set()
        self._enter("k/a.cu")

    def _enter(self, path: str) -> None:
        if os.path.realpath(path) in self._once:
            return
        self._once.add(os.path.realpath(path))
        self.read.append(path)
        for line in self.texts.get(os.path.realpath(path), []):
            target = self._look_for(line, path)
            self.found.append(target and os.path.realpath(target))
            if target and not line.probe:
                self._enter(target)

    def _look_for(self, line: Line, includer: str) -> str | None:
        folders = [os.path.dirname(includer)] * line.quoted + self.search
        places = [os.path.join(folder, line.name) for folder in folders if os.path.isdir(folder)]
        return next(filter(os.path.isfile, places), None)

    def missing(self) -> bool:
        """Whether an include led nowhere, which no compile survives."""
        return any(
            not line.probe and not self._look_for(line, path)
            for path in self.read for line in self.texts.get(os.path.realpath(path), [])
        )  # fmt: skip


def write(path: str, text: list[Line]) -> None:
    Path(path).write_text("#pragma once\n" * path.endswith(".h") + f"// {path}\n" + "".join(map(str, text)))


@contextmanager
def laid_out(tree: Tree) -> Iterator[tuple[Path, dict[str, list[Line]]]]:
    """The tree on disk, as the present folder; includes that lead nowhere are left out."""
    with tempfile.TemporaryDirectory() as temporary:
        root, before = Path(os.path.realpath(temporary)), os.getcwd()
        os.chdir(root)
        try:
            for folder in FOLDERS:
                if folder != "i/t" or "i/t/x.h" in tree.headers or "i/t/y.h" in tree.headers:
                    Path(folder).mkdir(parents=True, exist_ok=True)
            Path("link").symlink_to("i")
            texts = {**tree.headers, "k/a.cu": tree.source}
            for path, text in texts.items():
                write(path, text)
            model = Model(tree.search, texts)
            for path, text in list(texts.items()):
                texts[path] = [line for line in text if line.probe or model._look_for(line, _spelled(model, path))]
                write(path, texts[path])
            yield root, texts
        finally:
            os.chdir(before)


def _spelled(model: Model, path: str) -> str:
    return next((read for read in model.read if os.path.realpath(read) == os.path.realpath(path)), path)


def new_files() -> list[str]:
    return [
        f"{folder}/{name}"
        for folder in (*FOLDERS, "gone", "gone/s")
        for name in ("x.h", "y.h")
        if not os.path.lexists(f"{folder}/{name}")
    ]


@settings(max_examples=60, deadline=None)
@given(trees)
def test_any_new_file_that_the_compiler_would_find_makes_the_reading_false(tree: Tree) -> None:
    with laid_out(tree) as (root, texts):
        before = Model(tree.search, texts)
        if before.missing():
            return
        roots = Roots(str(root), str(root / "out"))
        search = Search(tuple(roots.absolute(folder) for folder in tree.search), ())
        reading, _ = take(REQUEST, before.read, search, Disk(Digests({})), roots)
        assert changes(reading, Disk(Digests({})), roots.real) == ()
        for path in new_files():
            made = [
                folder
                for folder in (os.path.dirname(os.path.dirname(path)), os.path.dirname(path))
                if folder and not os.path.isdir(folder)
            ]
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write(path, [])
            after = Model(tree.search, texts)
            noticed = changes(reading, Disk(Digests({})), roots.real)
            assert noticed or after.found == before.found, f"{path} is read now: {before.found} -> {after.found}"
            os.unlink(path)
            for folder in reversed(made):
                os.rmdir(folder)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_file_that_is_gone_or_edited_makes_the_reading_false(tree: Tree) -> None:
    with laid_out(tree) as (root, texts):
        before = Model(tree.search, texts)
        if before.missing():
            return
        roots = Roots(str(root), str(root / "out"))
        reading, _ = take(REQUEST, before.read, Search(tuple(map(roots.absolute, tree.search)), ()), Disk(Digests({})), roots)
        for path in tree.headers:
            os.rename(path, "away")
            after = Model(tree.search, texts)
            assert changes(reading, Disk(Digests({})), roots.real) or after.found == before.found
            os.rename("away", path)
        for path in before.read:
            with open(path, "a") as file:
                file.write("//\n")
            assert changes(reading, Disk(Digests({})), roots.real)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@settings(max_examples=15, deadline=None)
@given(trees)
def test_model_reads_what_a_real_compiler_reads(tree: Tree) -> None:
    with laid_out(tree) as (_, texts):
        model = Model(tree.search, texts)
        if model.missing():
            return
        argv = ["g++", "-E", "-nostdinc", *(f"-I{folder}" for folder in tree.search), "-x", "c++", "k/a.cu"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        entered = dict.fromkeys(re.findall(r'^# \d+ "([^<"]+)"', done.stdout, re.MULTILINE))
        assert [os.path.realpath(path) for path in entered] == [os.path.realpath(path) for path in model.read]
