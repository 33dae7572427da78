// How the multi-scalar product sorts points: a scalar is WINDOWS digits, and each digit of each window has a bucket.
#pragma once

#include "curve/point.cuh"

namespace msm {

constexpr uint32_t WINDOW_BITS = 8;
constexpr uint32_t WINDOWS = 64 / WINDOW_BITS;
constexpr uint32_t BUCKETS = (1u << WINDOW_BITS) - 1; // digit 0 adds nothing and has none

static_assert(WINDOWS * WINDOW_BITS == 64, "the windows must cover a scalar");

__host__ __device__ inline uint32_t digit(uint64_t scalar, uint32_t window)
{
    return static_cast<uint32_t>(scalar >> (window * WINDOW_BITS)) & BUCKETS;
}

} // namespace msm
