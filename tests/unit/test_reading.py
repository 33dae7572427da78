"""This module checks what is taken down of a compile, and that it is false once a compile would read something else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudabuild.cache.keys import KeyChange, Reading, Request
from cudabuild.cache.reading import Disk, Incomplete, changes, take
from cudabuild.files import Digests
from cudabuild.graph.search import Search
from cudabuild.roots import Roots

REQUEST = Request(source="@crate/k/a.cu", flags=(), environment=(), tools=(), commands="")


class Crate:
    """A folder with a search through `first`, `inc`, `second` and a toolkit."""

    def __init__(self, root: Path) -> None:
        self.root = root / "crate"
        self.cuda = root / "cuda"
        for folder in ("first", "inc", "second", "k"):
            (self.root / folder).mkdir(parents=True)
        (self.cuda / "include").mkdir(parents=True)
        self.roots = Roots(str(self.root), str(root / "out"), str(self.cuda))
        folders = tuple(str(self.root / name) for name in ("first", "inc", "second"))
        self.search = Search((*folders, str(self.cuda / "include")), (str(self.cuda / "include"),))

    def write(self, path: str, text: str = "") -> str:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return path

    def take(self, *reported: str, **request: Any) -> Reading:
        return take(msgspec.structs.replace(REQUEST, **request), reported, self.search, Disk(Digests({})), self.roots)[0]

    def looked_at(self, *reported: str) -> tuple[str, ...]:
        return take(REQUEST, reported, self.search, Disk(Digests({})), self.roots)[1]

    def changes(self, reading: Reading) -> list[str]:
        return [f"{change.kind} {change.name}" for change in changes(reading, Disk(Digests({})), self.roots.real)]


@pytest.fixture
def crate(tmp_path: Path) -> Crate:
    crate = Crate(tmp_path)
    crate.write("k/a.cu", '#include "f.h"\n')
    crate.write("inc/f.h")
    return crate


def test_reading_is_true_when_nothing_changed(crate: Crate) -> None:
    reading = crate.take("k/a.cu", "inc/f.h")
    assert [name for name, _ in reading.files] == ["@crate/k/a.cu", "@crate/inc/f.h"]
    assert crate.changes(reading) == []


def test_touch_changes_nothing(crate: Crate) -> None:
    """C04 (b)"""
    reading = crate.take("k/a.cu", "inc/f.h")
    os.utime(crate.root / "inc/f.h", (1, 1))
    assert crate.changes(reading) == []


def test_edit_is_a_change_with_both_digests(crate: Crate) -> None:
    reading = crate.take("k/a.cu", "inc/f.h")
    crate.write("inc/f.h", "int x;")
    (change,) = changes(reading, Disk(Digests({})), crate.roots.real)
    assert change == KeyChange("file", "@crate/inc/f.h", dict(reading.files)["@crate/inc/f.h"], change.after)
    assert change.after not in (None, change.before)


def test_file_that_is_gone_is_a_change(crate: Crate) -> None:
    reading = crate.take("k/a.cu", "inc/f.h")
    (crate.root / "inc/f.h").unlink()
    assert crate.changes(reading) == ["file @crate/inc/f.h"]


@pytest.mark.parametrize("new", ["first/f.h", "k/f.h"])
def test_header_that_would_be_found_first_is_a_change(crate: Crate, new: str) -> None:
    reading = crate.take("k/a.cu", "inc/f.h")
    crate.write(new)
    assert crate.changes(reading) == [f"absent @crate/{new}"]


def test_header_that_would_be_found_later_is_no_change(crate: Crate) -> None:
    reading = crate.take("k/a.cu", "inc/f.h")
    crate.write("second/f.h")
    crate.write("first/other.h")
    assert crate.changes(reading) == []


def test_symlink_that_comes_to_lead_somewhere_is_a_change(crate: Crate) -> None:
    (crate.root / "first/f.h").symlink_to("later.h")
    reading = crate.take("k/a.cu", "inc/f.h")
    crate.write("first/later.h")
    assert crate.changes(reading) == ["absent @crate/first/f.h"]


def test_header_found_first_while_the_compiler_ran_is_handed_to_the_caller(crate: Crate) -> None:
    """It may have come after the compiler looked there."""
    new = crate.write("first/f.h")
    assert str(crate.root / new) in crate.looked_at("k/a.cu", "inc/f.h")


def test_reported_file_that_is_gone_makes_the_reading_incomplete(crate: Crate) -> None:
    with pytest.raises(Incomplete) as caught:
        crate.take("k/a.cu", "inc/gone.h")
    assert caught.value.path == str(crate.root / "inc/gone.h")


def test_name_that_a_line_directive_invented_must_stay_absent(crate: Crate) -> None:
    crate.write("k/a.cu", '#line 1 "gram.y"\n')
    reading = crate.take("k/a.cu", "gram.y")
    assert [name for name, _ in reading.files] == ["@crate/k/a.cu"]
    crate.write("gram.y")
    assert crate.changes(reading) == ["absent @crate/gram.y"]


# __has_include


def test_header_that_was_asked_for_in_vain_must_stay_absent_everywhere(crate: Crate) -> None:
    crate.write("k/a.cu", '#if __has_include("opt.h")\n#endif\n')
    reading = crate.take("k/a.cu")
    for new in ("k/opt.h", "first/opt.h", "inc/opt.h", "second/opt.h"):
        path = crate.root / crate.write(new)
        assert crate.changes(reading) == [f"absent @crate/{new}"]
        path.unlink()
    assert crate.changes(reading) == []


def test_header_that_was_only_asked_for_must_stay(crate: Crate) -> None:
    crate.write("k/a.cu", "#if __has_include(<opt.h>)\n#endif\n")
    crate.write("inc/opt.h")
    reading = crate.take("k/a.cu")
    crate.write("inc/opt.h", "another content")
    assert crate.changes(reading) == []
    (crate.root / "inc/opt.h").unlink()
    assert crate.changes(reading) == ["present @crate/inc/opt.h"]


def test_question_in_a_header_of_the_toolkit_counts(crate: Crate) -> None:
    (crate.cuda / "include/t.h").write_text("#if __has_include(<opt.h>)\n#endif\n")
    reading = crate.take("k/a.cu", str(crate.cuda / "include/t.h"))
    crate.write("inc/opt.h")
    assert crate.changes(reading) == ["absent @crate/inc/opt.h"]


def test_folder_does_not_answer_a_question_for_a_header(crate: Crate) -> None:
    """A compiler goes on to the next folder, and finds a file there if one comes."""
    crate.write("k/a.cu", "#if __has_include(<opt>)\n#endif\n")
    (crate.root / "first/opt").mkdir()
    reading = crate.take("k/a.cu")
    assert crate.changes(reading) == []
    crate.write("inc/opt")
    assert crate.changes(reading) == ["absent @crate/inc/opt"]


def test_question_for_the_next_header_of_that_name_goes_on_behind_the_first(crate: Crate) -> None:
    crate.write("first/w.h", "#if __has_include_next(<w.h>)\n#endif\n")
    reading = crate.take("k/a.cu", "first/w.h")
    crate.write("second/w.h")
    assert crate.changes(reading) != []


def test_header_in_a_missing_folder_is_covered_by_the_first_folder_that_comes(crate: Crate) -> None:
    """And what is named lies in a folder that exists, for cargo to watch."""
    crate.write("k/a.cu", "#if __has_include(<lib/sub/opt.h>)\n#endif\n")
    reading = crate.take("k/a.cu")
    assert all(os.path.isdir(os.path.dirname(crate.roots.real(name))) for name in reading.absent)
    crate.write("inc/lib/sub/opt.h")
    assert crate.changes(reading) != []


@pytest.mark.parametrize("text", ["#if __has_include(HEADER)\n#endif\n", 'asm(".incbin \\"table.bin\\"");\n'])
def test_what_cannot_be_followed_is_never_fresh(crate: Crate, text: str) -> None:
    crate.write("inc/f.h", text)
    reading = crate.take("k/a.cu", "inc/f.h")
    assert len(reading.untracked) == 1 and reading.untracked[0].startswith("inc/f.h ")
    assert crate.changes(reading) == [f"untracked {reading.untracked[0]}"]


def test_toolkits_own_headers_are_trusted_with_computed_names(crate: Crate) -> None:
    (crate.cuda / "include/t.h").write_text("#define HAS(x) __has_include(x)\n")
    assert crate.take("k/a.cu", str(crate.cuda / "include/t.h")).untracked == ()


# #pragma once by content


def test_header_that_was_skipped_as_a_copy_is_taken_down_too(crate: Crate) -> None:
    """gcc takes two headers of one content, size and second for one, and lists the first alone."""
    crate.write("k/a.cu", '#include "x/f.h"\n#include "y/f.h"\n')
    for name in ("inc/x/f.h", "inc/y/f.h"):
        crate.write(name, "#pragma once\nint f;\n")
    reading = crate.take("k/a.cu", "inc/x/f.h")
    assert "@crate/inc/y/f.h" in dict(reading.files)
    crate.write("inc/y/f.h", "#pragma once\nint g;\n")
    assert crate.changes(reading) == ["file @crate/inc/y/f.h"]


def test_header_that_was_read_by_another_name_is_taken_down_by_both(crate: Crate) -> None:
    """The link can be turned to another file."""
    crate.write("k/a.cu", '#include "x/f.h"\n#include "y/f.h"\n')
    crate.write("inc/x/f.h", "#pragma once\n")
    crate.write("inc/z/f.h", "#pragma once\nint z;\n")
    (crate.root / "inc/y").symlink_to("x")
    reading = crate.take("k/a.cu", "inc/x/f.h")
    assert crate.changes(reading) == []
    (crate.root / "inc/y").unlink()
    (crate.root / "inc/y").symlink_to("z")
    assert crate.changes(reading) == ["file @crate/inc/y/f.h"]


def test_disk_is_asked_once_until_it_is_told_to_forget(crate: Crate) -> None:
    disk = Disk(Digests({}))
    path = str(crate.root / "inc/f.h")
    first = disk.digest(path)
    assert disk.exists(path)
    crate.write("inc/f.h", "other")
    assert disk.digest(path) == first
    disk.forget()
    assert disk.digest(path) != first


def test_header_that_was_read_by_two_names_can_be_shadowed_by_either(crate: Crate) -> None:
    """`#pragma once` hides the second way to it from the compiler's list."""
    crate.write("k/a.cu", '#include "../inc/f.h"\n#include <f.h>\n')
    crate.write("inc/f.h", "#pragma once\n")
    reading = crate.take("k/a.cu", "k/../inc/f.h")
    crate.write("first/f.h")
    assert crate.changes(reading) != []


