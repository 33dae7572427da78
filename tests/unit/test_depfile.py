"""This module checks the reader of nvcc's dependency files, against what nvcc writes and what is no such file."""

from __future__ import annotations

import pytest

from cudabuild.nvcc.depfile import DepfileError, parse


def rule(source: str, *names: str, target: str = "k.o") -> str:
    return " \\\n    ".join([f"{target} : {source}", *names]) + "\n"


def test_dependencies_come_in_the_order_of_the_file_the_source_first() -> None:
    assert parse(rule("k/a.cu", "k/b.cuh", "/usr/include/stdc-predef.h"), "k/a.cu") == (
        "k/a.cu", "k/b.cuh", "/usr/include/stdc-predef.h",
    )  # fmt: skip


def test_source_alone_is_a_whole_file() -> None:
    assert parse("k.o : a.cu\n", "a.cu") == ("a.cu",)


@pytest.mark.parametrize(
    "name", ["a#b.cuh", "d$x.cuh", "ü.cuh", "c:d.cuh", "x=y.cuh", "it's.h", "tab\tx.h", "*;?.h", "a : b.h"]
)
def test_only_spaces_are_escaped(name: str) -> None:
    """C10: `#` and `$` are bare where a make parser would end or expand."""
    assert parse(rule("k.cu", name.replace(" ", "\\ "), "z.h"), "k.cu") == ("k.cu", name, "z.h")


def test_spaces_in_names_are_read_back() -> None:
    assert parse(rule("k\\ sp/a\\ b.cu", "h\\ h.cuh"), "k sp/a b.cu") == ("k sp/a b.cu", "h h.cuh")


@pytest.mark.parametrize("target", ["out dir/x y.o", "a : b.o", "C:\\x.o", ": .o", "k.cu : k.cu"])
def test_target_may_hold_anything(target: str) -> None:
    """C10: nvcc does not escape it."""
    assert parse(rule("k.cu", "b.h", target=target), "k.cu") == ("k.cu", "b.h")


def test_spelling_is_kept_and_repetition_is_not() -> None:
    names = ("./sub/../sub/r.h", "sub/r.h", "sub//r.h", "sub/r.h")
    assert parse(rule("k.cu", *names), "k.cu") == ("k.cu", *names[:3])


def test_carriage_returns_do_not_become_part_of_a_name() -> None:
    assert parse(rule("k.cu", "b.h", "c.h").replace("\n", "\r\n"), "k.cu") == ("k.cu", "b.h", "c.h")


def test_stanzas_of_mp_are_no_dependencies() -> None:
    assert parse(rule("k.cu", "b.h") + "\nb.h:\n", "k.cu") == ("k.cu", "b.h")


WHOLE = rule("k.cu", "include/b.h", "include/c.h", "d\\ d.h")


def test_file_cut_off_anywhere_is_not_believed() -> None:
    """C11: half a list must not pass for a list."""
    complete = parse(WHOLE, "k.cu")
    for end in range(len(WHOLE) - 1):
        try:
            assert parse(WHOLE[:end], "k.cu") == complete, WHOLE[:end]
        except DepfileError:
            pass


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "k.o : other.cu\n", "k.o : xk.cu\n", "k.o :\n", "k.cu\n",
        "k.o : k.cu \\\n", "k.o : k.cu \\\n    b.h \\\n",
        "k.o : k.cu \\\nb.h\n", "\0\0\0", "k.o : k.cu b.h\n",
    ],
)  # fmt: skip
def test_anything_else_is_not_believed(text: str) -> None:
    with pytest.raises(DepfileError):
        parse(text, "k.cu")


def test_name_that_cannot_be_recorded_or_told_to_cargo_is_refused() -> None:
    with pytest.raises(DepfileError, match="UTF-8"):
        parse(rule("k.cu", "latin-\udcfc.h"), "k.cu")
