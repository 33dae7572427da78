// The Goldilocks field, p = 2^64 - 2^32 + 1. Elements are always reduced: 0 <= a < p.
#pragma once

#include <cstdint>

// Each pass of the compiler takes one product: the Hopper pass, other device passes, and the host's.
#if __CUDA_ARCH__ >= 900
#include "ff/arch/mul_sm90.cuh"
#elif defined(__CUDA_ARCH__)
#include "ff/arch/mul_generic.cuh"
#else
#include "ff/arch/mul_host.cuh"
#endif

// Every unit returns this text and one kernel does, so that a running program tells which source it was built from.
#define PROVER_BUILD_TAG "prover-1"

namespace ff {

constexpr uint64_t P = 0xffffffff00000001;

// Generates the multiplicative group; p - 1 = 2^32 * (2^32 - 1).
constexpr uint64_t GENERATOR = 7;

__host__ __device__ inline uint64_t add(uint64_t a, uint64_t b)
{
    return a >= P - b ? a - (P - b) : a + b;
}

__host__ __device__ inline uint64_t sub(uint64_t a, uint64_t b)
{
    return a >= b ? a - b : a + (P - b);
}

__host__ __device__ inline uint64_t mul(uint64_t a, uint64_t b)
{
    return arch::mul(a, b);
}

__host__ __device__ inline uint64_t pow(uint64_t base, uint64_t exponent)
{
    uint64_t power = 1;
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1)
            power = mul(power, base);
        base = mul(base, base);
    }
    return power;
}

// By Fermat's little theorem; the inverse of 0 comes out as 0.
__host__ __device__ inline uint64_t inverse(uint64_t a)
{
    return pow(a, P - 2);
}

} // namespace ff
