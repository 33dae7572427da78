"""This module checks where a new file would be found before one that was read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cudabuild.graph.search import Search, shadows, topmost_missing
from cudabuild.graph.texts import Mention


def disk(*paths: str) -> Callable[[str], bool]:
    """A disk with these files and the folders above them."""
    there = set(paths)
    for path in paths:
        while path:
            path = path.rpartition("/")[0]
            there.add(path)
    return there.__contains__


SEARCH = Search(("/c/first", "/c/second", "/cuda/include", "/usr/include"), ("/cuda/include", "/usr/include"))


def absent(*files: str, search: Search = SEARCH, more: tuple[str, ...] = ("/c/first/z", "/c/second/z")) -> set[str]:
    return shadows(files, search, disk(*files, *more))


def test_name_must_stay_absent_from_every_folder_before_the_one_it_was_found_in() -> None:
    assert absent("/c/k/a.cu", "/cuda/include/cuda.h") == {"/c/first/cuda.h", "/c/second/cuda.h", "/c/k/cuda.h"}


def test_folders_behind_do_not_matter() -> None:
    assert absent("/c/first/f.h") == set()


def test_name_must_stay_absent_beside_every_file_of_the_project() -> None:
    assert absent("/c/k/a.cu", "/c/h/b.cuh", "/c/second/f.h") == {"/c/k/f.h", "/c/h/f.h", "/c/first/f.h"}


def test_file_that_was_found_beside_its_includer_has_nothing_before_it() -> None:
    assert absent("/c/k/a.cu", "/c/k/f.h") == set()


def test_name_keeps_the_folders_that_it_was_asked_with() -> None:
    found = absent("/c/k/a.cu", "/c/second/ff/f.h", more=("/c/first/ff/z",))
    assert {"/c/first/ff/f.h", "/c/k/ff"} <= found


def test_only_the_topmost_missing_part_is_named() -> None:
    assert absent("/cuda/include/crt/a.h", "/cuda/include/crt/b.h") == {"/c/first/crt", "/c/second/crt"}


def test_missing_search_folder_must_stay_absent_itself() -> None:
    assert absent("/c/second/f.h", more=()) == {"/c/first"}


def test_file_in_nested_search_folders_is_looked_for_under_both_names() -> None:
    search = Search(("/c/a", "/c/inc", "/c/inc/sub"), ())
    found = shadows(["/c/inc/sub/f.h"], search, disk("/c/inc/sub/f.h", "/c/a/sub/z"))
    assert {"/c/a/sub/f.h", "/c/a/f.h", "/c/inc/f.h"} <= found


def test_existing_path_need_not_stay_absent() -> None:
    assert absent("/c/second/f.h", "/c/first/f.h") == set()


def test_headers_beside_the_toolkits_own_are_not_looked_for() -> None:
    assert "/cuda/include/crt/b.h" not in absent("/cuda/include/crt/a.h", "/usr/include/b.h")


def test_topmost_missing_of_a_path_that_exists_is_none() -> None:
    assert topmost_missing("/c/k", "a.cu", disk("/c/k/a.cu")) is None
    assert topmost_missing("/c/k", "x/y/z.h", disk("/c/k/a.cu", "/c/k/x/b")) == "/c/k/x/y"


def test_quoted_header_is_looked_for_beside_its_includer_first() -> None:
    search = Search(("/i", "/s"), ())
    assert search.candidates(Mention("f/x.h", True), "/c/k/a.cu") == [
        ("/c/k", "f/x.h"),
        ("/i", "f/x.h"),
        ("/s", "f/x.h"),
    ]
    assert search.candidates(Mention("f/x.h", False), "/c/k/a.cu") == [("/i", "f/x.h"), ("/s", "f/x.h")]


def test_absolute_name_is_looked_for_nowhere_else() -> None:
    assert Search(("/i",), ()).candidates(Mention("/d/x.h", True), "/c/a.cu") == [("/d", "x.h")]


@pytest.mark.parametrize(
    ("path", "builtin"),
    [
        ("/cuda/include/cuda.h", True),
        ("/usr/include/x/y.h", True),
        ("/usr/include-more/y.h", False),
        ("/c/first/a.h", False),
        ("/elsewhere/a.h", False),
        ("/cuda/samples/a.h", False),
        ("/cuda/include/mine/a.h", False),
    ],
)
def test_builtin_is_what_lies_in_the_tools_folders_unless_the_user_names_it(path: str, builtin: bool) -> None:
    search = Search(
        ("/c/first", "/cuda/include/mine", "/cuda/include", "/usr/include"), ("/cuda/include", "/usr/include")
    )
    assert search.is_builtin(path) is builtin