EPOCH = (("SOURCE_DATE_EPOCH", "0"),)


@pytest.mark.parametrize(
    ("text", "environment", "unshared"),
    [
        ("__TIME__", (), ("__TIME__ in @crate/inc/f.h",)),
        ("__DATE__ __TIME__", (), ("__DATE__ in @crate/inc/f.h", "__TIME__ in @crate/inc/f.h")),
        ("__DATE__ __TIME__", EPOCH, ()),
        ("__TIMESTAMP__", EPOCH, ("__TIMESTAMP__ in @crate/inc/f.h",)),
        ("", (("NVCC_APPEND_FLAGS", "-DT=__TIME__"),), ("__TIME__ in the flags",)),
    ],
)
def test_object_that_holds_its_time_is_for_nobody_else(
    crate: Crate, text: str, environment: tuple[tuple[str, str], ...], unshared: tuple[str, ...]
) -> None:
    crate.write("inc/f.h", text)
    reading = crate.take("k/a.cu", "inc/f.h", environment=environment)
    assert reading.unshared == unshared
    assert crate.changes(reading) == [], "the object in its own place is as good as before"


def test_time_in_a_define_counts(crate: Crate) -> None:
    assert crate.take("k/a.cu", flags=("-DT=__DATE__",)).unshared == ("__DATE__ in the flags",)


