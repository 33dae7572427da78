"""This script measures cudabuild against plain nvcc under `make -j`, on this machine, in pairs.

    python tests/bench/bench.py [--runs N] [--keep FOLDER]

It prints medians of whole-process wall times, and the ratio of each pair's two times as a median, for

* a build with nothing to do on examples/prover (the budget is 150 ms, and no compiler may start);
* a cold build of 12 units for one architecture, against `make -j<processors>` that runs the same nvcc on the same sources
  (the budget is 1.03).

The machine should have nothing else to do. Python's .pyc files are written first, as an installation from a wheel has them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ARCH = "80"
UNITS = 12

KERNEL = """
#include <cooperative_groups.h>
#include <cub/block/block_reduce.cuh>
#include "field.cuh"
namespace cg = cooperative_groups;

template <int N> __global__ void fold_{number}(const field *in, field *out, int n) {{
    using Reduce = cub::BlockReduce<field, N>;
    __shared__ typename Reduce::TempStorage storage;
    field sum{{0}};
    for (int i = cg::this_grid().thread_rank(); i < n; i += cg::this_grid().size()) sum = sum + in[i] * field{{{number} + 1}};
    sum = Reduce(storage).Reduce(sum, [](field a, field b) {{ return a + b; }});
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}}

extern "C" int fold_{number}_run(const field *in, field *out, int n) {{
    fold_{number}<128><<<64, 128>>>(in, out, n);
    fold_{number}<256><<<32, 256>>>(in, out, n);
    return cudaGetLastError();
}}
"""

FIELD = """#pragma once
#include <cstdint>
struct field {
    uint64_t value;
    __host__ __device__ friend field operator+(field a, field b) { return {(a.value + b.value) % 0xffffffff00000001ull}; }
    __device__ friend field operator*(field a, field b) {
        return {(a.value * b.value + __umul64hi(a.value, b.value) * 0xffffffffull) % 0xffffffff00000001ull};
    }
};
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="pairs of each cold build; three times as many for the short ones")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cudabuild-bench-") as folder:
        environment = _environment(Path(folder))
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
        _nothing_to_do(Path(folder), environment, options.runs * 3)
        _cold(Path(folder), environment, options.runs)


def _environment(folder: Path) -> dict[str, str]:
    """An installation as a user has it: the wheel in a virtual environment with only what it needs."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO", "CUDA", "NVCC", "PYTHON"))}
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "--quiet", f"{REPOSITORY}[cuda13]"], check=True)
    return {**base, "PATH": f"{venv}/bin:{base['PATH']}", "VIRTUAL_ENV": str(venv)}


def _nothing_to_do(folder: Path, environment: dict[str, str], runs: int) -> None:
    crate = folder / "prover" / "gpu-prover"
    shutil.copytree(REPOSITORY / "examples/prover", folder / "prover", ignore=shutil.ignore_patterns("target"))
    build = ["cudabuild", "build", "--manifest-dir", str(crate), "--out", str(folder / "prover-out")]
    subprocess.run(build, env=environment, check=True, capture_output=True)
    python = ["python", "-c", "pass"]
    times, floor = [], []
    for _ in range(runs):
        floor.append(_timed(python, environment, folder))
        times.append(_timed(build, environment, folder))
    print(
        f"nothing to do, examples/prover: {_median(times) * 1000:.0f} ms (budget 150), of which {_median(floor) * 1000:.0f} ms "
        f"are Python's own start; {len(times)} runs, {min(times) * 1000:.0f} to {max(times) * 1000:.0f} ms"
    )


def _cold(folder: Path, environment: dict[str, str], runs: int) -> None:
    crate = folder / "cold"
    (crate / "cuda").mkdir(parents=True)
    (crate / "cuda/field.cuh").write_text(FIELD)
    for number in range(UNITS):
        (crate / f"cuda/fold{number}.cu").write_text(KERNEL.format(number=number))
    (crate / "cudabuild.toml").write_text(f'name = "cold"\nsources = ["cuda/*.cu"]\ninclude = ["cuda"]\narch = ["{ARCH}"]\n')
    nvcc = subprocess.run(
        ["python", "-c", "import nvidia.cu13 as m; print(list(m.__path__)[0] + '/bin/nvcc')"],
        env=environment, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    flags = f"-c -gencode=arch=compute_{ARCH},code=sm_{ARCH} -std=c++17 -O3 -Xcompiler -fPIC -Icuda"
    (crate / "Makefile").write_text(
        f"objects := $(patsubst cuda/%.cu,plain/%.o,$(wildcard cuda/*.cu))\n"
        f"plain/libcold.a: $(objects)\n\tar crsD $@ $^\n"
        f"plain/%.o: cuda/%.cu\n\t{nvcc} {flags} -o $@ $<\n"
    )
    jobs = str(len(os.sched_getaffinity(0)))
    ours, plain = [], []
    for _ in range(runs):
        shutil.rmtree(crate / "plain", ignore_errors=True)
        (crate / "plain").mkdir()
        plain.append(_timed(["make", f"-j{jobs}"], environment, crate))
        shutil.rmtree(crate / "out", ignore_errors=True)
        ours.append(_timed(["cudabuild", "build", "--out", "out"], environment, crate))
    ratios = [one / other for one, other in zip(ours, plain, strict=True)]
    print(
        f"cold, {UNITS} units, sm_{ARCH}: cudabuild {_median(ours):.2f} s, make -j{jobs} with plain nvcc {_median(plain):.2f} s, "
        f"ratio {_median(ratios):.3f} (budget 1.03); {len(ratios)} pairs, {min(ratios):.3f} to {max(ratios):.3f}"
    )


def _timed(command: list[str], environment: dict[str, str], cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment, cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - started


_median = statistics.median

if __name__ == "__main__":
    main()
