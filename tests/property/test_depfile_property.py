"""This module writes dependency files as nvcc does, and checks that the reader gives the names back."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cudabuild.nvcc.depfile import DepfileError, parse

# Newlines cannot be in a name of nvcc's, and a backslash is written as a slash.
letters = st.one_of(
    st.sampled_from(" #$:;*?'\"&()[]{}=@%~|<>^`\tü漢é.a/-"),
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\"),
)
names = st.text(letters, min_size=1, max_size=12)
targets = st.text(letters | st.just("\\"), min_size=1, max_size=12)


def nvcc_writes(target: str, names: list[str]) -> str:
    """The source is first; the target is not escaped, of the names only spaces are."""
    return f"{target} : " + " \\\n    ".join(name.replace(" ", "\\ ") for name in names) + "\n"


@given(targets, st.lists(names, min_size=1, max_size=6))
def test_names_are_read_back(target: str, written: list[str]) -> None:
    assert parse(nvcc_writes(target, written), written[0]) == tuple(dict.fromkeys(written))


@given(st.lists(names, min_size=1, max_size=6))
def test_stanzas_behind_change_nothing(written: list[str]) -> None:
    text = nvcc_writes("k.o", written)
    stanzas = "".join(f"\n{name}:\n" for name in written[1:])
    assert parse(text + stanzas, written[0]) == parse(text, written[0])


@given(st.lists(names, min_size=1, max_size=6), st.data())
def test_part_of_a_file_is_not_believed(written: list[str], data: st.DataObject) -> None:
    text = nvcc_writes("k.o", written)
    end = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(DepfileError):
        parse(text[:end], written[0])


@given(names, names)
def test_file_of_another_source_is_not_believed(one: str, two: str) -> None:
    assume(not f"k.o : {one}".endswith(f" : {two}"))
    assume(not f"k.o : {one}".replace(" ", "\\ ").endswith(f" : {two}".replace(" ", "\\ ")))
    with pytest.raises(DepfileError):
        parse(nvcc_writes("k.o", [one]), two)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse(text, "k.cu")[0] == "k.cu"
    except DepfileError:
        pass
