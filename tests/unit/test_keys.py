"""This module checks that everything that decides an object is in its key, and that a change is told in words."""

from __future__ import annotations

import pytest

from cudabuild.cache.keys import KeyChange, Reading, Request, key, request_changes

REQUEST = Request(
    source="@crate/k/a.cu", flags=("-O3", "-I@cuda/include"), environment=(("CPATH", "/x"),),
    tools=(("nvcc", "d1"), ("ptxas", "d2")), commands="c1",
)  # fmt: skip
READING = Reading(files=(("@crate/k/a.cu", "f1"), ("@crate/k/b.cuh", "f2")), absent=("@crate/k/z.h",), present=("/p",))


def changed(**fields: object) -> Request:
    return Request(**{**{name: getattr(REQUEST, name) for name in REQUEST.__struct_fields__}, **fields})  # type: ignore[arg-type]


def kinds(after: Request) -> list[str]:
    return [change.kind for change in request_changes(REQUEST, after)]


def test_key_of_one_request_and_reading_is_pinned() -> None:
    """Records on disks hold such keys. If this fails, the key means something else now: raise KEY_FORMAT."""
    assert key(REQUEST, READING) == "5bad474ba649d479cb86baf3764365a1ee96880f5ccb0d20070cc1db497ce5db"


def test_same_request_has_no_changes() -> None:
    assert request_changes(REQUEST, changed()) == ()


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"format": 99}, "format"),
        ({"source": "@crate/k/other.cu"}, "file"),
        ({"flags": ("-O2", "-I@cuda/include")}, "flags"),
        ({"flags": ("-I@cuda/include", "-O3")}, "flags"),
        ({"flags": ("-O3", "-I@cuda/include", "-O3")}, "flags"),
        ({"flags": ()}, "flags"),
        ({"environment": (("CPATH", "/y"),)}, "environment"),
        ({"environment": ()}, "environment"),
        ({"environment": (("CPATH", "/x"), ("INCLUDES", ""))}, "environment"),
        ({"tools": (("nvcc", "d1"), ("ptxas", "d3"))}, "tool"),
        ({"tools": (("nvcc", "d1"),)}, "tool"),
        ({"commands": "c2"}, "commands"),
    ],
)
def test_each_field_that_differs_is_told(fields: dict[str, object], kind: str) -> None:
    assert kinds(changed(**fields)) == [kind]


def test_all_that_differ_are_told_and_the_commands_are_not_blamed_for_what_follows_from_the_rest() -> None:
    after = changed(flags=("-O1",), environment=(), tools=(("nvcc", "new"), ("ptxas", "d2")), commands="c2")
    assert kinds(after) == ["tool", "environment", "flags"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (KeyChange("file", "@crate/k/b.cuh", "d", "e"), "k/b.cuh changed"),
        (KeyChange("file", "/usr/include/a.h", "d", None), "/usr/include/a.h is gone"),
        (KeyChange("absent", "@crate/k/z.h"), "k/z.h appeared"),
        (KeyChange("present", "@cuda/include/z.h"), "@cuda/include/z.h is gone"),
        (KeyChange("environment", "CPATH", None, "/x"), "CPATH unset -> '/x'"),
        (KeyChange("environment", "CPATH", "/x", None), "CPATH '/x' -> unset"),
        (KeyChange("environment", "CPATH", "", None), "CPATH '' -> unset"),
        (KeyChange("tool", "ptxas", "d", "e"), "ptxas changed"),
        (KeyChange("untracked", "k/a.cu reads files by .incbin"), "k/a.cu reads files by .incbin"),
    ],
)
def test_change_is_told_in_words(change: KeyChange, words: str) -> None:
    assert str(change) == words


def test_change_of_flags_names_those_that_went_and_those_that_came() -> None:
    (change,) = request_changes(REQUEST, changed(flags=("-O2", "-I@cuda/include", "-DX")))
    assert str(change) == "flags changed: -O3 -> -O2 -DX"


def test_change_of_only_the_flags_order_is_told_as_that() -> None:
    (change,) = request_changes(REQUEST, changed(flags=("-I@cuda/include", "-O3")))
    assert "order" in str(change)
