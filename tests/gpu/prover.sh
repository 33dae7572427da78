#!/usr/bin/env bash
# Runs the example's daemon on a GPU and holds what it prints against what it must.
#
#   tests/gpu/prover.sh            builds examples/prover with the feature cuda, then runs it
#   tests/gpu/prover.sh DAEMON     runs that program, built elsewhere: the machine needs no cargo and no toolkit
#
# Exit status: 0 passed, 1 failed, 77 skipped since there is no GPU.
# PROVER_TAG=text also demands that the program was built from a source with that PROVER_BUILD_TAG.
set -euo pipefail

workspace=$(cd "$(dirname "$0")/../../examples/prover" && pwd)
if [ $# -gt 0 ]; then
    daemon=$1
else
    (cd "$workspace" && cargo build --release --offline -p daemon --features cuda)
    daemon=${CARGO_TARGET_DIR:-$workspace/target}/release/prover-daemon
fi

output=
fail() {
    printf 'FAIL: %s\n' "$1"
    printf '%s\n' "$output" | sed 's/^/    /'
    exit 1
}

# One run of the daemon with these arguments; leaves its output in $output.
prove() {
    local status=0
    output=$("$daemon" "$@" 2>&1) || status=$?
    [ "$status" -eq 0 ] || fail "prover-daemon $*: exit status $status"
    if reason=$(grep '^no GPU: ' <<<"$output"); then
        printf 'SKIP: %s\n' "$reason"
        exit 77
    fi
}

must_print() {
    grep -Eqx -- "$1" <<<"$output" || fail "no line of the output is: $1"
}

prove
must_print 'gpu result matches the CPU reference \(4 inputs of 256 values\)'
# What the CPU reference gave when this test was written: the daemon must not just agree with itself.
must_print 'input 0: commitment b367758c8cab3715:49653cbc0c434860 value 8c63cbd38a1299bb'

# Each unit's host code and the kernel that the GPU ran must come from one source.
tag=${PROVER_TAG:-$(sed -n 's/^cuda units: prover=\([^ ]*\) .*/\1/p' <<<"$output")}
must_print "cuda units: prover=$tag ntt=$tag msm=$tag field_ops=$tag"
must_print "gpu: .*, kernels $tag for sm_[0-9]+"
printf '%s\n' "$output"

# The least size, and ones of several blocks, so that index arithmetic at the edges is met.
for arguments in '3 1' '2 2' '2 7' '2 11'; do
    read -r inputs log_size <<<"$arguments"
    prove "$inputs" "$log_size"
    must_print "gpu result matches the CPU reference \($inputs inputs of $((1 << log_size)) values\)"
done
echo PASS
