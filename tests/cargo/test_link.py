"""The library links into whatever Rust makes of it, with no link line of the user's own. (C24)"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import pytest
from cargo import CargoWorkspace

pytestmark = [pytest.mark.cargo, pytest.mark.nvcc]

# A guard, an exception, the C++ library, a kernel, the CUDA runtime, functions of a C++ and a C source beside it, and a variable
# that no shared library can hold unless the code is position independent.
PROBE_CU = """#include <string>
__global__ void fill(int *out) { *out = 1; }
extern "C" int from_cpp(int);
extern "C" int from_c(int);
thread_local int calls = 0;
extern "C" int probe() {
    static const std::string words = std::to_string(from_c(2)) + std::to_string(from_cpp(1));
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess)
        cudaGetLastError();
    return std::stoi(words) + 100 * calls++;
}
"""
SOURCES = {
    "kernels/probe.cu": PROBE_CU,
    "kernels/host.cpp": '#include <vector>\nextern "C" int from_cpp(int x) { return static_cast<int>(std::vector<int>(x + 1).size()); }\n',
    "kernels/host.c": "int from_c(int x) { int new = x * 2; return new; } /* not C++ */\n",
}
DECLARED = 'extern "C" {\n    fn probe() -> i32;\n}\n\n'


@pytest.fixture
def linked(crates: CargoWorkspace) -> CargoWorkspace:
    """`app` is a program and `plug` a cdylib; both use the kernels of `kern` through the rlib `mid`."""
    crates.write("Cargo.toml", '[workspace]\nmembers = ["app", "plug", "mid", "kern"]\nresolver = "2"\n')
    for name, needs, file, text in (
        ("app", ["mid"], "main.rs", 'fn main() {\n    println!("{}", mid::value());\n}\n'),
        ("plug", ["mid"], "lib.rs", '#[no_mangle]\npub extern "C" fn plug_value() -> i32 {\n    mid::value()\n}\n'),
        ("mid", ["kern"], "lib.rs", "pub fn value() -> i32 {\n    kern::value()\n}\n"),
        ("kern", [], "lib.rs", DECLARED + "pub fn value() -> i32 {\n    unsafe { probe() }\n}\n"),
    ):
        crates.manifest(name, name, needs, '\n[lib]\ncrate-type = ["cdylib"]\n' if name == "plug" else "")
        crates.write(f"{name}/src/{file}", text)
    crates.kernels("kern", sources=["kernels/*.cu", "kernels/*.cpp", "kernels/*.c"])
    for name, text in SOURCES.items():
        crates.write(f"kern/{name}", text)
    return crates


def needed(program: Path) -> list[str]:
    """The shared libraries that a program names."""
    text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", text)


def libraries(crates: CargoWorkspace) -> list[str]:
    return crates.values("rustc-link-lib", "kern")


def is_lld(program: Path) -> bool:
    return b"Linker: LLD" in program.read_bytes()


def test_program_and_cdylib_link_through_an_rlib_with_every_linker(linked: CargoWorkspace) -> None:
    assert linked.build().compiled == sorted(SOURCES)
    assert linked.run_program("app") == "42"
    names = libraries(linked)
    assert names[0] == "static=kernels" and names[-1] == "dylib=stdc++"
    assert [name for name in names if "cudart" in name] == ["static=cudart_static"]
    assert not [name for name in needed(linked.program("app")) if "cudart" in name]
    plug = linked.target / "debug/libplug.so"
    assert ctypes.CDLL(str(plug)).plug_value() == 42
    for linker, lld in (("bfd", False), ("lld", True)):
        for package, product in (("app", linked.program("app")), ("plug", plug)):
            product.unlink()
            relinked = linked.cargo("rustc", "-p", package, "--", f"-Clink-arg=-fuse-ld={linker}")
            assert relinked.compiled == []
            assert is_lld(product) == lld, f"{linker} was not the linker"
        assert linked.run_program("app") == "42"
        # A library that is loaded already would be the old one under its name.
        copy = plug.with_name(f"libplug-{linker}.so")
        os.link(plug, copy)
        assert ctypes.CDLL(str(copy)).plug_value() == 42


def test_cudart_is_static_shared_or_left_to_the_user(linked: CargoWorkspace) -> None:
    config = {"sources": ["kernels/*.cu", "kernels/*.cpp", "kernels/*.c"]}
    linked.kernels("kern", **config, cudart="shared")
    linked.build("-p", "app")
    assert [name for name in libraries(linked) if "cudart" in name] == ["dylib=cudart"]
    (cudart,) = (name for name in needed(linked.program("app")) if "cudart" in name)
    folders = [Path(value.removeprefix("native=")) for value in linked.values("rustc-link-search", "kern")]
    (runtime,) = ((folder / "libcudart.so").resolve() for folder in folders if (folder / "libcudart.so").exists())
    assert linked.run_program("app", LD_LIBRARY_PATH=str(runtime.parent)) == "42", f"{cudart} is not in {runtime.parent}"

    linked.kernels("kern", **config, cudart="none")
    alone = linked.build("-p", "app", expect=101)
    assert alone.compiled == [] and "cudaGetDeviceCount" in alone.output and "undefined" in alone.output
    assert not [name for name in libraries(linked) if "cudart" in name]

    linked.kernels("kern", **config, cudart="none", link=["static=cudart_static"])
    folder = next(path for path in (runtime.parent, *runtime.parents) if (path / "libcudart_static.a").exists())
    linked.edit("kern/build.rs", "fn main() {", f'fn main() {{\n    println!("cargo:rustc-link-search=native={folder}");')
    linked.build("-p", "app")
    assert linked.run_program("app") == "42"

    linked.kernels("kern", **config)
    assert linked.build("-p", "app").compiled == []
    assert [name for name in libraries(linked) if "cudart" in name] == ["static=cudart_static"]
    assert not [name for name in needed(linked.program("app")) if "cudart" in name]
    assert linked.run_program("app") == "42"


def test_library_of_host_sources_alone_needs_no_cudart(linked: CargoWorkspace) -> None:
    linked.edit("kern/kernels/host.cpp", "extern", 'extern "C" int from_c(int);\nextern "C" int probe() { return from_c(21); }\nextern')
    linked.kernels("kern", sources=["kernels/*.cpp", "kernels/*.c"], cudart="none")
    assert linked.build("-p", "app").compiled == ["kernels/host.c", "kernels/host.cpp"]
    assert linked.run_program("app") == "42"
