"""This module checks objects of a real nvcc that one cache serves to two checkouts: they link, do the same, and name no wrong folder."""

from __future__ import annotations

import copy
import shutil
import subprocess
from pathlib import Path

import pytest
from real import Project, unit_source

pytestmark = pytest.mark.nvcc

A, B = "kernels/a.cu", "kernels/b.cu"
MAIN = """#include <cstdio>
extern "C" int a(); extern "C" int b(); extern "C" const char *file(); extern "C" const char *header();
int main() { std::printf("%d %d %s %s\\n", a(), b(), file(), header()); }
"""
# Internal linkage: nvcc mangles these names with the path of the source.
HIDDEN = """#include "h.cuh"
namespace { __global__ void hidden(int *out) { *out = 1; } __device__ int counter; }
static __global__ void quiet(int *out) { *out = counter; printf("%s", __FILE__); }
extern "C" const char *file() { return __FILE__; }
extern "C" const char *header() { return in_header(); }
extern "C" int b() { hidden<<<1, 1>>>(nullptr); quiet<<<1, 1>>>(nullptr); return 2; }
"""


@pytest.fixture
def first(project: Project) -> Project:
    project.use_cache()
    project.write("kernels/include/h.cuh", "#pragma once\n#include <cstdio>\nstatic inline const char *in_header() { return __FILE__; }\n")
    project.write(A, unit_source("1", name="a"))
    project.write(B, HIDDEN)
    return project


def checkout(project: Project, name: str) -> Project:
    other = copy.copy(project)
    other.crate, other.out = project.root / name, project.root / f"out-{name.replace('/', '-')}"
    shutil.copytree(project.crate, other.crate)
    return other


def output(project: Project) -> str:
    """What a program with the library says; its kernels cannot start here, which it does not notice."""
    main, program = project.root / "main.cpp", project.out / "program"
    main.write_text(MAIN)
    libraries = [path for path in (Path(project.nvcc).parents[1] / "lib", Path(project.nvcc).parents[1] / "lib64") if path.is_dir()]
    folders = [word for path in libraries for word in (f"-L{path}", f"-Wl,-rpath,{path}")]
    command = ["g++", main, "-o", program, project.archive_path(), *folders, "-lcudart_static", "-lpthread", "-ldl", "-lrt"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def test_second_checkout_is_served_and_does_the_same(first: Project) -> None:
    """C16"""
    assert first.build().compiled == [A, B]
    other = checkout(first, "some/other/checkout")
    report = other.build()
    assert report.restored == [A, B]
    assert other.archive_members() == first.archive_members()
    assert output(other) == output(first) == f"1 2 {B} kernels/include/h.cuh\n"
    text = b"".join(other.archive_members().values())
    assert str(first.crate).encode() not in text and str(other.crate).encode() not in text
    # What a compile here makes differs in the hidden names alone.
    shutil.rmtree(other.out)
    other.build("--cache=off")
    served, made = first.archive_members(), other.archive_members()
    assert [name.partition("-")[0] for name in served if served[name] != made[name]] == ["b"]
    assert output(other) == output(first)


def test_object_with_line_tables_names_its_own_checkout(first: Project) -> None:
    """C16"""
    first.config(lineinfo=True)
    first.build()
    other = checkout(first, "other")
    assert other.build().compiled == [A, B]
    for mine, theirs in ((first, other), (other, first)):
        assert str(theirs.crate / "kernels").encode() not in b"".join(mine.archive_members().values())
    shutil.rmtree(other.out)
    assert other.build().restored == [A, B]


def test_object_with_host_debug_information_names_its_own_checkout(first: Project) -> None:
    first.remove(B)
    first.config(host_flags=["-g"])
    first.build()
    other = checkout(first, "other")
    assert other.build().compiled == [A]
    text = b"".join(other.archive_members().values())
    assert str(other.crate).encode() in text and str(first.crate / "kernels").encode() not in text
