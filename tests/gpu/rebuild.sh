#!/usr/bin/env bash
# On a machine with a GPU: arch = "native" finds it, the library that cudabuild makes runs on it, and after an edit of a header
# two levels deep the GPU computes the new value. Needs python3 with cudabuild importable, nvcc and g++; no cargo.
#
#   tests/gpu/rebuild.sh        prints PASS or FAIL; exit 0, 1, or 77 when there is no GPU
set -euo pipefail

repository=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONPATH="$repository${PYTHONPATH:+:$PYTHONPATH}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAIL: $*"
  exit 1
}

nvidia-smi -L || {
  echo "SKIP: no GPU"
  exit 77
}

mkdir kernels
cat > cudabuild.toml <<'EOF'
name = "scale"
sources = ["kernels/*.cu"]
include = ["kernels"]
arch = ["native"]
EOF
echo '#include "factor.cuh"' > kernels/scale.cuh
echo '#define FACTOR 3' > kernels/factor.cuh
cat > kernels/scale.cu <<'EOF'
#include "scale.cuh"
__global__ void scale(int *values) { values[threadIdx.x] *= FACTOR; }
extern "C" int run_scale(int value) {
    int *device, result = -1;
    if (cudaMalloc(&device, sizeof(int)) != cudaSuccess) return -2;
    cudaMemcpy(device, &value, sizeof(int), cudaMemcpyHostToDevice);
    scale<<<1, 1>>>(device);
    if (cudaMemcpy(&result, device, sizeof(int), cudaMemcpyDeviceToHost) != cudaSuccess) return -3;
    cudaFree(device);
    return result;
}
EOF
cat > main.cpp <<'EOF'
#include <cstdio>
extern "C" int run_scale(int);
int main() { std::printf("%d\n", run_scale(7)); }
EOF

build() { python3 -m cudabuild build --out "$work/out" --json > report.json; }
report() { python3 -c "import json; r = json.load(open('report.json')); print($1)"; }
result() {
  # The folder of the runtime library, from nvcc's own words.
  folder=$(python3 - <<'EOF'
import json, os
from cudabuild.host import Environment, run
from cudabuild.nvcc import dryrun, libraries
nvcc = json.load(open("report.json"))["toolkit"]["nvcc"]
plan = dryrun.parse(run([nvcc, "--dryrun", "-c", "-x", "cu", "/dev/null"], env=os.environ).stderr)
print(libraries.cudart_folder("static", dryrun.library_dirs(plan), plan.variables["TOP"], "."))
EOF
)
  g++ main.cpp out/libscale.a -L"$folder" -lcudart_static -ldl -lrt -lpthread -o main
  ./main
}

build || fail "the first build"
echo "archs: $(report "r['archs']"), toolkit: $(report "r['toolkit']")"
wanted=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
[ "$(report "'sm_$wanted' in r['archs']")" = True ] || fail "native is not sm_$wanted"
first=$(result)
[ "$first" = 21 ] || fail "the GPU computed $first, not 21"

build
[ "$(report "r['compiled']")" = 0 ] || fail "a build with nothing to do compiled something"

echo '#define FACTOR 5' > kernels/factor.cuh
build
[ "$(report "r['units'][0]['reason']")" = "kernels/factor.cuh changed" ] || fail "the reason is $(report "r['units'][0]['reason']")"
second=$(result)
[ "$second" = 35 ] || fail "after the edit the GPU computed $second, not 35"
echo "PASS: 7 * 3 = $first, after the edit 7 * 5 = $second"