def test_toolkit_header_that_names_a_time_does_not_count(crate: Crate) -> None:
    (crate.cuda / "include/t.h").write_text("__DATE__\n")
    assert crate.take("k/a.cu", str(crate.cuda / "include/t.h")).unshared == ()


def test_file_of_the_crate_that_a_text_names_in_full_keeps_the_object_here(crate: Crate) -> None:
    """In another checkout the text still means this one's file."""
    header = str(crate.root / "inc/f.h")
    assert crate.take("k/a.cu", header).unshared == (header,)
    assert crate.take("k/a.cu", header, bound_to=(str(crate.root),)).unshared == ()
    crate.write("k/a.cu", f'#if __has_include("{header}")\n#endif\n')
    assert crate.take("k/a.cu").unshared == (header,)


def test_what_was_found_true_is_looked_at_again_after_compilers_ran(crate: Crate) -> None:
    disk = Disk(Digests({}))
    reading = crate.take("k/a.cu", "inc/f.h")
    assert changes(reading, disk, crate.roots.real) == ()
    crate.write("inc/f.h", "changed")
    crate.write("k/f.h", "in its way")
    disk.forget()
    assert {change.kind for change in changes(reading, disk, crate.roots.real)} == {"file", "absent"}


def test_copy_that_include_next_leads_to_is_read(crate: Crate) -> None:
    """`#pragma once` takes the second for the first, so nvcc does not report it."""
    text = "#pragma once\n#include_next <v.h>\n"
    crate.write("inc/v.h", text)
    crate.write("inc2/v.h", text)
    search = msgspec.structs.replace(crate.search, folders=(str(crate.root / "inc"), str(crate.root / "inc2")), builtin=())
    reading, _ = take(REQUEST, ("k/a.cu", "inc/v.h"), search, Disk(Digests({})), crate.roots)
    assert "@crate/inc2/v.h" in dict(reading.files)


def test_folder_in_the_place_of_a_header_that_was_asked_for_is_a_change(crate: Crate) -> None:
    crate.write("k/opt.h", "")
    crate.write("k/a.cu", '#if __has_include("opt.h")\n#endif\n')
    reading = crate.take("k/a.cu")
    assert crate.changes(reading) == []
    (crate.root / "k/opt.h").unlink()
    (crate.root / "k/opt.h").mkdir()
    assert crate.changes(reading) == ["present @crate/k/opt.h"]


def test_flags_that_give_has_include_another_name_are_told(crate: Crate) -> None:
    assert crate.take("k/a.cu", flags=("-DHI=__has_include",)).untracked == ("the flags give __has_include another name",)
