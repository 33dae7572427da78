// The library's interface. src/ffi.rs mirrors it: keep the two side by side when either changes.
#pragma once

#include "ff/vector.cuh"
#include "msm/msm.cuh"
#include "ntt/ntt.cuh"

struct Device {
    char name[256];
    char kernel_tag[32];
    int kernel_arch;
};

struct Proof {
    curve::Affine commitment;
    uint64_t challenge;
    uint64_t value;
    curve::Affine quotient;
};

extern "C" {
// Asks the first GPU; fails with cudaErrorNoDevice or cudaErrorInsufficientDriver where there is none.
Status gpu_prover_device(Device *device);

// Both arrays have 2^log_size elements, 1 <= log_size <= 20.
Status gpu_prover_prove(const uint64_t *evaluations, const curve::Affine *bases, uint32_t log_size, Proof *proof);

const char *gpu_prover_error_name(int code);

// PROVER_BUILD_TAG as each unit was compiled with it.
const char *gpu_prover_tag();
const char *gpu_prover_ntt_tag();
const char *gpu_prover_msm_tag();
const char *gpu_prover_field_ops_tag();
}
