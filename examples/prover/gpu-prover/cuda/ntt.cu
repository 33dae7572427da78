// The inverse transform, radix 2 and in place: one launch a stage, one thread a butterfly.

#include "ntt/ntt.cuh"

namespace ntt {

constexpr uint32_t THREADS = 128;

static __global__ void bit_reverse(const uint64_t *values, uint64_t *reversed, uint32_t log_size)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1u << log_size)
        reversed[__brev(i) >> (32 - log_size)] = values[i];
}

// Joins neighbouring transforms of 2^log_half elements into ones of twice the length.
static __global__ void butterflies(uint64_t *values, const uint64_t *domain, uint32_t log_half, uint32_t log_size)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 1u << (log_size - 1))
        return;
    const uint32_t half = 1u << log_half;
    const uint32_t offset = i & (half - 1);
    const uint32_t first = ((i >> log_half) << (log_half + 1)) + offset;
    // The inverse of w^k is w^(n - k), so the domain's own table serves.
    const uint32_t power = offset << (log_size - log_half - 1);
    const uint64_t twiddle = domain[((1u << log_size) - power) & ((1u << log_size) - 1)];
    const uint64_t even = values[first];
    const uint64_t odd = ff::mul(values[first + half], twiddle);
    values[first] = ff::add(even, odd);
    values[first + half] = ff::sub(even, odd);
}

static __global__ void scale(uint64_t *values, uint64_t factor, uint32_t size)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        values[i] = ff::mul(values[i], factor);
}

Status inverse(const uint64_t *values, const uint64_t *domain, uint64_t *coefficients, uint32_t log_size)
{
    const uint32_t size = 1u << log_size;
    const uint32_t blocks = (size + THREADS - 1) / THREADS;
    bit_reverse<<<blocks, THREADS>>>(values, coefficients, log_size);
    CUDA_TRY(cudaGetLastError());
    for (uint32_t log_half = 0; log_half < log_size; ++log_half) {
        butterflies<<<blocks, THREADS>>>(coefficients, domain, log_half, log_size);
        CUDA_TRY(cudaGetLastError());
    }
    scale<<<blocks, THREADS>>>(coefficients, ff::inverse(size), size);
    CUDA_TRY(cudaGetLastError());
    return OK;
}

} // namespace ntt

extern "C" const char *gpu_prover_ntt_tag()
{
    return PROVER_BUILD_TAG;
}
