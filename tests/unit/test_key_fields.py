"""This module checks, by whole builds, that each thing in a key keeps an object from being served, and that nothing else does.

Every case starts from one build with the cache, makes one change, and builds again into an empty folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from toolkit import PROFILE, install_host_compiler, install_wrapper
from workspace import REPOSITORY, Workspace

import cudabuild
from cudabuild.cache.keys import KEY_FORMAT, Reading, Request
from cudabuild.nvcc.arguments import ENVIRONMENT

SOURCE, HEADER, OPTION = "kernels/k.cu", "kernels/include/field.cuh", "kernels/include/option.cuh"
TEXT = '#include "field.cuh"\n#if __has_include("option.cuh")\nint with_option;\n#endif\nint k = FIELD;\n'

Change = Callable[[Workspace], object]


@pytest.fixture
def crate(workspace: Workspace) -> Workspace:
    """Built once with the cache."""
    workspace.use_cache()
    workspace.write(HEADER, "#define FIELD 1\n")
    workspace.write(OPTION, "")
    workspace.write(SOURCE, TEXT)
    return workspace


def compiles_after(crate: Workspace, change: Change, before: Change = lambda crate: None) -> list[str]:
    """What is compiled after the change, into an empty folder. `before` is the state that is built first."""
    before(crate)
    crate.build()
    assert crate.compiles() == [SOURCE]
    shutil.rmtree(crate.out)
    crate.build()
    assert crate.compiles() == [], "without a change nothing is compiled"
    shutil.rmtree(crate.out)
    change(crate)
    crate.build()
    return crate.compiles()


# What decides


def other_version(crate: Workspace) -> None:
    """A cudabuild whose keys mean something else."""
    tree = Path(shutil.copytree(Path(cudabuild.__file__).parent, crate.root / "other/cudabuild")).parent
    keys = tree / "cudabuild/cache/keys.py"
    keys.write_text(keys.read_text().replace(f"KEY_FORMAT = {KEY_FORMAT}", "KEY_FORMAT = 99"))
    crate.env["PYTHONPATH"], crate.forked = str(tree), False


def use_wrapper(crate: Workspace) -> None:
    wrapper = install_wrapper(crate.root / "wrapper/nvcc", crate.toolkit.nvcc)
    wrapper.write_text(wrapper.read_text().replace('"$@"', '$EXTRA "$@"'))
    crate.env["NVCC"] = str(wrapper)


def move(crate: Workspace) -> None:
    crate.crate = crate.crate.rename(crate.root / "elsewhere")


def swap(tool: str) -> Change:
    def change(crate: Workspace) -> None:
        path = crate.toolkit.root / tool
        stat = path.stat()
        path.write_text(path.read_text().replace("13.0", "13.1"))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    return change


DECIDES: dict[str, list[tuple[str, Change, Change]]] = {
    "format": [("version of cudabuild", lambda crate: None, other_version)],
    "source": [("name", lambda crate: crate.write("kernels/other.cu", TEXT) and crate.config(sources=[SOURCE]),
                lambda crate: crate.remove(SOURCE) or crate.config(sources=["kernels/other.cu"]))],
    "flags": [
        ("define", lambda crate: None, lambda crate: crate.config(define=["X"])),
        # What nvcc --dryrun shows is in the key a second time, so these two are flags that it does not show.
        ("flag", lambda crate: None, lambda crate: crate.config(flags=["-w"])),
        ("order of flags", lambda crate: crate.config(flags=["-w", "-m64"]), lambda crate: crate.config(flags=["-m64", "-w"])),
        ("order", lambda crate: crate.config(define=["X=1", "X=2"]), lambda crate: crate.config(define=["X=2", "X=1"])),
        ("include", lambda crate: None, lambda crate: crate.config(include=["kernels/include", "kernels/more"])),
        ("architecture", lambda crate: None, lambda crate: crate.config(arch=["90"])),
        ("twice", lambda crate: crate.config(flags=["-w"]), lambda crate: crate.config(flags=["-w", "-w"])),
    ],
    "tools": [
        *((tool, lambda crate: None, swap(tool)) for tool in ("bin/ptxas", "bin/cudafe++", "bin/fatbinary", "nvvm/bin/cicc",
                                                              "bin/nvlink", "nvvm/libdevice/libdevice.10.bc")),
        ("nvcc.profile", lambda crate: None, lambda crate: crate.toolkit.put("bin/nvcc.profile", f"{PROFILE}# more\n")),
        ("nvcc", lambda crate: None, lambda crate: crate.toolkit.install_nvcc("13.0.99")),
        ("host compiler", lambda crate: None, lambda crate: install_host_compiler(crate.root / "host/gcc", "two")),
    ],
    "bound_to": [("place of an object with line tables", lambda crate: crate.config(lineinfo=True), move)],
    "commands": [("what a wrapper adds", use_wrapper, lambda crate: crate.env.update(EXTRA="-DX"))],
    "files": [
        ("source", lambda crate: None, lambda crate: crate.edit_keeping_mtime(SOURCE, "int k", "int l")),
        ("header", lambda crate: None, lambda crate: crate.edit_keeping_mtime(HEADER, "FIELD 1", "FIELD 2")),
        ("toolkit header", lambda crate: None, swap("include/crt/host_config.h")),
        ("header that is gone", lambda crate: crate.write("kernels/field.cuh", "#define FIELD 1\n"),
         lambda crate: crate.remove("kernels/field.cuh")),
    ],
    "absent": [
        ("shadowing header", lambda crate: None, lambda crate: crate.write("kernels/field.cuh", "#define FIELD 1\n")),
        ("header asked for", lambda crate: crate.remove(OPTION), lambda crate: crate.write(OPTION, "")),
    ],
    "present": [("header that was there", lambda crate: None, lambda crate: crate.remove(OPTION))],
    "library": [
        ("library of an object with hidden names",
         lambda crate: crate.write(SOURCE, "namespace { int k_GLOBAL__N__1; }\n"), lambda crate: crate.config(name="other")),
    ],
}  # fmt: skip
NEVER = {
    "untracked": 'asm(".incbin \\"table.bin\\"");\n',
    "unshared": "char const* built = __DATE__;\n",
}
SAMPLES = {
    "NVCC_PREPEND_FLAGS": "-w", "NVCC_APPEND_FLAGS": "-w", "NVCC_CCBIN": "gcc", "INCLUDES": "-I/nowhere", "SYSTEM_INCLUDES": "-I/nowhere",
    "CPATH": "/nowhere", "SOURCE_DATE_EPOCH": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "change"), [pytest.param(*case[1:], id=f"{name}: {case[0]}") for name, cases in DECIDES.items() for case in cases]
)
def test_what_decides_an_object_keeps_another_from_being_served(crate: Workspace, before: Change, change: Change) -> None:
    assert len(compiles_after(crate, change, before)) == 1


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_variable_that_compilers_read_decides(crate: Workspace, name: str) -> None:
    assert compiles_after(crate, lambda crate: crate.env.update({name: SAMPLES.get(name, "-v")})) == [SOURCE]


@pytest.mark.parametrize("text", NEVER.values(), ids=NEVER)
def test_object_that_cannot_be_known_is_never_served(crate: Workspace, text: str) -> None:
    crate.write(SOURCE, TEXT + text)
    for _ in range(2):
        crate.build()
        assert crate.compiles() == [SOURCE]
        shutil.rmtree(crate.out)


def test_every_field_of_a_key_has_a_case() -> None:
    assert {*DECIDES, *NEVER, "environment"} == {*Request.__struct_fields__, *Reading.__struct_fields__}


# What does not


def second_checkout(crate: Workspace) -> None:
    shutil.copytree(crate.crate, crate.root / "deep/second")
    crate.crate = crate.root / "deep/second"


def another_path_to_the_tools(crate: Workspace) -> None:
    (crate.root / "empty").mkdir()
    crate.env["PATH"] = f"{crate.root}/empty:{crate.env['PATH']}:/usr/sbin"


def another_tmpdir(crate: Workspace) -> None:
    (crate.root / "tmp dir").mkdir()
    crate.env["TMPDIR"] = str(crate.root / "tmp dir")


def touch_all(crate: Workspace) -> None:
    for path in (*crate.crate.rglob("*"), *crate.toolkit.root.rglob("*")):
        if path.is_file():
            path.touch()


def second_name_of_the_toolkit(crate: Workspace) -> None:
    (crate.root / "cuda").symlink_to(crate.toolkit.root)
    crate.env["CUDA_HOME"] = str(crate.root / "cuda")


def new_process(seed: str) -> Change:
    def change(crate: Workspace) -> None:
        crate.env |= {"PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)}
        crate.forked = False

    return change


DOES_NOT_DECIDE: dict[str, Change] = {
    "another checkout": second_checkout,
    "another output folder": lambda crate: setattr(crate, "out", crate.root / "another/out"),
    "order and number of sources": lambda crate: crate.config(sources=["kernels/*.cu", SOURCE, "*/k.cu"]),
    "spelling of a source": lambda crate: crate.config(sources=["./kernels//k.cu"]),
    "spelling of a folder": lambda crate: crate.config(include=["./kernels/../kernels//include/"]),
    "full name of a folder": lambda crate: crate.config(include=[str(crate.path("kernels/include"))]),
    "name of the library": lambda crate: crate.config(name="other"),
    "remark in the configuration": lambda crate: crate.write("cudabuild.toml", "# why\n" + crate.path("cudabuild.toml").read_text()),
    "times of all files": touch_all,
    "tools by another path": another_path_to_the_tools,
    "toolkit by another name": second_name_of_the_toolkit,
    "TMPDIR": another_tmpdir,
    "hash seed 1": new_process("1"),
    "hash seed 2": new_process("2"),
    "variables of no compiler": lambda crate: crate.env.update(HOME="/", LANG="de_DE.UTF-8", CXXFLAGS="-O0", CUDABUILD_JOBS="3"),
    "file that nothing reads": lambda crate: crate.write("kernels/include/unread.cuh", "#error\n"),
    "other source": lambda crate: crate.write("more/k.cu", "int more;\n"),
}


@pytest.mark.parametrize("change", DOES_NOT_DECIDE.values(), ids=DOES_NOT_DECIDE)
def test_what_does_not_decide_an_object_has_it_served(crate: Workspace, change: Change) -> None:
    assert compiles_after(crate, change) == []


