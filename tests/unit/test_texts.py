"""This module checks what is found in a source text beyond the compiler's own list of dependencies."""

from __future__ import annotations

import pytest

from cudabuild.graph.texts import Mention, examine

QUOTED, ANGLED = Mention("x.h", True), Mention("x.h", False)


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ('#include "x.h"', QUOTED),
        ("#include <x.h>", ANGLED),
        ("  #  include\t<x.h>  // why", ANGLED),
        ("#include<x.h>", ANGLED),
        ("#import <x.h>", ANGLED),
        ("int a;\n#include <x.h>\nint b;", ANGLED),
        ("int a;\r\n#include <x.h>\r\nint b;", ANGLED),
        ('#inc\\\nlude \\\n"x.h"', QUOTED),
        ('#include \\\r\n"x.h"', QUOTED),
        ("#ifdef NEVER\n#include <x.h>\n#endif", ANGLED),
    ],
)
def test_include_is_found(text: str, mention: Mention) -> None:
    assert examine(text.encode()).includes == (mention,)


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ('#if __has_include("x.h")', QUOTED),
        ("#if __has_include(<x.h>)", ANGLED),
        ("#if defined(A) && __has_include ( < x.h > )", ANGLED),
        ("#elif !__has_include(<x.h>)", ANGLED),
        ("#if __has_\\\ninclude(<x.h>)", ANGLED),
        ("#if HAS_INCLUDE(<x.h>)", ANGLED),  # a macro of the project's own
        ("#if _CCCL_HAS_INCLUDE(<x.h>)", ANGLED),
        ("#ifdef __has_include\n#if __has_include(<x.h>)\n#endif\n#endif", ANGLED),
        ("// __has_include(<x.h>)", ANGLED),  # too much is right
    ],
)
def test_question_for_a_header_is_found(text: str, mention: Mention) -> None:
    found = examine(text.encode())
    assert found.probes == (mention,)
    assert not found.computed_probe


def test_all_questions_of_a_line_are_found() -> None:
    text = b'#if __has_include("x.h") || __has_include(<x.h>) || __has_include("x.h")'
    assert examine(text).probes == (QUOTED, ANGLED)


@pytest.mark.parametrize(
    "text", ["#if __has_include(HEADER)", "#define HAS(x) __has_include(x)", "#if __has_include_next(H)"]
)
def test_question_that_only_the_preprocessor_can_read_is_told(text: str) -> None:
    assert examine(text.encode()).computed_probe


@pytest.mark.parametrize(
    "text", ["#ifdef __has_include", "int has_include;", "#if HAS_INCLUDE(X)", "#define HAS_INCLUDE(x) 0"]
)
def test_mere_name_of_the_question_is_no_question(text: str) -> None:
    found = examine(text.encode())
    assert (found.probes, found.computed_probe) == ((), False)


@pytest.mark.parametrize(
    "text", ['#line 7 "gram.y"', '# 7 "gram.y"', '  # line 7 "gram.y"', '#line 7 \\\n "gram.y"', '# 7 "gram.y" 2 3']
)
def test_name_in_a_line_directive_is_found(text: str) -> None:
    assert examine(text.encode()).line_names == ("gram.y",)


def test_line_directive_without_a_name_names_nothing() -> None:
    assert examine(b"#line 7\n# 7\n#define A 7\n").line_names == ()


@pytest.mark.parametrize(
    "text", ['#embed "table.bin"', "  # embed <table.bin>", 'asm(".incbin \\"table.bin\\"");', 'asm volatile(".section .rodata\\n.incbin \\"t\\"");']
)
def test_binary_inclusion_is_told(text: str) -> None:
    assert examine(text.encode()).includes_binary


@pytest.mark.parametrize(
    "text", ["#pragma once", "#  pragma once", "#pragma  once", "#pragma\tonce", "#pragma \\\n once"]
)
def test_pragma_once_is_told(text: str) -> None:
    assert examine(text.encode()).pragma_once


def test_ordinary_source_tells_nothing_but_its_includes() -> None:
    found = examine(b'#include "field.cuh"\n__global__ void k(int* a) { a[0] = 1; }\n')
    assert found.includes == (Mention("field.cuh", True),)
    assert not (found.probes or found.computed_probe or found.line_names or found.includes_binary or found.pragma_once)


def test_bytes_that_are_no_utf8_do_no_harm() -> None:
    found = examine(b'\xff\xfe\x00 junk\n#include "a\xff.h"\n\x00')
    assert found.includes == (Mention("a\udcff.h", True),)


def test_byte_order_mark_does_not_hide_the_first_line() -> None:
    assert examine(b'\xef\xbb\xbf#include "x.h"\n').includes == (QUOTED,)


def test_empty_text_is_a_text() -> None:
    assert examine(b"").includes == ()


def test_question_for_the_next_header_of_a_name_is_told_apart() -> None:
    assert examine(b"#if __has_include_next(<x.h>)").probes == (Mention("x.h", False, further=True),)


@pytest.mark.parametrize(
    ("text", "moments"),
    [
        ("char const* t = __TIME__;", ("__TIME__",)),
        ('printf("built " __DATE__ " " __TIME__);', ("__DATE__", "__TIME__")),
        ("#define STAMP __TIMESTAMP__", ("__TIMESTAMP__",)),
        ("__DA\\\nTE__", ("__DATE__",)),
        ("// __TIME__", ("__TIME__",)),  # too much is right
        ("int MY__TIME__;", ()),
        ("int __TIME__X;", ()),
        ("int __TIME_;", ()),
    ],
)
def test_macros_for_a_time_are_found(text: str, moments: tuple[str, ...]) -> None:
    assert examine(text.encode()).moments == moments


@pytest.mark.parametrize(
    "text",
    ['#if __has_include/**/("opt.h")', "#define HI __has_include", "#if __has_include ( NAME )", "#if __has_include_next(X)"],
)
def test_probe_by_another_way_is_computed(text: str) -> None:
    assert examine(text.encode()).computed_probe


@pytest.mark.parametrize(
    "text",
    ['#if __has_include("a.h")', "#ifdef __has_include", "#if defined(__has_include) && __has_include (<a.h>)", "#ifndef __has_include"],
)
def test_plain_probe_is_not_computed(text: str) -> None:
    assert not examine(text.encode()).computed_probe


def test_file_that_the_assembler_includes_is_told() -> None:
    assert examine(b'asm(".include \\"k/c.inc\\"");').includes_binary
    assert not examine(b'list.include("x"); // .include').includes_binary


def test_value_of_a_macro_may_be_included_and_next_goes_on() -> None:
    assert examine(b'#define H "p/v.h"\n').includes == (Mention("p/v.h", True),)
    assert examine(b"#include_next <v.h>\n").includes == (Mention("v.h", False, True),)
