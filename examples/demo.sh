#!/usr/bin/env bash
# The main job on the example workspace: build the daemon with its kernels, edit a header deep in the closure, see what is rebuilt.
# It works on a copy, so the checkout stays as it is. `make demo` calls it; by hand, have cudabuild and an nvcc on PATH.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r prover "$work/prover"
cd "$work/prover"
rm -rf target
export CUDABUILD_CACHE_DIR="$work/cache" # a cache of its own, so that every run shows the same

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
build() {
  printf '$ cargo build -p daemon --features cuda\n'
  cargo build --offline -p daemon --features cuda
}
daemon() {
  printf '$ target/debug/prover-daemon\n'
  target/debug/prover-daemon
}

say "A first build: four CUDA units, compiled by nvcc under cargo"
build
daemon

say "Nothing changed: cargo does not even run the build script"
build

say "An edit three headers deep (ff/field.cuh): every unit that reads it is compiled again"
sed -i 's/"prover-1"/"prover-2"/' gpu-prover/cuda/ff/field.cuh
build
daemon

say "An edit of ntt/ntt.cuh: only the two units that read it"
printf '\n// a comment\n' >> gpu-prover/cuda/ntt/ntt.cuh
build

say "touch: the script runs, nvcc does not"
find gpu-prover/cuda -name '*.cu*' -exec touch {} +
build

say "cargo clean: the objects come back from the cache"
cargo clean --quiet
build
